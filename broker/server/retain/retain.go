// Package retain keeps the retained messages of a broker: the newest of each
// topic, found by topic filter.
//
// It takes the place of the MQTT library's own store, which copies every
// retained message once a second and hands out no more of them on a
// subscription than the client's queue has room for. It delivers nothing
// itself and keeps nothing on disk.
package retain

import (
	"strings"
	"sync"
	"time"
)

// Message is a retained message. It must not be changed once it is set. Extra
// is the caller's, for what else travels with the message.
type Message[T any] struct {
	Topic   string
	Payload []byte
	Expires time.Time // zero: never
	Extra   T
}

func (m *Message[T]) expired(now time.Time) bool {
	return !m.Expires.IsZero() && !now.Before(m.Expires)
}

// Store holds retained messages. The zero value is empty and ready; it must not
// be copied. Safe for concurrent use.
type Store[T any] struct {
	mu   sync.RWMutex
	root node[T]
	size int
}

type node[T any] struct {
	children map[string]*node[T]
	message  *Message[T]
}

// Len is how many messages are held, expired ones that were not swept yet among
// them.
func (s *Store[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.size
}

// Set keeps m as the message of its topic. An empty payload removes the topic's
// message instead (MQTT 5, 3.3.1.3).
func (s *Store[T]) Set(m *Message[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m.Payload) == 0 {
		s.remove(&s.root, m.Topic)
		return
	}
	at := &s.root
	for rest, more := m.Topic, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		next := at.children[level]
		if next == nil {
			next = &node[T]{}
			if at.children == nil {
				at.children = map[string]*node[T]{}
			}
			at.children[strings.Clone(level)] = next
		}
		at = next
	}
	if at.message == nil {
		s.size++
	}
	at.message = m
}

// remove takes a topic's message out from under n, and the nodes that hold
// nothing any more with it.
func (s *Store[T]) remove(n *node[T], topic string) {
	level, rest, more := strings.Cut(topic, "/")
	child := n.children[level]
	if child == nil {
		return
	}
	if more {
		s.remove(child, rest)
	} else if child.message != nil {
		child.message = nil
		s.size--
	}
	if child.message == nil && len(child.children) == 0 {
		delete(n.children, level)
	}
}

// Holds reports whether m is still the message of its topic and not expired.
func (s *Store[T]) Holds(m *Message[T], now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := &s.root
	for rest, more := m.Topic, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		if at = at.children[level]; at == nil {
			return false
		}
	}
	return at.message == m && !m.expired(now)
}

// Match returns every message that a filter matches and that has not expired,
// in no particular order. Wildcards on the first level leave out topics that
// begin with "$" (MQTT 5, 4.7.2).
func (s *Store[T]) Match(filter string, now time.Time) []*Message[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []*Message[T]
	s.root.match(filter, true, func(m *Message[T]) {
		if !m.expired(now) {
			found = append(found, m)
		}
	})
	return found
}

func (n *node[T]) match(filter string, first bool, visit func(*Message[T])) {
	level, rest, more := strings.Cut(filter, "/")
	switch level {
	case "#":
		n.each(first, visit)
	case "+":
		for name, child := range n.children {
			if !hidden(name, first) {
				child.descend(rest, more, visit)
			}
		}
	default:
		if child := n.children[level]; child != nil {
			child.descend(rest, more, visit)
		}
	}
}

// descend matches what is left of a filter against n itself or below it.
func (n *node[T]) descend(rest string, more bool, visit func(*Message[T])) {
	if n.message != nil && (!more || rest == "#") { // "a/#" matches "a" too
		visit(n.message)
	}
	if more {
		n.match(rest, false, visit)
	}
}

// each visits every message below n.
func (n *node[T]) each(first bool, visit func(*Message[T])) {
	for name, child := range n.children {
		if hidden(name, first) {
			continue
		}
		if child.message != nil {
			visit(child.message)
		}
		child.each(false, visit)
	}
}

func hidden(level string, first bool) bool { return first && strings.HasPrefix(level, "$") }

// Sweep removes what has expired and returns how much that was.
func (s *Store[T]) Sweep(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var expired []string
	s.root.each(false, func(m *Message[T]) {
		if m.expired(now) {
			expired = append(expired, m.Topic)
		}
	})
	for _, topic := range expired {
		s.remove(&s.root, topic)
	}
	return len(expired)
}
