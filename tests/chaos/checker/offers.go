package checker

import (
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

// offers: after a broker came back, each open task's offer is there again for
// whoever subscribes.
func offers(b *book) {
	for _, f := range b.faults {
		if f.end == 0 || f.name != faultBroker && f.name != faultDispatcher {
			continue
		}
		for _, s := range b.subscriptions(f.end) {
			for _, t := range b.ofStore[s.store] {
				if !b.mustBeOffered(t, f, s.until) {
					continue
				}
				b.weigh("offers", 1)
				if !b.wasOffered(s, t, f.end) {
					b.broken(Finding{Task: t.TaskID, Line: s.line.Source},
						"the %s was back at %s, %s subscribed at %s and was not offered the open task until %s",
						f.name, moment(f.end), s.line.Who, moment(s.line.AtMs), moment(s.until))
				}
			}
		}
	}
}

type subscription struct {
	line  history.Line
	store string
	until int64
}

// subscriptions are the first ones of each participant to the offers of a store, over
// connections that began after a moment: an older one may lead nowhere. Where the
// connection ends too early to say anything, the next one counts.
func (b *book) subscriptions(after int64) (list []subscription) {
	seen := map[seat]bool{}
	for _, l := range b.subscribed {
		if l.since < after {
			continue
		}
		store, rest, _ := strings.Cut(strings.TrimPrefix(l.Topic, b.topics.Root()+"/stores/"), "/")
		until := l.AtMs + ms(b.limits.Reoffer)
		if rest != "tasks/+" && rest != "#" || !protocol.ValidID(store) || seen[seat{l.Who, store}] || !b.stays(l, until) {
			continue
		}
		seen[seat{l.Who, store}] = true
		list = append(list, subscription{l.Line, store, until})
	}
	return list
}

// stays: the connection does not end before until, and from its beginning on it has no
// fault of its own terminal, nor one that headquarters could feel: a connection may lead
// nowhere long before it ends.
func (b *book) stays(l subscribed, until int64) bool {
	within := func(at int64) bool { return at >= l.since && at <= until }
	return b.Store.TakenAt >= until && !slices.ContainsFunc(b.ended[l.Who], within) &&
		!slices.ContainsFunc(b.faults, func(f fault) bool {
			if f.ofTerminals() {
				return f.of(l.Who) && f.begin <= until && (f.end == 0 || f.end >= l.since)
			}
			return within(f.begin)
		})
}

// mustBeOffered: the task was open from before the fault's end until after the
// wait.
func (b *book) mustBeOffered(t Task, f fault, until int64) bool {
	return t.CreatedAt <= f.end && (t.SettledAt == 0 || t.SettledAt > until)
}

func (b *book) wasOffered(s subscription, t Task, from int64) bool {
	got := b.offered[seat{s.line.Who, b.topics.Offer(t.StoreID, t.TaskID)}]
	return slices.ContainsFunc(got, func(at int64) bool { return at >= from && at <= s.until })
}
