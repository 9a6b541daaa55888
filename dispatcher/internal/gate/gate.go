// Package gate lets a terminal's message through to the steps only when that
// terminal itself said it, and says it for the first time.
//
// A message is believed when it bears the signature of a key that is enrolled
// for exactly the store and terminal in its topic, not revoked and not expired
// by headquarters' clock, and when its number was not seen before. What is
// refused is acknowledged, so that it does not come again, and counted; the
// sender learns nothing. A number is spent only once its message was taken in:
// what failed comes again and is let through.
//
// The gate does not judge what a message asks for, and does not look at what
// technicians send.
package gate

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/logs"
	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// windowSize is how far messages of one terminal may overtake each other.
	// One has at most some dozens under way; 1,024 numbers take 128 bytes.
	windowSize = 1024
	// unheard is how many hellos in a row must be far below what was seen of a
	// key before somebody is told: a broker may bring one late, a machine that is
	// not heard says one again and again.
	unheard = 3
	// AlarmForged is the kind of the alarm that somebody speaks for a terminal
	// without its key.
	AlarmForged = "forged_message"
)

// Keys are the enrolled keys. An unknown one is store.ErrNotFound.
type Keys interface {
	GetTerminalKey(ctx context.Context, keyID string) (store.TerminalKey, error)
}

// Numbers tells how far a terminal had counted, with one key, at its last hello;
// 0 when it never said one with that key.
type Numbers interface {
	LastHelloSeq(ctx context.Context, storeID, terminalID, keyID string) (int64, error)
}

// Config wires the gate. Every field but Alarm is required.
type Config struct {
	Keys    Keys
	Numbers Numbers
	Now     func() time.Time
	Logger  *slog.Logger
	// Alarm is told of a forged message, at most once a minute a terminal;
	// subject is "{store}/{terminal}". Of terminals by the
	// thousand, which somebody makes up, one stands for many. It must not block.
	Alarm func(kind, subject string, trouble error)
}

// Gate is safe for concurrent use. Create it with New.
type Gate struct {
	cfg    Config
	keys   *ring
	log    logs.Sparing // by terminal and reason
	alarms logs.Sparing // by terminal: a forger must not hide other alarms

	mu      sync.Mutex
	windows map[string]*trust.Window // by key id, of enrolled keys alone
	unheard map[string]int           // hellos in a row that were too old, by key id

	passed  atomic.Int64
	refused [len(reasons)]atomic.Int64
}

// terminal is an address.
type terminal struct{ store, id string }

func (t terminal) String() string { return t.store + "/" + t.id }

// New returns a gate that knows no number yet.
func New(cfg Config) *Gate {
	return &Gate{cfg: cfg, keys: newRing(cfg.Keys, maxKeys), windows: map[string]*trust.Window{}, unheard: map[string]int{}}
}

// Pass calls next for a message that is believed, and returns next's error. It
// returns nil for one that is refused. Its own errors are the store's: the
// message then stays unacknowledged and comes again. Messages that terminals do
// not send are passed on as they are.
func (g *Gate) Pass(ctx context.Context, addr protocol.Address, in transport.Inbound, next func() error) error {
	if !fromTerminal(addr) {
		return next()
	}
	who := terminal{addr.Store, addr.Terminal}
	why, err := g.believe(ctx, who, in)
	if err != nil {
		return err
	}
	if why != nil {
		g.refuse(ctx, who, addr.Kind, in, *why)
		return nil
	}
	if addr.Kind == protocol.KindPresence {
		g.passed.Add(1)
		return next() // retained, so it comes again; its session id says what is old
	}
	return g.once(ctx, who, addr.Kind, in, next)
}

func fromTerminal(addr protocol.Address) bool {
	switch addr.Kind {
	case protocol.KindClaim, protocol.KindProgress, protocol.KindReady, protocol.KindResult, protocol.KindHello, protocol.KindPresence:
		return true
	case protocol.KindOffer, protocol.KindOrders:
	}
	return false
}

