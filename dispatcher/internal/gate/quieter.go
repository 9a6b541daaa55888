package gate

import (
	"sync"
	"time"
)

// maxSubjects bounds what a quieter remembers a minute: anybody can make up
// terminals. What is beyond is not told at all, only counted.
const maxSubjects = 4096

// subject is what is told at most once a minute. reason is empty when the
// terminal alone counts.
type subject struct {
	who    terminal
	reason Reason
}

// quieter says what is worth telling: each subject once in a minute, and no
// more subjects than it can remember.
type quieter struct {
	mu        sync.Mutex
	began     time.Time
	now, past map[subject]time.Time // told since began, and in the stretch before
}

func newQuieter() *quieter { return &quieter{now: map[subject]time.Time{}} }

// first reports whether the subject was not told within the last minute, and
// counts it as told.
func (q *quieter) first(s subject, at time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at.Sub(q.began) >= quiet {
		q.began, q.past, q.now = at, q.now, map[subject]time.Time{}
	}
	told, known := q.now[s]
	if !known {
		told, known = q.past[s]
	}
	if (known && at.Sub(told) < quiet) || len(q.now) >= maxSubjects {
		return false
	}
	q.now[s] = at
	return true
}
