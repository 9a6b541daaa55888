package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/fleet"
)

// answerPatience bounds the wait for one reply; it may be that it was done.
const answerPatience = 15 * time.Second

// person is a technician who orders, asks again, withdraws and makes mistakes.
type person struct {
	soak *soak
	who  scribe
	name string
	rng  *rand.Rand
	next int
	runs []ordered // the newest, at most 8
}

// ordered is a run that was accepted, in its epoch.
type ordered struct {
	epoch   int
	id      string
	stores  int
	request string
	payload string
}

func (s *soak) newPerson(name string, n uint64) *person {
	return &person{soak: s, name: name, rng: rand.New(rand.NewPCG(s.opts.seed, 100+n)),
		who: scribe{s.ledger, history.Participant{Who: name, Role: history.RoleClient}}}
}

// work goes on until ctx ends: every is about how often something is asked, all
// how many orders of a hundred are for every store.
func (p *person) work(ctx context.Context, every time.Duration, all int) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every/2 + time.Duration(p.rng.Int64N(int64(every)))):
		}
		switch n := p.rng.IntN(100); {
		case n < 60 || len(p.runs) == 0:
			p.order(ctx, p.rng.IntN(100) < all)
		case n < 70:
			p.again(ctx)
		case n < 80:
			p.conflict(ctx)
		case n < 90:
			p.cancel(ctx)
		case n < 95:
			p.status(ctx)
		default:
			p.mistake(ctx)
		}
	}
}

// try asks over a connection of its own. The outcome is unknown when there is
// nobody, when the connection ends, and when no reply comes in time.
func (p *person) try(ctx context.Context, verb protocol.Verb, payload string) (reply protocol.Reply, outcome history.Outcome) {
	s := p.soak
	dialing, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	answers := make(chan []byte, 8)
	conn, err := fleet.Dial(dialing, s.addr, fleet.Login{User: p.name, ClientID: fmt.Sprintf("%s-%d", p.name, p.rng.Int64())}, func(m fleet.Message) {
		select {
		case answers <- m.Payload:
		default:
		}
	})
	if err != nil {
		return reply, history.OutcomeUnknown
	}
	defer conn.Close()
	topic, back := s.topics.Request(p.name, verb), s.topics.Replies(p.name)+"soak"
	if conn.Subscribe(dialing, back) != nil {
		return reply, history.OutcomeUnknown
	}
	answered, err := p.who.asked(topic, []byte(payload))
	s.failed(err)
	s.tally.requests.Add(1)
	_ = conn.Send(fleet.Outgoing{Topic: topic, Payload: []byte(payload), ResponseTopic: back}) // a failure ends the connection
	outcome = history.OutcomeUnknown
	var body []byte
	select {
	case body = <-answers:
		outcome = history.OutcomeRefused
		if err := json.Unmarshal(body, &reply); err != nil {
			s.found("the reply to %s cannot be read: %v: %s", payload, err, body)
		}
		if reply.OK {
			outcome = history.OutcomeOK
		} else {
			s.tally.refused.Add(1)
		}
	case <-conn.Done():
	case <-dialing.Done():
	}
	if outcome == history.OutcomeUnknown {
		s.tally.unanswered.Add(1)
	}
	s.failed(answered(outcome, body))
	return reply, outcome
}

