// Package route finds who subscribed to a topic.
//
// It takes the place of the MQTT library's own index, which costs 2 KiB a
// subscription and allocates a KiB for each message that it looks up. It sends
// nothing, and asks nobody whether a client may read.
package route

import (
	"math/rand/v2"
	"strings"
	"sync"
)

// Options are what a client asked for with a subscription.
type Options struct {
	Identifier        int // 0: none
	QoS               byte
	NoLocal           bool
	RetainAsPublished bool
}

// Reader is a client that is to be sent a message, once, whatever number of its
// subscriptions match: with the highest QoS of them and all their identifiers.
type Reader struct {
	Client string
	Options
	Identifiers []int
}

// Table holds subscriptions. The zero value is empty and ready; it must not be
// copied. Safe for concurrent use.
type Table struct {
	mu   sync.RWMutex
	root node
	size int
}

type node struct {
	children few[string, *node]
	readers  few[who, Options]
}

// who holds a subscription; group is that of a shared one.
type who struct{ client, group string }

// Share splits "$share/{group}/{filter}" (MQTT 5, 4.8.2); group is empty for a
// filter that is not shared.
func Share(filter string) (group, inner string) {
	prefix, rest, more := strings.Cut(filter, "/")
	if !more || !strings.EqualFold(prefix, "$share") {
		return "", filter
	}
	group, inner, _ = strings.Cut(rest, "/")
	return group, inner
}

// Set adds a client's subscription, or replaces its options. It reports whether
// the subscription is new. The filter must be well formed.
func (t *Table) Set(filter, client string, o Options) (added bool) {
	group, rest := Share(strings.Clone(filter))
	t.mu.Lock()
	defer t.mu.Unlock()
	at := &t.root
	for more := true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		next, ok := at.children.get(level)
		if !ok {
			next = &node{}
			at.children.set(level, next)
		}
		at = next
	}
	if added = at.readers.set(who{client, group}, o); added {
		t.size++
	}
	return added
}

// Remove takes a client's subscription out. It reports whether there was one.
func (t *Table) Remove(filter, client string) (removed bool) {
	group, inner := Share(filter)
	t.mu.Lock()
	defer t.mu.Unlock()
	if removed = t.root.remove(inner, who{client, group}); removed {
		t.size--
	}
	return removed
}

// remove takes a subscription out from under n, and the nodes that hold nothing
// any more with it.
func (n *node) remove(filter string, w who) (removed bool) {
	level, rest, more := strings.Cut(filter, "/")
	child, ok := n.children.get(level)
	switch {
	case !ok:
		return false
	case more:
		removed = child.remove(rest, w)
	default:
		removed = child.readers.remove(w)
	}
	if child.children.len() == 0 && child.readers.len() == 0 {
		n.children.remove(level)
	}
	return removed
}

// Has reports whether a client holds a subscription.
func (t *Table) Has(filter, client string) bool {
	group, rest := Share(filter)
	t.mu.RLock()
	defer t.mu.RUnlock()
	at := &t.root
	for more, ok := true, false; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		if at, ok = at.children.get(level); !ok {
			return false
		}
	}
	_, held := at.readers.get(who{client, group})
	return held
}

// Len is how many subscriptions there are.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.size
}

// Any reports whether anybody subscribed to a topic.
func (t *Table) Any(topic string) (found bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.root.match(topic, hidden(topic), func(n *node) { found = found || n.readers.len() > 0 })
	return found
}

// Readers appends those who are to be sent a message on a topic. Of each group
// that shares a subscription that is one, by chance.
func (t *Table) Readers(topic string, into []Reader) []Reader {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.root.match(topic, hidden(topic), func(n *node) { into = n.collect(into) })
	return into
}

// hidden reports whether wildcards on the first level leave a topic out (MQTT 5,
// 4.7.2).
func hidden(topic string) bool { return strings.HasPrefix(topic, "$") }

// match visits the nodes below n whose filters match what is left of a topic.
func (n *node) match(topic string, hidden bool, visit func(*node)) {
	level, rest, more := strings.Cut(topic, "/")
	if child, ok := n.children.get(level); ok {
		child.descend(rest, more, visit)
	}
	if hidden {
		return
	}
	if child, ok := n.children.get("+"); ok {
		child.descend(rest, more, visit)
	}
	if child, ok := n.children.get("#"); ok {
		visit(child)
	}
}

func (n *node) descend(rest string, more bool, visit func(*node)) {
	if more {
		n.match(rest, false, visit)
		return
	}
	visit(n)
	if child, ok := n.children.get("#"); ok { // "a/#" matches "a" too
		visit(child)
	}
}

// collect appends the readers of one filter, and merges those that came by another.
func (n *node) collect(into []Reader) []Reader {
	before := len(into)
	var byName map[string]int
	if before > fewAtMost {
		byName = make(map[string]int, before)
		for i, r := range into {
			byName[r.Client] = i
		}
	}
	add := func(client string, o Options) {
		i, ok := byName[client]
		for j := 0; byName == nil && j < before; j++ {
			if into[j].Client == client {
				i, ok = j, true
			}
		}
		if !ok {
			i = len(into)
			into = append(into, Reader{Client: client, Options: o})
		}
		into[i].merge(o)
	}
	var chosen map[string]choice
	n.readers.each(func(w who, o Options) {
		if w.group == "" {
			add(w.client, o)
			return
		}
		if chosen == nil {
			chosen = map[string]choice{}
		}
		chosen[w.group] = chosen[w.group].or(w.client, o)
	})
	for _, c := range chosen {
		add(c.client, c.options)
	}
	return into
}

// merge adds what another subscription of the same client asks for.
func (r *Reader) merge(o Options) {
	r.QoS = max(r.QoS, o.QoS)
	r.NoLocal = r.NoLocal || o.NoLocal
	if o.Identifier > 0 {
		r.Identifiers = append(r.Identifiers, o.Identifier)
	}
}

// choice is the one of a group that was taken by chance, of those seen.
type choice struct {
	client  string
	options Options
	seen    int
}

func (c choice) or(client string, o Options) choice {
	c.seen++
	if rand.IntN(c.seen) == 0 {
		c.client, c.options = client, o
	}
	return c
}
