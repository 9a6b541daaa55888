package presence

import (
	"context"
	"errors"
	"fmt"

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
	// maxSync bounds the open list of one sync, so that it fits a message. A
	// list that is cut would be taken for the whole, so a longer one is not
	// sent at all: the offers say the same.
	maxSync = 3000
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
	p.apply(terminal{addr.Store, addr.Terminal}, m.Online, m.SessionID, m.Since.Time, p.cfg.Now())
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
	if err != nil {
		p.unreadable(addr, in, err)
		return nil
	}
	if err := p.save(ctx, addr, m); err != nil {
		return err
	}
	open, unknown, err := p.open(ctx, addr, m)
	if err != nil {
		return err
	}
	if unknown {
		p.cfg.Republish(addr.Store)
	}
	if len(open) > maxSync {
		p.log.Warn("too many open tasks for one list; the terminal goes by its offers", "store_id", addr.Store,
			"terminal_id", addr.Terminal, "open", len(open))
		return nil
	}
	order := protocol.Order{Order: protocol.OrderSync, Open: open, ServerTimeMs: p.cfg.Now().UnixMilli(), HelloID: m.ID}
	if err := p.cfg.Orders.Order(ctx, addr.Store, addr.Terminal, order); err != nil {
		p.log.Warn("an order could not be published", "order", string(protocol.OrderSync), "store_id", addr.Store,
			"terminal_id", addr.Terminal, "error", err)
	}
	return nil
}

func (p *Presence) save(ctx context.Context, addr protocol.Address, m protocol.Hello) error {
	now := p.cfg.Now()
	t := store.Terminal{StoreID: addr.Store, TerminalID: addr.Terminal}
	if m.ClockMs > 0 {
		skew := m.ClockMs - now.UnixMilli()
		t.ClockSkewMs = &skew
	}
	m.Open = []protocol.OpenTask{}
	var err error
	if t.Hello, err = protocol.Encode(m); err != nil {
		return fmt.Errorf("cannot keep the hello of terminal %s of store %s: %w", addr.Terminal, addr.Store, err)
	}
	if err := p.cfg.Terminals.SaveHello(ctx, t, now); err != nil {
		return fmt.Errorf("cannot store a hello: %w", err)
	}
	return nil
}

// open lists what is open for the terminal, and tells whether something waits
// there that the terminal does not know.
func (p *Presence) open(ctx context.Context, addr protocol.Address, m protocol.Hello) (open []protocol.SyncTask, unknown bool, err error) {
	known := make(map[string]bool, len(m.Open))
	for _, t := range m.Open {
		known[t.TaskID] = true
	}
	for t, err := range p.cfg.Tasks.OpenTasks(ctx, "", addr.Store) {
		if err != nil {
			return nil, false, fmt.Errorf("cannot list what is open at store %s: %w", addr.Store, err)
		}
		if t.TerminalID != "" && t.TerminalID != addr.Terminal {
			continue
		}
		running := t.State.Status == task.Running
		open = append(open, protocol.SyncTask{TaskID: t.TaskID, Status: t.State.Status, Attempt: t.State.Attempt,
			Mine: running && t.HolderID == addr.Terminal})
		unknown = unknown || !running && !known[t.TaskID]
	}
	return open, unknown, nil
}

func (p *Presence) unreadable(addr protocol.Address, in transport.Inbound, err error) {
	p.malformed.Add(1)
	p.log.Warn("a message could not be read", "kind", string(addr.Kind), "store_id", addr.Store,
		"terminal_id", addr.Terminal, "bytes", len(in.Payload), "error", err)
}
