package presence

import (
	"context"
	"time"

	"muster/internal/protocol"
)

// On an external broker a terminal may have connected before headquarters did,
// and said its hello to nobody. Its retained presence says that it is there, so
// headquarters asks for a hello: with a sync that answers none. The same
// question clears up what the broker forgot or never learned while it was down.
const (
	// askAfter leaves a terminal that connects now the time to say its hello
	// unasked; it does so within a tenth of a second.
	askAfter = time.Second
	// askAgain is the pause before a question without an answer is repeated.
	askAgain = 15 * time.Second
	// maxAsked is how often a terminal is asked. One that is there answers in
	// 2 s. After so many, 76 s, it is taken to be gone: longer than a broker
	// needs to notice that a connection died, and than a terminal to come back
	// to a broker that restarted.
	maxAsked = 5
)

// question is a terminal that is to be asked for its hello, in one round of
// asking; a hello, a new session or another round settles it.
type question struct {
	st    *state
	round int
	at    time.Time // by time.Now
}

// Reached says that headquarters reached an external broker anew, and that any
// word may be lost: everybody who was there is asked for a hello.
func (p *Presence) Reached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.known {
		if st.online {
			p.doubt(st)
		}
	}
}

// doubt begins a round of asking a terminal; p.mu is held.
func (p *Presence) doubt(st *state) {
	st.round++
	st.asked, st.doubted = 0, p.cfg.Now()
	p.ask(question{st: st, round: st.round, at: p.cfg.Awake().Add(askAfter)})
}

// ask queues a question; p.mu is held.
func (p *Presence) ask(q question) {
	queue := &p.soon
	if q.st.asked > 0 {
		queue = &p.again
	}
	*queue = append(*queue, q)
	select {
	case p.asking <- struct{}{}:
	default:
	}
}

// heard notes a hello: the terminal is there, even if it was taken to be gone.
func (p *Presence) heard(who terminal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st, now := p.known[who], p.cfg.Now()
	if st == nil { // its birth is on its way
		st = &state{who: who}
		p.known[who] = st
	}
	st.heard, st.doubted = time.Now(), time.Time{}
	if st.silent {
		p.count(st, true)
		st.silent, st.online, st.began, st.since, st.stored = false, true, now, now, ""
		p.mark(st)
	}
}

// rollCall asks those who are due until ctx ends.
func (p *Presence) rollCall(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		q, wait := p.nextQuestion()
		if wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-p.asking:
			case <-timer.C:
			}
			continue
		}
		_ = p.alone(q.st.who, func() error { p.put(ctx, q); return nil })
	}
}

// nextQuestion takes out the question that is due, or says how long to wait.
func (p *Presence) nextQuestion() (q question, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = time.Hour
	for _, queue := range []*[]question{&p.soon, &p.again} {
		if len(*queue) == 0 {
			continue
		}
		first := (*queue)[0]
		left := first.at.Sub(p.cfg.Awake())
		if left <= 0 {
			*queue = (*queue)[1:]
			return first, 0
		}
		wait = min(wait, left)
	}
	return question{}, wait
}

// put asks one terminal, unless the question is settled by now.
func (p *Presence) put(ctx context.Context, q question) {
	who := q.st.who
	switch due, gone := p.asks(q); {
	case gone:
		p.log.Warn("terminal is silent and taken to be gone", "store_id", who.store, "terminal_id", who.id)
		p.tellOffline(who)
	case due:
		order := protocol.Order{Order: protocol.OrderSync, Partial: true, ServerTimeMs: p.cfg.Now().UnixMilli()}
		if err := p.cfg.Orders.Order(ctx, who.store, who.id, order); err != nil {
			p.log.Debug("a terminal could not be asked for its hello", "store_id", who.store, "terminal_id", who.id, "error", err)
		}
	}
}

// asks counts a question and queues the next one, or takes the terminal to be gone
// after the last.
func (p *Presence) asks(q question) (due, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := q.st
	if st.doubted.IsZero() || !st.online || st.round != q.round {
		return false, false
	}
	if st.asked == maxAsked {
		p.count(st, false)
		st.silent, st.online, st.since, st.doubted = true, false, st.doubted, time.Time{}
		p.mark(st)
		return false, true
	}
	st.asked++
	p.ask(question{st: st, round: q.round, at: p.cfg.Awake().Add(askAgain)})
	return true, false
}
