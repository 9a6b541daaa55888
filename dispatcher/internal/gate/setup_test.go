package gate_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/gate"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// lifetime is that of a terminal's certificate here.
const lifetime = 90 * 24 * time.Hour

// hall is a gate over a real store. Its clock stands still until it is moved.
type hall struct {
	*gate.Gate
	t      testing.TB
	store  *store.Store
	topics protocol.Topics
	cfg    gate.Config

	mu     sync.Mutex
	now    time.Time
	alarms []string
	// of the log
	lines, longest int
}

func open(t testing.TB) *hall {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	h := &hall{t: t, store: s, topics: topics, now: time.Date(2026, 9, 17, 7, 30, 0, 0, time.UTC)}
	h.cfg = gate.Config{Keys: s, Numbers: s, Now: h.clock, Logger: slog.New(counting{h}), Alarm: h.alarm}
	h.Gate = gate.New(h.cfg)
	return h
}

func (h *hall) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hall) wait(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *hall) alarm(kind, subject string, trouble error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if worded, ok := errors.AsType[*alarm.Trouble](trouble); !ok || worded.Zh == "" {
		h.t.Errorf("%s of %s is told in English alone: %v", kind, subject, trouble)
	}
	h.alarms = append(h.alarms, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
}

// counting is a log that counts its lines and measures what stands in them.
type counting struct{ h *hall }

func (c counting) Enabled(context.Context, slog.Level) bool { return true }
func (c counting) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c counting) WithGroup(string) slog.Handler            { return c }
func (c counting) Handle(_ context.Context, r slog.Record) error {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.lines++
	r.Attrs(func(a slog.Attr) bool {
		c.h.longest = max(c.h.longest, len(a.Value.String()))
		return true
	})
	return nil
}

var errBusy = errors.New("the step is busy")

// pair is a terminal with its key.
type pair struct {
	store, terminal string
	public          ed25519.PublicKey
	signer          *trust.Signer
	row             store.TerminalKey
}

// pairOf makes a terminal whose key nobody has enrolled.
func (h *hall) pairOf(storeID, terminalID string, seed byte) *pair {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	public, _ := private.Public().(ed25519.PublicKey)
	return &pair{store: storeID, terminal: terminalID, public: public, signer: trust.NewSigner(private), row: store.TerminalKey{
		KeyID: trust.KeyID(public), PublicKey: base64.StdEncoding.EncodeToString(public), Serial: fmt.Sprintf("%02x", seed),
		IssuedAt: h.clock(), NotAfter: h.clock().Add(lifetime)}}
}

// enrol makes a terminal that headquarters knows.
func (h *hall) enrol(storeID, terminalID string, seed byte) *pair {
	h.t.Helper()
	p, now := h.pairOf(storeID, terminalID, seed), h.clock()
	sum := sha256.Sum256([]byte{seed})
	token := hex.EncodeToString(sum[:])
	err := h.store.AddEnrolment(h.t.Context(), store.Enrolment{TokenSHA256: token, StoreID: storeID, TerminalID: terminalID,
		CreatedBy: "host:ops", CreatedAt: now, ExpiresAt: now.Add(time.Hour)})
	if err == nil {
		p.row, err = h.store.Enrol(h.t.Context(), token, p.row, now)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

func (h *hall) topic(p *pair, kind protocol.Kind) string {
	return h.topics.Terminal(p.store, p.terminal, kind)
}

// says is a message as the terminal sends it.
func (h *hall) says(p *pair, kind protocol.Kind, seq int64) transport.Inbound {
	payload := fmt.Appendf(nil, `{"id":"01K5BXJ3Z8A1B2C3D4E5F6G7H8","at":"2026-09-17T07:30:00.000Z","seq":%d,"taskId":"t"}`, seq)
	return h.signed(p, kind, payload)
}

func (h *hall) signed(p *pair, kind protocol.Kind, payload []byte) transport.Inbound {
	topic := h.topic(p, kind)
	return transport.Inbound{Topic: topic, Payload: payload, Signature: p.signer.Sign(topic, payload)}
}

// pass hands a message to the gate and tells whether it went through.
func (h *hall) pass(in transport.Inbound) bool {
	h.t.Helper()
	through := false
	if err := h.passTo(in, func() error { through = true; return nil }); err != nil {
		h.t.Errorf("on %s: %v", in.Topic, err)
	}
	return through
}

func (h *hall) passTo(in transport.Inbound, next func() error) error {
	h.t.Helper()
	addr, ok := h.topics.Parse(in.Topic)
	if !ok {
		h.t.Fatalf("no topic: %s", in.Topic)
	}
	return h.Pass(h.t.Context(), addr, in, next)
}
