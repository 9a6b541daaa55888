package links_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/tests/programs"
)

// attributes of a toxic, in the units of its documentation: milliseconds, but
// for the bandwidth's rate (KB/s) and the slicer's delay (µs).
type attributes map[string]int

// toxic is one trouble of one link.
type toxic struct {
	Name       string     `json:"name"`
	Type       string     `json:"type"`
	Stream     string     `json:"stream"`   // upstream, to the broker, or downstream
	Toxicity   float64    `json:"toxicity"` // share of the connections that have it
	Attributes attributes `json:"attributes"`
}

// both is the trouble in both directions.
func both(kind string, a attributes) []toxic {
	return []toxic{toward("upstream", kind, a), toward("downstream", kind, a)}
}

func toward(stream, kind string, a attributes) toxic {
	return toxic{Name: kind + " " + stream, Type: kind, Stream: stream, Toxicity: 1, Attributes: a}
}

// link is one proxy of toxiproxy, as its API has it.
type link struct {
	Name     string `json:"name"`
	Listen   string `json:"listen"`
	Upstream string `json:"upstream"`
	Enabled  bool   `json:"enabled"`
}

// links drives a running toxiproxy. Its methods fail the test themselves and
// are safe for concurrent use as long as no two concern one link.
type links struct {
	t   testing.TB
	api string

	mu  sync.Mutex
	all map[string]link
}

func startLinks(t *testing.T) *links {
	t.Helper()
	address := programs.FreeAddr(t)
	l := &links{t: t, api: "http://" + address, all: map[string]link{}}
	host, port, _ := strings.Cut(address, ":")
	programs.Launch(t, "env", "LOG_LEVEL=error", program("toxiproxy/server"), "-host", host, "-port", port)
	programs.Eventually(t, "toxiproxy's API", func() bool {
		_, err := l.ask(http.MethodGet, "/version", nil)
		return err == nil
	})
	return l
}

// join makes a good link to an address and returns where it begins.
func (l *links) join(name, upstream string) string {
	l.t.Helper()
	made := link{Name: name, Listen: programs.FreeAddr(l.t), Upstream: upstream, Enabled: true}
	l.mu.Lock()
	l.all[name] = made
	l.mu.Unlock()
	l.must(http.MethodPost, "/proxies", made)
	return made.Listen
}

// spoil adds troubles to a link; connections that stand have them too.
func (l *links) spoil(name string, toxics ...toxic) {
	l.t.Helper()
	for _, x := range toxics {
		l.must(http.MethodPost, "/proxies/"+name+"/toxics", x)
	}
}

// turn sets the share of connections that have a trouble.
func (l *links) turn(name string, x toxic, toxicity float64) {
	l.t.Helper()
	l.must(http.MethodPost, "/proxies/"+name+"/toxics/"+x.Name, map[string]any{"toxicity": toxicity})
}

// cut ends all connections of a link and refuses new ones, or takes them again.
func (l *links) cut(name string, off bool) {
	l.t.Helper()
	l.must(http.MethodPost, "/proxies/"+name, map[string]any{"enabled": !off})
}

// heal makes a link good. Its connections end: taking toxics from connections
// that stand can hang toxiproxy for good, so the link is made anew.
func (l *links) heal(name string) {
	l.t.Helper()
	l.mu.Lock()
	made := l.all[name]
	l.mu.Unlock()
	l.must(http.MethodDelete, "/proxies/"+name, nil)
	l.must(http.MethodPost, "/proxies", made)
}

func (l *links) must(method, path string, body any) {
	l.t.Helper()
	if said, err := l.ask(method, path, body); err != nil {
		l.t.Fatalf("toxiproxy: %s %s: %v %s", method, path, err, said)
	}
}

// askPatience bounds one call of the API, which answers itself after 25 s.
const askPatience = 30 * time.Second

func (l *links) ask(method, path string, body any) (said []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(l.t.Context(), method, l.api+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Timeout: askPatience}).Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	said, err = io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = errors.New(answer.Status)
	}
	return said, err
}
