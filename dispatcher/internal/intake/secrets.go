package intake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/internal/redact"
)

// AlarmSecret is the kind of the alarm that a terminal sent a secret in clear:
// its own redaction missed it. Headquarters blacked it out before it stored or
// logged anything, but it has crossed the wire, so it is worth a new one.
const AlarmSecret = "secret_in_result"

const (
	// quiet is the least time between two warnings and alarms about secrets of
	// one terminal: each of its results is likely to bring the same one.
	quiet = time.Minute
	// maxLeaky bounds how many terminals that time is kept of.
	maxLeaky = 4096
	// maxLogged bounds what the log shows of a message that cannot be read.
	maxLogged = 256
)

// cleaner blacks out the secrets in what a terminal said and counts them.
type cleaner struct{ places int }

func (c *cleaner) text(s string) string {
	clean, places := redact.Text(s)
	c.places += places
	return clean
}

func (c *cleaner) document(doc []byte) []byte {
	clean, places := redact.JSON(doc)
	c.places += places
	return clean
}

func (c *cleaner) scanned(doc protocol.Document) []byte {
	clean, places := redact.Document(doc)
	c.places += places
	return clean
}

func (c *cleaner) fault(f *fault) *fault {
	return &fault{f.code, c.text(f.path), c.text(f.message)}
}

// leaks knows which terminals were told of. The zero value is ready; it is safe
// for concurrent use.
type leaks struct {
	mu   sync.Mutex
	told map[terminal]time.Time
}

// first reports whether it is time to tell of the terminal, and notes that it
// is done.
func (l *leaks) first(who terminal, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.told[who]; known && now.Sub(last).Abs() < quiet {
		return false
	}
	if l.told == nil || len(l.told) >= maxLeaky {
		l.told = make(map[terminal]time.Time)
	}
	l.told[who] = now
	return true
}

// leaked counts an answer that held secrets and tells of it, where it came from
// and never what it said.
func (i *Intake) leaked(ctx context.Context, a arrival, job string, places int) {
	if places == 0 {
		return
	}
	i.stats.redacted.Add(1)
	if !i.leaks.first(a.who, i.cfg.Now()) {
		return
	}
	i.log.WarnContext(ctx, "a result held secrets that its terminal should have blacked out", "job", job, "task_id", a.message.TaskID,
		"attempt", a.message.Attempt, "store_id", a.who.store, "terminal_id", a.who.id, "places", places)
	i.alarm(AlarmSecret, a.who, fmt.Errorf("job %s, task %s, attempt %d of store %s, terminal %s: %d secrets came in clear",
		job, a.message.TaskID, a.message.Attempt, a.who.store, a.who.id, places))
}

// legible is the start of what a terminal sent, for the log.
func legible(said []byte) string { return redact.Excerpt(said, maxLogged) }