// insist asks the same thing until there is an answer that is not about
// headquarters' own trouble.
func (p *person) insist(ctx context.Context, verb protocol.Verb, payload string) (protocol.Reply, bool) {
	for ctx.Err() == nil {
		reply, outcome := p.try(ctx, verb, payload)
		troubled := outcome == history.OutcomeRefused && (reply.Code == protocol.CodeInternal || reply.Code == protocol.CodeShuttingDown)
		if outcome != history.OutcomeUnknown && !troubled {
			return reply, true
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return protocol.Reply{}, false
}

func (p *person) order(ctx context.Context, all bool) {
	p.next++
	id := fmt.Sprintf("%s-%d", p.name, p.next)
	everyone := p.soak.stores()
	stores, count := `"all"`, len(everyone)
	switch {
	case all:
	case p.rng.IntN(3) == 0:
		label := p.rng.IntN(10)
		stores, count = fmt.Sprintf(`{"labels":"region=r%d"}`, label), 0
		for i := range everyone {
			if i%10 == label {
				count++
			}
		}
	default:
		count = 1 + p.rng.IntN(max(1, len(everyone)/12))
		picked := make([]string, 0, count)
		for _, i := range p.rng.Perm(len(everyone))[:count] {
			picked = append(picked, everyone[i])
		}
		text, err := json.Marshal(picked)
		p.soak.failed(err)
		stores = string(text)
	}
	payload := fmt.Sprintf(`{"requestId":%q,"job":"probe","stores":%s,"priority":%d}`, id, stores, p.rng.IntN(3))
	epoch := p.soak.epoch()
	reply, answered := p.insist(ctx, protocol.VerbRun, payload)
	switch {
	case !answered:
	case !reply.OK || reply.Stores != count || reply.RunID == "":
		p.soak.found("%s ordered for %d stores and was told %+v", p.name, count, reply)
	default:
		p.runs = append(p.runs, ordered{epoch, reply.RunID, count, id, payload})
		if len(p.runs) > 8 {
			p.runs = p.runs[1:]
		}
	}
}

// known is one of the newest runs, unless a restore may have taken it back.
func (p *person) known() (ordered, bool) {
	one := p.runs[p.rng.IntN(len(p.runs))]
	return one, one.epoch == p.soak.epoch()
}

func (p *person) again(ctx context.Context) {
	one, sure := p.known()
	reply, answered := p.insist(ctx, protocol.VerbRun, one.payload)
	if answered && sure && p.soak.epoch() == one.epoch && (!reply.OK || reply.RunID != one.id || reply.Duplicate == nil || !*reply.Duplicate) {
		p.soak.found("%s sent request %s of run %s again and was told %+v", p.name, one.request, one.id, reply)
	}
}

func (p *person) conflict(ctx context.Context) {
	one, sure := p.known()
	other := strings.Replace(one.payload, `"job"`, `"attempts":3,"job"`, 1)
	if !sure {
		return // it would be a new request
	}
	reply, answered := p.insist(ctx, protocol.VerbRun, other)
	if answered && p.soak.epoch() == one.epoch && reply.Code != protocol.CodeConflict {
		p.soak.found("%s sent request %s with other content and was told %+v", p.name, one.request, reply)
	}
}

func (p *person) cancel(ctx context.Context) {
	one, sure := p.known()
	reply, answered := p.insist(ctx, protocol.VerbCancel, fmt.Sprintf(`{"runId":%q,"reason":"not today"}`, one.id))
	if !answered || !sure || p.soak.epoch() != one.epoch {
		return
	}
	if !reply.OK || reply.Cancelled == nil || *reply.Cancelled > one.stores {
		p.soak.found("%s withdrew run %s of %d stores and was told %+v", p.name, one.id, one.stores, reply)
	}
}

func (p *person) status(ctx context.Context) {
	one, sure := p.known()
	reply, answered := p.insist(ctx, protocol.VerbStatus, fmt.Sprintf(`{"runId":%q}`, one.id))
	if answered && sure && p.soak.epoch() == one.epoch && (!reply.OK || reply.State == nil) {
		p.soak.found("%s asked how run %s stands and was told %+v", p.name, one.id, reply)
	}
}

// mistake asks for what there is not.
func (p *person) mistake(ctx context.Context) {
	p.next++
	for payload, want := range map[string]protocol.Code{
		fmt.Sprintf(`{"requestId":"%s-%d","job":"prob","stores":"all"}`, p.name, p.next):       protocol.CodeUnknownJob,
		fmt.Sprintf(`{"requestId":"%s-%d","job":"probe","stores":["Q1"]}`, p.name, p.next):     protocol.CodeUnknownStore,
		fmt.Sprintf(`{"requestId":"%s-%d","job":"probe","stores":"everyone"}`, p.name, p.next): protocol.CodeSchema,
		`{"job":"probe",`: protocol.CodeBadJSON,
	} {
		if reply, answered := p.insist(ctx, protocol.VerbRun, payload); answered && (reply.OK || reply.Code != want) {
			p.soak.found("%s sent %s and was told %+v", p.name, payload, reply)
		}
	}
}
