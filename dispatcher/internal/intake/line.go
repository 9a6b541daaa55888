package intake

import (
	"cmp"
	"slices"
	"time"
)

// terminal is an address.
type terminal struct{ store, id string }

// upload names the result of one attempt.
type upload struct {
	task    string
	attempt int
}

// announced is a result that is ready at its terminal.
type announced struct {
	upload
	who      terminal
	bytes    int
	priority int
	turn     uint64    // the order of asking
	paid     int       // bytes that the budget has paid for
	away     bool      // its terminal is offline
	heard    bool      // its terminal answered the call
	until    time.Time // when its turn ends, by time.Now
}

// line holds what is announced: waiting in order of priority, then of asking,
// or sending because it was called for.
type line struct {
	entries map[upload]*announced
	waiting []*announced
	sending map[upload]*announced
	turns   uint64
}

func newLine() line {
	return line{entries: map[upload]*announced{}, sending: map[upload]*announced{}}
}

func goesBefore(a, b *announced) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.turn, b.turn))
}

// announce puts a result in line. One that is in line already keeps its place
// and is back if it was away; called tells that it was called for before.
func (l *line) announce(u upload, who terminal, bytes, priority int) (called bool) {
	if e := l.entries[u]; e != nil {
		e.away = false
		return l.sending[u] != nil
	}
	l.turns++
	e := &announced{upload: u, who: who, bytes: bytes, priority: priority, turn: l.turns}
	l.entries[u] = e
	l.insert(e)
	return false
}

func (l *line) insert(e *announced) {
	at, _ := slices.BinarySearchFunc(l.waiting, e, goesBefore)
	l.waiting = slices.Insert(l.waiting, at, e)
}

// first returns whose turn it is, or nil. A terminal that sends has no second turn.
func (l *line) first() *announced {
	for _, e := range l.waiting {
		if !e.away && !l.sends(e.who) {
			return e
		}
	}
	return nil
}

func (l *line) sends(who terminal) bool {
	for _, e := range l.sending {
		if e.who == who {
			return true
		}
	}
	return false
}

// call moves a waiting result to those that are sent. Its terminal has to be
// heard until the given time.
func (l *line) call(e *announced, until time.Time) {
	l.leave(e)
	e.heard, e.until = false, until
	l.sending[e.upload] = e
}

// hear gives what a terminal was called for the time that sending takes. It
// reports whether anything changed.
func (l *line) hear(who terminal, now time.Time) (changed bool) {
	for _, e := range l.sending {
		if e.who == who && !e.heard {
			e.heard, e.until, changed = true, now.Add(sendTime(e.bytes)), true
		}
	}
	return changed
}

// remove takes a result out of the line, and reports whether it was there.
func (l *line) remove(u upload) bool {
	e := l.entries[u]
	if e == nil {
		return false
	}
	delete(l.entries, u)
	if l.sending[u] != nil {
		delete(l.sending, u)
	} else {
		l.leave(e)
	}
	return true
}

func (l *line) leave(e *announced) {
	if at, found := slices.BinarySearchFunc(l.waiting, e, goesBefore); found {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
}

// offline marks a terminal's results as away. What it was sending goes back to
// its old place and has to be paid for again, because it will be sent again.
func (l *line) offline(who terminal) (away []*announced) {
	for u, e := range l.entries {
		if e.who != who || e.away {
			continue
		}
		e.away = true
		if l.sending[u] != nil {
			delete(l.sending, u)
			e.paid = 0
			l.insert(e)
		}
		away = append(away, e)
	}
	return away
}

// overdue removes what was called for and did not come in time, and tells how
// long until the next one is due, 0 when none is sent.
func (l *line) overdue(now time.Time) (late []*announced, next time.Duration) {
	for u, e := range l.sending {
		wait := e.until.Sub(now)
		if wait <= 0 {
			late = append(late, e)
			l.remove(u)
			continue
		}
		next = sooner(next, wait)
	}
	return late, next
}

func sooner(due, wait time.Duration) time.Duration {
	if due == 0 || wait == 0 {
		return max(due, wait)
	}
	return min(due, wait)
}
