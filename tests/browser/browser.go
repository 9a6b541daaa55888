// Package browser opens pages in a real Chromium for tests: it drives it over its
// debugging pipe, listens to what a page asks of the network and complains about, and
// has it judged by axe.
//
// It needs chromium, and npm for axe; a test that lacks them says that it skips.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"muster/tests/programs"
)

// patience bounds one answer of the browser, on a machine that does much else.
const patience = 2 * time.Minute

// Browser is a running Chromium. It ends with its test.
type Browser struct {
	t  testing.TB
	in *os.File

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	tabs    map[string]*Tab
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

type reply struct {
	result json.RawMessage
	err    error
}

// Open starts a browser with a profile of its own.
func Open(t testing.TB) *Browser {
	t.Helper()
	path := programs.Installed(t, "chromium")
	theirs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, their, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", //nolint:gosec // it is the machine's
		"--disable-background-networking", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, their}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start %s: %v", path, err)
	}
	_, _ = theirs.Close(), their.Close()
	b := &Browser{t: t, in: in, waiting: map[int]chan reply{}, tabs: map[string]*Tab{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.listen(bufio.NewReaderSize(out, 1<<20))
	}()
	t.Cleanup(func() {
		_ = in.Close() // it ends when the pipe does
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-ended
		_ = out.Close()
		if t.Failed() && said.Len() > 0 {
			t.Logf("the browser said: %.2000s", said.String())
		}
	})
	return b
}

func (b *Browser) listen(out *bufio.Reader) {
	for {
		raw, err := out.ReadBytes(0)
		if err != nil {
			break
		}
		var m struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		if answer := b.waiting[m.ID]; m.ID != 0 && answer != nil {
			delete(b.waiting, m.ID)
			r := reply{result: m.Result}
			if m.Error != nil {
				r.err = fmt.Errorf("the browser refuses: %s", m.Error.Message)
			}
			answer <- r
		} else if tab := b.tabs[m.SessionID]; tab != nil {
			tab.hear(m.Method, m.Params)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, answer := range b.waiting {
		answer <- reply{err: fmt.Errorf("the browser ended")}
	}
	clear(b.waiting)
}

// call asks for one thing and decodes its result.
func (b *Browser) call(session, method string, params, into any) {
	b.t.Helper()
	answer := make(chan reply, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.waiting[id] = answer
	b.mu.Unlock()
	doc, err := json.Marshal(message{ID: id, Method: method, SessionID: session, Params: params})
	if err == nil {
		_, err = b.in.Write(append(doc, 0))
	}
	if err != nil {
		b.t.Fatalf("cannot ask the browser for %s: %v", method, err)
	}
	select {
	case r := <-answer:
		if r.err != nil {
			b.t.Fatalf("%s: %v", method, r.err)
		}
		if into != nil {
			if err := json.Unmarshal(r.result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("the browser does not answer %s", method)
	}
}
