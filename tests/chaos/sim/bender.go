package sim

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/tap"
)

// latest bounds how long a message is kept back for others to overtake it.
const latest = 15 * time.Second

// remembered is how many messages of a direction may come again.
const remembered = 60

// lossEvery is the least time between two losses on one line: all is sent again,
// and a line that loses everything is another fault.
const lossEvery = 30 * time.Second

// bender is the bad broker between one terminal and headquarters.
type bender struct {
	seat *seat
	odds Odds

	mu   sync.Mutex
	rng  *rand.Rand
	old  map[bool][]tap.Message // by direction
	lost time.Time

	offers map[string]tap.Message // by task, the newest
	held   map[string]tap.Message // grants that wait for the cancel of their task
}

// pass says what becomes of a message, and tells the faults that it is there.
func (b *bender) pass(m tap.Message) []tap.Passage {
	w := b.seat.world
	w.happens(momentOf(m), b.seat)
	if w.calm.Load() {
		return tap.Straight(m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.old == nil {
		b.old = map[bool][]tap.Message{}
	}
	if passages, bent := b.overtaken(m); bent {
		return passages
	}
	memory := slices.Concat(b.old[m.Sent], []tap.Message{m})
	b.old[m.Sent] = memory[max(0, len(memory)-remembered):]
	passages := tap.Straight(m)
	switch {
	case b.hits(b.odds.Lost) && time.Since(b.lost) > lossEvery:
		b.lost = time.Now()
		w.check(w.eye.Fault(b.seat.suffers("lost"), false)) // what hangs on it is not judged
		passages = nil
	case b.hits(b.odds.Late):
		passages[0].After = between(b.rng, time.Millisecond, latest)
		if momentOf(m) == "offer" {
			w.check(w.eye.Fault(b.seat.suffers("late"), false))
		}
	case b.hits(b.odds.Double):
		passages = append(passages, tap.Passage{Message: m, After: time.Duration(b.rng.IntN(2)) * between(b.rng, 0, latest)})
	}
	if b.hits(b.odds.Replay) {
		passages = append(passages, tap.Passage{Message: memory[b.rng.IntN(len(memory))]})
	}
	return passages
}

// behind is how long after a cancel what it overtook comes.
const behind = time.Second

// overtaken keeps a grant back that is to be countermanded, and has it follow its
// cancel, with its offer once more.
func (b *bender) overtaken(m tap.Message) (passages []tap.Passage, bent bool) {
	switch momentOf(m) {
	case "offer":
		if b.offers == nil {
			b.offers, b.held = map[string]tap.Message{}, map[string]tap.Message{}
		}
		b.offers[taskOf(m)] = m
	case "grant":
		task := taskOf(m)
		offer, offered := b.offers[task]
		if !offered || !b.seat.world.countermands(b.seat, offer) {
			return nil, false
		}
		b.held[task] = m
		return nil, true
	case "cancel":
		grant, held := b.held[taskOf(m)]
		if !held {
			return nil, false
		}
		delete(b.held, taskOf(m))
		return []tap.Passage{{Message: m}, {Message: grant, After: behind}, {Message: b.offers[taskOf(m)], After: 2 * behind}}, true
	}
	return nil, false
}

// taskOf is the task that an offer or order names.
func taskOf(m tap.Message) string {
	var named struct {
		TaskID string `json:"taskId"`
	}
	if json.Unmarshal(m.Payload, &named) != nil {
		return ""
	}
	return named.TaskID
}

func (b *bender) hits(odds int) bool { return b.rng.IntN(1000) < odds }

// momentOf names a message as faults wait for it.
func momentOf(m tap.Message) string {
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return ""
	}
	addr, ok := topics.Parse(m.Topic)
	if !ok {
		return ""
	}
	switch addr.Kind {
	case protocol.KindOffer:
		if len(m.Payload) == 0 {
			return "withdrawal"
		}
		return "offer"
	case protocol.KindOrders:
		var order protocol.Order
		if protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &order) != nil {
			return ""
		}
		return string(order.Order)
	default:
		return string(addr.Kind)
	}
}
