package logs

import (
	"sync"
	"time"
)

const (
	// sparingEvery is how often one key is told of: whoever causes a line with
	// each message must not fill the disk with them.
	sparingEvery = time.Minute
	// maxKeys bounds the keys that are told apart, and so the lines of a minute:
	// strangers make keys up. A line a minute tells of what is beyond.
	maxKeys = 1024
	// maxKey bounds a key, in bytes; longer ones that begin alike are one.
	maxKey = 160
)

// Sparing says which of many lines that strangers cause are worth writing: of
// each key one a minute, with the number of those that were left out. The zero
// value is ready; safe for concurrent use. It counts lines, not what they tell
// of: a step keeps its own counters.
type Sparing struct {
	mu    sync.Mutex
	keys  map[string]*spared
	rest  spared    // of the keys beyond maxKeys
	swept time.Time // when there was no room last
}

// spared is what is remembered of a key.
type spared struct {
	told time.Time
	left int64
}

// Due reports whether a line of the key, such as user and code, is to be written
// at a time, and how many lines like it were left out since the last one. Write
// that number into the line.
func (s *Sparing) Due(key string, at time.Time) (leftOut int64, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(key[:min(len(key), maxKey)], at).due(at)
}

// of returns what is remembered of the key, or where the rest is counted.
func (s *Sparing) of(key string, at time.Time) *spared {
	if known := s.keys[key]; known != nil {
		return known
	}
	if len(s.keys) >= maxKeys && (s.swept.IsZero() || !recent(s.swept, at, time.Second)) {
		s.sweep(at)
	}
	if len(s.keys) >= maxKeys {
		return &s.rest
	}
	if s.keys == nil {
		s.keys = map[string]*spared{}
	}
	fresh := &spared{}
	s.keys[key] = fresh
	return fresh
}

// sweep forgets the keys that are due anyway; what was left out of them goes to
// the rest.
func (s *Sparing) sweep(at time.Time) {
	s.swept = at
	for key, k := range s.keys {
		if !recent(k.told, at, sparingEvery) {
			s.rest.left += k.left
			delete(s.keys, key)
		}
	}
}

func (k *spared) due(at time.Time) (leftOut int64, due bool) {
	if !k.told.IsZero() && recent(k.told, at, sparingEvery) {
		k.left++
		return 0, false
	}
	leftOut, k.left, k.told = k.left, 0, at
	return leftOut, true
}

// recent reports whether then is less than d before at. A clock that was set
// back makes nothing recent.
func recent(then, at time.Time, d time.Duration) bool {
	age := at.Sub(then)
	return age >= 0 && age < d
}
