package presence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// maxHelloBytes bounds a hello: jobs, labels and the open list.
	maxHelloBytes = 128 << 10
	// maxPresenceBytes bounds a presence, which is a few hundred bytes.
	maxPresenceBytes = 4 << 10
	// maxSync bounds the open list of one sync, so that it fits a message. The
	// rest is left out and the list marked as partial: the offers say the same.
	maxSync = 3000
	// year3000, in epoch milliseconds, is after all that a clock can show.
	year3000 = 32_503_680_000_000
)

// HandlePresence takes what terminals publish about themselves on an external
// broker: a birth, or the will that the broker sends for them. The error is
// always nil; what cannot be read is counted.
func (p *Presence) HandlePresence(_ context.Context, addr protocol.Address, in transport.Inbound) error {
	if len(in.Payload) == 0 {
		return nil // withdrawn
	}
	var m protocol.Presence
	err := protocol.Decode(in.Payload, maxPresenceBytes, &m)
	if err == nil && m.SessionID == "" {
		err = errors.New("it names no session")
	}
	if err != nil {
		p.unreadable(addr, in, err)
		return nil
	}
	p.apply(terminal{addr.Store, addr.Terminal}, m.Online, m.SessionID, m.Seq, p.cfg.Now())
	return nil
}

// HandleHello takes the first word of a connection: it stores what the terminal
// says of itself and how far its clock is off, and answers with the list of
// what is open for it. Offers that it should know and does not are published
// again. The error is the store's.
func (p *Presence) HandleHello(ctx context.Context, addr protocol.Address, in transport.Inbound) error {
	var m protocol.Hello
	err := protocol.Decode(in.Payload, maxHelloBytes, &m)
	if err == nil && in.Retained {
		err = errors.New("the message is retained, so nobody may have connected")
	}
	if err == nil && m.ID == "" {
		err = errors.New("it has no id, so its answer would ask for another one")
	}
	if err != nil {
		p.unreadable(addr, in, err)
		return nil
	}
	if !p.cfg.Announce {
		p.heard(terminal{addr.Store, addr.Terminal})
	}
	p.lookForTwins(terminal{addr.Store, addr.Terminal}, m.Instance)
	if err := p.save(ctx, addr, m, in.Signature.KeyID); err != nil {
		return err
	}
	if p.cfg.Numbered != nil {
		p.cfg.Numbered(m.OrderSeq)
	}
	order, unknown, err := p.open(ctx, addr, m)
	if err != nil {
		return err
	}
	if unknown {
		p.cfg.Republish(addr.Store)
	}
	order.ServerTimeMs, order.HelloID = p.cfg.Now().UnixMilli(), m.ID
	if err := p.cfg.Orders.Order(ctx, addr.Store, addr.Terminal, order); err != nil {
		if left, due := p.due(addr, "untold"); due {
			p.log.Warn("an order could not be published", "order", string(protocol.OrderSync), "store_id", addr.Store,
				"terminal_id", addr.Terminal, "error", err, "left_out", left)
		}
	}
	return nil
}

// kept is a hello as it is kept: with the key that signed it.
type kept struct {
	protocol.Hello
	KeyID string `json:"kid,omitempty"`
}

func (p *Presence) save(ctx context.Context, addr protocol.Address, m protocol.Hello, keyID string) error {
	now := p.cfg.Now()
	t := store.Terminal{StoreID: addr.Store, TerminalID: addr.Terminal}
	if m.ClockMs > 0 && m.ClockMs < year3000 {
		skew := m.ClockMs - now.UnixMilli()
		t.ClockSkewMs = &skew
	}
	m.Open = []protocol.OpenTask{}
	var err error
	if t.Hello, err = protocol.Encode(kept{m, keyID}); err != nil {
		return fmt.Errorf("cannot keep the hello of terminal %s of store %s: %w", addr.Terminal, addr.Store, err)
	}
	if err := p.cfg.Terminals.SaveHello(ctx, t, now); err != nil {
		return fmt.Errorf("cannot store a hello: %w", err)
	}
	return nil
}

// open makes the sync that lists what is open for the terminal, what it runs
// itself first, and tells whether something waits there that the terminal does
// not know. Where the hello was cut nobody can tell; the offers that stay
// unanswered are published again anyway.
func (p *Presence) open(ctx context.Context, addr protocol.Address, m protocol.Hello) (sync protocol.Order, unknown bool, err error) {
	known := make(map[string]bool, len(m.Open))
	for _, t := range m.Open {
		known[t.TaskID] = true
	}
	open, err := p.cfg.Tasks.ListOpen(ctx, addr.Store)
	if err != nil {
		return sync, false, err
	}
	var mine, others []protocol.SyncTask
	sync.Order = protocol.OrderSync
	for _, t := range open {
		if t.TerminalID != "" && t.TerminalID != addr.Terminal {
			continue
		}
		running := t.State.Status == task.Running
		unknown = unknown || !running && !known[t.TaskID] && !m.Partial
		list := &others
		if running && t.HolderID == addr.Terminal {
			list = &mine
		}
		if len(*list) == maxSync {
			sync.Partial = true
			continue
		}
		told := protocol.SyncTask{TaskID: t.TaskID, Status: t.State.Status, Attempt: t.State.Attempt}
		if list == &mine {
			told.Mine, told.Instance = true, t.Instance
		}
		*list = append(*list, told)
	}
	sync.Open = slices.Concat(mine, others)
	if len(sync.Open) > maxSync {
		sync.Open, sync.Partial = sync.Open[:maxSync], true
	}
	return sync, unknown, nil
}

func (p *Presence) unreadable(addr protocol.Address, in transport.Inbound, err error) {
	p.malformed.Add(1)
	if left, due := p.due(addr, "unreadable"); due {
		p.log.Warn("a message could not be read", "kind", string(addr.Kind), "store_id", addr.Store,
			"terminal_id", addr.Terminal, "bytes", len(in.Payload), "error", err, "left_out", left)
	}
}

// due says whether a line about a terminal is due: it causes as many as it likes.
func (p *Presence) due(addr protocol.Address, what string) (leftOut int64, due bool) {
	return p.sparing.Due(addr.Store+"/"+addr.Terminal+" "+what, p.cfg.Now())
}
