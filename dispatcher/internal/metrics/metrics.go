// Package metrics writes measurements in the text format that Prometheus and its
// like read (version 0.0.4), by its rules: base units, counters that end in _total,
// HELP and TYPE before the samples of a name.
//
// It measures nothing and knows no name: the wiring does. The library of Prometheus
// brings ten modules and a registry for what is a page of text here.
package metrics

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ContentType is that of a page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Sample is one value of a name; Labels are names and values in turn.
type Sample struct {
	Labels []string
	Value  float64
}

// Of is a sample without labels.
func Of[T int | int64 | float64](value T) Sample { return Sample{Value: float64(value)} }

// Labelled is a sample with labels.
func Labelled[T int | int64 | float64](value T, labels ...string) Sample {
	return Sample{labels, float64(value)}
}

// Page is the text. The zero value is empty and ready.
type Page struct{ text bytes.Buffer }

// Bytes is what was written.
func (p *Page) Bytes() []byte { return p.text.Bytes() }

// Counter writes values that only grow, until a restart. The name ends in _total.
func (p *Page) Counter(name, help string, samples ...Sample) {
	p.family(name, help, "counter", samples)
}

// Gauge writes values that go up and down.
func (p *Page) Gauge(name, help string, samples ...Sample) { p.family(name, help, "gauge", samples) }

func (p *Page) family(name, help, kind string, samples []Sample) {
	p.head(name, help, kind)
	for _, s := range samples {
		p.sample(name, s)
	}
}

func (p *Page) head(name, help, kind string) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	fmt.Fprintf(&p.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *Page) sample(name string, s Sample) {
	p.text.WriteString(name)
	for i := 0; i+1 < len(s.Labels); i += 2 {
		opening := byte(',')
		if i == 0 {
			opening = '{'
		}
		p.text.WriteByte(opening)
		value := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(s.Labels[i+1])
		fmt.Fprintf(&p.text, `%s="%s"`, s.Labels[i], value)
	}
	if len(s.Labels) > 1 {
		p.text.WriteByte('}')
	}
	fmt.Fprintf(&p.text, " %s\n", number(s.Value))
}

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Histogram counts durations by how long they took. Call NewHistogram; it is safe
// for concurrent use.
type Histogram struct {
	bounds []float64 // seconds, growing
	counts []atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

// NewHistogram counts into buckets with these upper bounds, in seconds.
func NewHistogram(bounds ...float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// Note counts one duration.
func (h *Histogram) Note(d time.Duration) {
	at, _ := slices.BinarySearch(h.bounds, d.Seconds())
	h.counts[at].Add(1)
	h.sum.Add(int64(d))
}

// Histogram writes a histogram. The name ends in _seconds.
func (p *Page) Histogram(name, help string, h *Histogram) {
	p.head(name, help, "histogram")
	var total int64
	for i := range h.counts {
		total += h.counts[i].Load()
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		p.sample(name+"_bucket", Labelled(total, "le", number(bound)))
	}
	p.sample(name+"_sum", Of(time.Duration(h.sum.Load()).Seconds()))
	p.sample(name+"_count", Of(total))
}
