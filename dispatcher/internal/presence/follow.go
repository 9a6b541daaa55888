package presence

import (
	"context"
	"fmt"
	"sync"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// follow stores and announces what changed. Each terminal is in a batch at most
// once, so its words stay in order.
func (p *Presence) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		for batch := p.takeDirty(); len(batch) > 0 && ctx.Err() == nil; batch = p.takeDirty() {
			var all sync.WaitGroup
			var failed sync.Map
			for _, st := range batch {
				all.Go(func() {
					err := p.alone(st.who, func() error { return p.settle(ctx, st) })
					switch {
					case quarantine.Broke(err):
						time.AfterFunc(brokenDelay, func() { p.markAgain(st) })
					case err != nil:
						failed.Store(st, err)
					}
				})
			}
			all.Wait()
			p.tryAgain(ctx, &failed)
		}
	}
}

func (p *Presence) takeDirty() []*state {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.dirty), batchSize)
	batch := p.dirty[:n:n]
	p.dirty = p.dirty[n:]
	for _, st := range batch {
		st.dirty = false
	}
	return batch
}

// settle brings the store and the retained topic up to one terminal's state.
func (p *Presence) settle(ctx context.Context, st *state) error {
	p.mu.Lock()
	now := *st
	p.mu.Unlock()
	t := store.Terminal{StoreID: now.who.store, TerminalID: now.who.id, SessionID: now.session}
	if now.stored != now.session {
		// Its end means nothing to the store before its beginning.
		t.Online, t.Since = true, now.began
		if _, err := p.cfg.Terminals.SetPresence(ctx, t, p.cfg.Now()); err != nil {
			return fmt.Errorf("cannot store presence: %w", err)
		}
		p.mu.Lock()
		if st.began.Equal(now.began) { // else it is to be stored anew: it was heard again meanwhile
			st.stored = now.session
		}
		p.mu.Unlock()
	}
	if !now.online {
		t.Online, t.Since = false, now.since
		if _, err := p.cfg.Terminals.SetPresence(ctx, t, p.cfg.Now()); err != nil {
			return fmt.Errorf("cannot store presence: %w", err)
		}
	}
	if !p.cfg.Announce {
		return nil
	}
	topic := p.cfg.Sender.Topics().Terminal(now.who.store, now.who.id, protocol.KindPresence)
	message := protocol.Presence{Meta: p.cfg.Sender.Meta(), Online: now.online, Since: protocol.At(now.since), SessionID: now.session}
	if err := p.cfg.Sender.JSON(ctx, topic, message, transport.Options{Retain: true}); err != nil {
		return fmt.Errorf("cannot announce presence: %w", err)
	}
	return nil
}

// tryAgain marks what failed, after a pause.
func (p *Presence) tryAgain(ctx context.Context, failed *sync.Map) {
	paused := false
	failed.Range(func(key, value any) bool {
		st, ok := key.(*state)
		if !ok || ctx.Err() != nil {
			return false
		}
		if !paused {
			paused = true
			p.log.Warn("presence could not be stored or announced; it is tried again", "store_id", st.who.store,
				"terminal_id", st.who.id, "error", value)
			wait(ctx, retryDelay)
		}
		p.markAgain(st)
		return true
	})
}

func (p *Presence) markAgain(st *state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark(st)
}

// beat notes that headquarters is alive.
func (p *Presence) beat(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		p.cfg.Ward.Turn("the ends of alarms about twins", beatEvery, func() time.Duration { p.endTwins(); return beatEvery })
		err := p.cfg.Ward.Do(quarantine.AlarmStep, "the sign of life of headquarters", func() error { return p.cfg.Terminals.Beat(ctx, p.cfg.Now()) })
		if err != nil && ctx.Err() == nil && !quarantine.Broke(err) {
			p.log.Error("headquarters could not note that it is alive", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
