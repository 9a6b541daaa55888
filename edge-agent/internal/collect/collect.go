// Package collect does the work of the job collect_log at a terminal: it reads the logs and the configuration files of
// one business day of the store and sums them up in one bounded JSON document. It only reads; it must never change,
// lock or hold up a file, wait on a pipe, let a secret out, or fail a whole run for one bad file.
//
// DESIGN. The day is the store's own: from the first instant of the date in the store's time zone up to, and without,
// the first instant of the next, so it has 23, 24 or 25 hours. "yesterday" is counted from when headquarters ordered
// the run, not from when the terminal gets to it.
//
// Each file is streamed once, newest first: raw bytes are hashed as they lie, unpacked (package sources), decoded line
// by line (package textenc, which states the rule for encodings), stamped (package stamp) and counted (package tally).
// A line without a time of its own belongs to the line before, as stack traces do. When all are read the globs are
// looked up once more, so that a file that a rotation renamed in the meantime is neither missed nor counted twice.
//
// Everything that is shown has gone through package redact. The result is then cut to its bound (fit.go) in a fixed
// order, and what was cut is counted in it. All that is wrong with a file or a glob stands under "problems".
package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // a terminal may have no zone data of its own

	"muster/edge-agent/internal/collect/sources"
	"muster/edge-agent/internal/collect/tally"
)

// Collector collects by one configuration. It is safe for concurrent use.
type Collector struct {
	config      Config
	location    *time.Location
	logs        []*sources.Glob
	configFiles []*sources.Glob
	encodings   []declaredEncoding

	// onRead is called after each file with its path; tests change files there.
	onRead func(path string)
}

// New checks a configuration and returns its collector. The error names the key and the value that it refuses.
func New(config Config) (*Collector, error) {
	config = config.Filled()
	location, err := config.check()
	if err != nil {
		return nil, err
	}
	c := &Collector{config: config, location: location, onRead: func(string) {}}
	if c.logs, err = globs("logs", config.Logs, true); err != nil {
		return nil, err
	}
	if c.configFiles, err = globs("config_files", config.ConfigFiles, false); err != nil {
		return nil, err
	}
	if c.encodings, err = declaredEncodings(config.Encodings); err != nil {
		return nil, err
	}
	return c, nil
}

// Collect does one run. input is the job's input (schemas/collect_log_input.v1.schema.json); empty means all defaults.
// asOf is when headquarters ordered the run. The result follows schemas/collect_log_output.v1.schema.json and is at
// most Config.MaxResultBytes long. The error is the context's, or says what is wrong with the input.
func (c *Collector) Collect(ctx context.Context, input json.RawMessage, asOf time.Time) (json.RawMessage, error) {
	order, err := parseInput(input)
	if err != nil {
		return nil, fmt.Errorf("cannot use the input: %w", err)
	}
	day, err := order.day(asOf, c.location)
	if err != nil {
		return nil, fmt.Errorf("cannot use the input: %w", err)
	}
	r := &run{
		collector: c, day: day, asOf: asOf, order: order,
		messages: tally.NewMessages(), excerpt: tally.NewExcerpt(order.excerptLines),
		left: c.config.MaxReadBytes, cut: map[*sources.Glob]bool{},
	}
	if err := r.readLogs(ctx); err != nil {
		return nil, err
	}
	if err := r.readConfig(ctx); err != nil {
		return nil, err
	}
	result, err := fit(r.output(), c.config.MaxResultBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot write the result: %w", err)
	}
	return result, nil
}