// once passes a message on unless its number was seen. One that cannot be read
// is passed on: the steps cannot read it either, and only they can tell its
// sender, who signed it.
func (g *Gate) once(ctx context.Context, who terminal, kind protocol.Kind, in transport.Inbound, next func() error) error {
	seq, readable := protocol.SeqOf(in.Payload)
	if !readable {
		g.passed.Add(1)
		return next()
	}
	if seq <= 0 {
		g.refuse(ctx, who, kind, in, refusal{Unnumbered, fmt.Errorf("seq is %d; it must be 1 or more", seq)})
		return nil
	}
	window, err := g.window(ctx, who, in.Signature.KeyID)
	if err != nil {
		return err
	}
	old := seq <= window.Highest()-windowSize
	if err := window.Take(seq); err != nil {
		g.refuse(ctx, who, kind, in, refusal{Replayed, err})
		if kind == protocol.KindHello {
			g.lookForTwins(who, in.Signature.KeyID, old)
		}
		return nil
	}
	if kind == protocol.KindHello {
		g.lookForTwins(who, in.Signature.KeyID, false)
	}
	taken := false
	defer func() {
		if !taken { // next failed, or panicked
			window.GiveBack(seq)
		}
	}()
	g.passed.Add(1)
	err = next()
	taken = err == nil
	return err
}

// window is the window of a terminal's key; a new one begins where the terminal
// stood with that key at its last hello. A terminal that is enrolled anew counts
// anew: whoever copied its old key cannot have used up its numbers.
func (g *Gate) window(ctx context.Context, who terminal, keyID string) (*trust.Window, error) {
	g.mu.Lock()
	known := g.windows[keyID]
	g.mu.Unlock()
	if known != nil {
		return known, nil
	}
	floor, err := g.cfg.Numbers.LastHelloSeq(ctx, who.store, who.id, keyID)
	if err != nil {
		return nil, fmt.Errorf("cannot tell which messages of %s are new: %w", who, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.windows[keyID] == nil {
		g.windows[keyID] = trust.NewWindow(windowSize, floor)
	}
	return g.windows[keyID], nil
}

// lookForTwins takes a hello that is far older than what was seen of its key, or
// one that is not. A terminal's numbers never fall, so several of the former in a
// row are a second machine with its key, whose clock is behind: nothing that it
// says is taken in, and it is told nothing.
func (g *Gate) lookForTwins(who terminal, keyID string, old bool) {
	g.mu.Lock()
	n := g.unheard[keyID] + 1
	if old {
		g.unheard[keyID] = n
	} else {
		delete(g.unheard, keyID)
	}
	g.mu.Unlock()
	if !old || n < unheard || g.cfg.Alarm == nil {
		return
	}
	if _, due := g.alarms.Due(who.String()+" twins", g.cfg.Now()); due {
		g.cfg.Alarm(protocol.AlarmTwins, who.String(), errTwins)
	}
}

var errTwins error = &alarm.Trouble{
	En: "its hellos bear numbers that it used long ago: two machines have its key, and the one whose clock " +
		"is behind is not heard. Stop the one that does not belong there; then revoke the terminal, and enrol the one that stays anew. " +
		"If there is but one, its clock was set back and its journal lost: enrol it anew",
	Zh: "它的 hello 使用了很久以前的编号：时钟较慢的一台不被理会。请停止多余的一台，吊销该终端，再重新注册留下的一台；" +
		"若只有一台，则是时钟被调回且日志丢失：请重新注册",
}

// Forget drops keys from memory. Call it once their revocation is committed:
// whatever they sign from then on is refused.
func (g *Gate) Forget(keyIDs ...string) {
	g.keys.forget(keyIDs...)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range keyIDs {
		delete(g.windows, id)
		delete(g.unheard, id)
	}
}
