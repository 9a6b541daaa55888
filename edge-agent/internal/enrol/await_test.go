package enrol_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/edge-agent/internal/enrol"
	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/internal/trust"
)

// logbook takes a log in, for one who waits for a line of it.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes a line in.
func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) await(t *testing.T, words string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, words) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say %q: %s", words, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// waiting is an enrolment that waits for its token.
type waiting struct {
	*bench
	log   logbook
	token string // file
	stop  context.CancelFunc
	ended chan error
}

func (b *bench) await() *waiting {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	w := &waiting{bench: b, token: filepath.Join(b.t.TempDir(), "token"), stop: stop, ended: make(chan error, 1)}
	go func() {
		_, err := enrol.Await(ctx, enrol.Request{URL: b.hq.URL, Folder: b.folder, Store: holder.Store, Terminal: holder.Terminal},
			w.token, slog.New(slog.NewTextHandler(&w.log, nil)))
		w.ended <- err
	}()
	w.log.await(b.t, "waits for the token of its enrolment")
	return w
}

func (w *waiting) end() error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		w.t.Fatal("it waits for ever")
		return nil
	}
}

func (w *waiting) write(text string, mode os.FileMode) {
	w.t.Helper()
	if err := errors.Join(os.WriteFile(w.token+".new", []byte(text), mode), os.Rename(w.token+".new", w.token)); err != nil {
		w.t.Fatal(err)
	}
}

func TestATerminalWaitsForItsTokenAndForHeadquarters(t *testing.T) {
	t.Parallel()
	w := newBench(t).await()
	w.hq.Lose(2) // as http tries once more by itself
	w.write(w.hq.Token(holder)+"\n", 0o600)
	w.log.await(t, "not enrolled yet")
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	w.open()
}

func TestAWaitIsBrokenOff(t *testing.T) {
	t.Parallel()
	w := newBench(t).await()
	w.stop()
	if err := w.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestATokenThatWillNeverDoEndsTheWaitAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token func(*bench) string
		mode  os.FileMode
		want  string
	}{
		"unknown": {func(b *bench) string {
			return "mt1." + strings.Repeat("A", 43) + "." + strings.SplitN(b.hq.Token(holder), ".", 3)[2]
		}, 0o600, "NOT_ALLOWED: the token is unknown"},
		"another terminal's": {func(b *bench) string { return b.hq.Token(trust.Holder{Store: "008", Terminal: "pos-1"}) }, 0o600, "the token is for another terminal"},
		"another authority's": {func(*bench) string {
			other := hqtest.New(t)
			return other.Enrol(other.Server(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))).Token(holder)
		}, 0o600, "this is not the headquarters that made the token"},
		"none":           {func(*bench) string { return "hello" }, 0o600, "this is no token of headquarters"},
		"open to others": {func(b *bench) string { return b.hq.Token(holder) }, 0o644, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBench(t).await()
			w.write(c.token(w.bench), c.mode)
			if err := w.end(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "put a new token of dispatcher enroll into "+w.token) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if identity.Finished(w.folder) {
				t.Error("it enrolled")
			}
		})
	}
}
