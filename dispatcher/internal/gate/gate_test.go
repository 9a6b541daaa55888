package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/gate"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/trust"
)

func kinds() []protocol.Kind { return append(protocol.FromTerminal(), protocol.KindPresence) }

// TestOnlyTheTerminalItselfIsBelieved: each way to speak for a terminal without
// its key in force is refused by its own reason, whatever the kind of message,
// is acknowledged, and raises an alarm that names the terminal.
func TestOnlyTheTerminalItselfIsBelieved(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			h := open(t)
			p, other := h.enrol("S1", "pos", 1), h.enrol("S2", "pos", 2)
			stranger := h.pairOf("S1", "pos", 3)
			foreign := h.says(p, kind, 5)
			foreign.Signature = other.signer.Sign(foreign.Topic, foreign.Payload)
			unsigned := h.says(p, kind, 5)
			unsigned.Signature.KeyID, unsigned.Signature.Value = "", ""
			changed := h.says(p, kind, 5)
			changed.Payload = []byte(strings.Replace(string(changed.Payload), `"t"`, `"u"`, 1))
			moved := h.says(p, protocol.KindOrders, 5) // signed for another topic
			moved.Topic = h.topic(p, kind)
			noValue, noKey, garbled, longID := h.says(p, kind, 5), h.says(p, kind, 5), h.says(p, kind, 5), h.says(p, kind, 5)
			noValue.Signature.Value, noKey.Signature.KeyID = "", ""
			garbled.Signature.Value = "!" + garbled.Signature.Value[1:]
			longID.Signature.KeyID = strings.Repeat("a", 1<<16)
			cleared := transport.Inbound{Topic: h.topic(p, kind), Retained: true}
			for name, c := range map[string]struct {
				in   transport.Inbound
				want gate.Reason
			}{
				"unsigned":          {unsigned, gate.Unsigned},
				"nothing":           {cleared, gate.Unsigned},
				"never enrolled":    {h.says(stranger, kind, 5), gate.UnknownKey},
				"no key id":         {noKey, gate.UnknownKey},
				"endless key id":    {longID, gate.UnknownKey},
				"another's key":     {foreign, gate.ForeignKey},
				"another payload":   {changed, gate.BadSignature},
				"another topic":     {moved, gate.BadSignature},
				"key id alone":      {noValue, gate.BadSignature},
				"garbled signature": {garbled, gate.BadSignature},
			} {
				h.wait(time.Hour)
				before, alarms, lines := h.Stats().Refused[c.want], len(h.alarms), h.lines
				if h.pass(c.in) {
					t.Errorf("%s went through", name)
				}
				if got := h.Stats().Refused[c.want] - before; got != 1 {
					t.Errorf("%s is not counted as %s: %v", name, c.want, h.Stats())
				}
				if len(h.alarms) != alarms+1 || h.lines != lines+1 || !strings.HasPrefix(h.alarms[alarms], gate.AlarmForged+" S1/pos: ") {
					t.Errorf("%s: alarms %q, %d lines", name, h.alarms[alarms:], h.lines-lines)
				}
			}
			if h.longest > 200 {
				t.Errorf("a stranger wrote %d bytes into one place of the log", h.longest)
			}
			if !h.pass(h.says(p, kind, 5)) {
				t.Errorf("the terminal itself is not believed: %v", h.Stats())
			}
		})
	}
}

// TestANumberPassesOnce, in whatever order numbers come, from each terminal for
// itself, and only near the newest. It is no alarm: brokers deliver twice.
func TestANumberPassesOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	p, other := h.enrol("S1", "pos", 1), h.enrol("S1", "pos-2", 2)
	for _, seq := range []int64{7, 5, 6, 1000, 1} {
		for _, kind := range []protocol.Kind{protocol.KindClaim, protocol.KindResult} {
			if through := h.pass(h.says(p, kind, seq)); through != (kind == protocol.KindClaim) {
				t.Errorf("%s %d went through: %t", kind, seq, through)
			}
		}
	}
	if !h.pass(h.says(other, protocol.KindClaim, 7)) {
		t.Error("a number of one terminal was taken for another's")
	}
	if !h.pass(h.says(p, protocol.KindHello, 900_000)) || h.pass(h.says(p, protocol.KindClaim, 8)) {
		t.Error("a number far below the newest went through")
	}
	if s := h.Stats(); s.Refused[gate.Replayed] != 6 || s.Passed != 7 || len(h.alarms) != 0 {
		t.Errorf("counted %+v, alarms %q", s, h.alarms)
	}
}

func TestPresenceMayComeAgain(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	in := h.says(p, protocol.KindPresence, 5)
	for range 2 {
		if !h.pass(in) {
			t.Error("retained presence is refused")
		}
	}
	if !h.pass(h.says(p, protocol.KindClaim, 5)) {
		t.Error("presence spends a number")
	}
}

func TestWhatTerminalsDoNotSendIsPassedOn(t *testing.T) {
	t.Parallel()
	h := open(t)
	for _, topic := range []string{h.topics.Request("wang", protocol.VerbRun), h.topics.Offer("S1", "t"), h.topics.Terminal("S1", "pos", protocol.KindOrders)} {
		if !h.pass(transport.Inbound{Topic: topic, Payload: []byte("{}")}) {
			t.Errorf("%s is kept out", topic)
		}
	}
}

// TestWhatCannotBeReadIsForTheStepsToRefuse: its sender is known, and else
// would send it for ever; what has no number is refused.
func TestWhatCannotBeReadIsForTheStepsToRefuse(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	for _, text := range []string{`{"seq":1,"seq":2}`, `{"seq":"1"}`, `{`, `{"Seq":1}`, `{"seq":1e400}`, "{\"seq\":4,\"a\":\"\xff\"}"} {
		if !h.pass(h.signed(p, protocol.KindResult, []byte(text))) {
			t.Errorf("%s is kept from intake", text)
		}
	}
	for _, text := range []string{`{}`, `{"seq":0}`, `{"seq":-3}`, `{"seq":null}`} {
		if h.pass(h.signed(p, protocol.KindResult, []byte(text))) {
			t.Errorf("%s went through", text)
		}
	}
	if got := h.Stats().Refused[gate.Unnumbered]; got != 4 || len(h.alarms) != 0 {
		t.Errorf("%d are counted as unnumbered, alarms %q", got, h.alarms)
	}
}

// TestNoWritingHidesANumber: what a step can read bears a number for the gate too,
// however it is written.
func TestNoWritingHidesANumber(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	for i, text := range []string{"{\n\"a\":[{\"seq\":0}],\"seq\" : %d }\r\n", `{"\u0073eq":%d,"b":"\ud83d\ude00"}`, `{"seq":%d,"seq":3}`, `{"SEQ":%d}`} {
		in := h.signed(p, protocol.KindResult, fmt.Appendf(nil, text, i+1))
		if !h.pass(in) || h.pass(in) {
			t.Errorf("%q does not pass once", in.Payload)
		}
	}
}

// TestAMessageThatFailedComesAgain: its number is spent only by success.
func TestAMessageThatFailedComesAgain(t *testing.T) {
	t.Parallel()
	h := open(t)
	in := h.says(h.enrol("S1", "pos", 1), protocol.KindResult, 5)
	down := errors.New("disk full")
	if err := h.passTo(in, func() error { return down }); !errors.Is(err, down) {
		t.Errorf("the step's failure came out as %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = h.passTo(in, func() error { panic("a fault") })
	}()
	if !h.pass(in) {
		t.Error("a message that failed was refused when it came again")
	}
	if h.pass(in) {
		t.Error("it was taken in twice")
	}
}

// TestOfTwoDeliveriesOneGoesThrough at the same moment, on two connections.
func TestOfTwoDeliveriesOneGoesThrough(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	for seq := int64(1); seq <= 50; seq++ {
		in := h.says(p, protocol.KindResult, seq)
		var through atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { _ = h.passTo(in, func() error { through.Add(1); return nil }) })
		}
		all.Wait()
		if through.Load() != 1 {
			t.Fatalf("number %d went through %d times", seq, through.Load())
		}
	}
}

func TestNumbersGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	hello := h.says(p, protocol.KindHello, 100)
	if !h.pass(hello) {
		t.Fatal("the hello is refused")
	}
	if err := h.store.SaveHello(t.Context(), store.Terminal{StoreID: "S1", TerminalID: "pos", Hello: kept(t, hello)}, h.clock()); err != nil {
		t.Fatal(err)
	}
	h.Gate = gate.New(h.cfg)
	if h.pass(hello) || h.pass(h.says(p, protocol.KindClaim, 99)) {
		t.Error("what came before the last hello went through again")
	}
	if !h.pass(h.says(p, protocol.KindClaim, 101)) {
		t.Error("what came after the last hello is refused")
	}
}

// kept is a hello as headquarters keeps it: with the key that signed it.
func kept(t *testing.T, hello transport.Inbound) []byte {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(hello.Payload, &members); err != nil {
		t.Fatal(err)
	}
	members["kid"] = hello.Signature.KeyID
	payload, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// TestANewEnrolmentCountsAnew: whoever copied a terminal's key and used its
// numbers up has not used up those of the key that replaces it.
func TestANewEnrolmentCountsAnew(t *testing.T) {
	t.Parallel()
	h := open(t)
	stolen := h.enrol("S1", "pos", 1)
	last := h.says(stolen, protocol.KindHello, trust.MaxNumber)
	if !h.pass(last) {
		t.Fatal("the highest number is refused")
	}
	if err := h.store.SaveHello(t.Context(), store.Terminal{StoreID: "S1", TerminalID: "pos", Hello: kept(t, last)}, h.clock()); err != nil {
		t.Fatal(err)
	}
	fresh := h.enrol("S1", "pos", 2)
	for _, restarted := range []bool{false, true} {
		if restarted {
			h.Gate = gate.New(h.cfg)
		}
		if !h.pass(h.says(fresh, protocol.KindHello, 7)) {
			t.Errorf("the new key is refused (headquarters started anew: %v)", restarted)
		}
		if h.pass(h.says(stolen, protocol.KindClaim, 99)) {
			t.Errorf("an old number of the old key went through (headquarters started anew: %v)", restarted)
		}
	}
}

// TestNothingIsLostWhileTheDatabaseFails: what cannot be judged is not
// acknowledged.
func TestNothingIsLostWhileTheDatabaseFails(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	err := h.passTo(h.says(p, protocol.KindResult, 5), func() error { t.Error("it went through"); return nil })
	if err == nil || !strings.Contains(err.Error(), "S1/pos") {
		t.Errorf("got %v", err)
	}
}

// TestTheGateAgreesWithABook: over any series of numbers, some of which fail,
// each is taken in once at most, and every one that never was goes through
// while it is near the newest.
func TestTheGateAgreesWithABook(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	rapid.Check(t, func(rt *rapid.T) {
		h.Gate = gate.New(h.cfg)
		book, newest := map[int64]bool{}, int64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "messages") {
			seq := rapid.OneOf(rapid.Int64Range(1, 40), rapid.Int64Range(1000, 1100), rapid.Int64Range(1, 1<<53)).Draw(rt, "seq")
			fails := rapid.Bool().Draw(rt, "fails")
			through := false
			err := h.passTo(h.says(p, protocol.KindClaim, seq), func() error {
				through = true
				if fails {
					return errBusy
				}
				return nil
			})
			if want := !book[seq] && seq > newest-1024; through != want || (err != nil) != (through && fails) {
				rt.Fatalf("number %d, newest %d: through %t, want %t, error %v", seq, newest, through, want, err)
			}
			newest = max(newest, seq)
			if through && !fails {
				book[seq] = true
			}
		}
	})
}

// slowKeys holds up the answer of the store until it may go on.
type slowKeys struct {
	gate.Keys
	read, goOn chan struct{}
}

func (s *slowKeys) GetTerminalKey(ctx context.Context, keyID string) (store.TerminalKey, error) {
	k, err := s.Keys.GetTerminalKey(ctx, keyID)
	s.read <- struct{}{}
	<-s.goOn
	return k, err
}

func (h *hall) revoke(p *pair) {
	h.t.Helper()
	keys, err := h.store.RevokeTerminal(h.t.Context(), p.store, p.terminal, "host:ops", h.clock())
	if err != nil || len(keys) != 1 {
		h.t.Fatalf("revoked %d keys, %v", len(keys), err)
	}
	h.Forget(keys[0].KeyID)
}

func TestARevokedTerminalIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	p, other := h.enrol("S1", "pos", 1), h.enrol("S2", "pos", 2)
	if !h.pass(h.says(p, protocol.KindClaim, 1)) || !h.pass(h.says(other, protocol.KindClaim, 1)) {
		t.Fatal("a terminal is not believed")
	}
	h.revoke(p)
	for _, kind := range kinds() {
		if h.pass(h.says(p, kind, 2)) {
			t.Errorf("a %s of a revoked terminal went through", kind)
		}
	}
	if got := h.Stats().Refused[gate.RevokedKey]; got != int64(len(kinds())) || !h.pass(h.says(other, protocol.KindClaim, 2)) {
		t.Errorf("counted %+v", h.Stats())
	}
}

// TestARevocationOvertakesAKeyThatIsBeingRead: the key was read before it was
// revoked, and must not be remembered after.
func TestARevocationOvertakesAKeyThatIsBeingRead(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	slow := &slowKeys{Keys: h.store, read: make(chan struct{}, 8), goOn: make(chan struct{})}
	h.cfg.Keys = slow
	h.Gate = gate.New(h.cfg)
	first := make(chan bool)
	go func() { first <- h.pass(h.says(p, protocol.KindClaim, 1)) }()
	<-slow.read
	h.revoke(p)
	close(slow.goOn)
	<-first // it was said before the revocation
	if h.pass(h.says(p, protocol.KindClaim, 2)) || h.Remembered() != 0 {
		t.Error("a revoked key is still believed")
	}
}

func TestAKeyIsBelievedUntilItsLastCertificateRunsOut(t *testing.T) {
	t.Parallel()
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	h.wait(lifetime - time.Millisecond)
	if !h.pass(h.says(p, protocol.KindClaim, 1)) {
		t.Error("the key is refused within its time")
	}
	h.wait(time.Millisecond)
	if h.pass(h.says(p, protocol.KindClaim, 2)) || h.Stats().Refused[gate.ExpiredKey] != 1 {
		t.Errorf("the key is believed after its time: %+v", h.Stats())
	}
	renewed := p.row
	renewed.Serial, renewed.IssuedAt, renewed.NotAfter = "ff", h.clock(), h.clock().Add(lifetime)
	if err := h.store.RenewKey(t.Context(), p.row.KeyID, renewed, h.clock()); err != nil {
		t.Fatal(err)
	}
	if !h.pass(h.says(p, protocol.KindClaim, 2)) {
		t.Error("the renewed key is refused")
	}
}

func TestTheKeysInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.Remember(3)
	pairs := make([]*pair, 8)
	for i := range pairs {
		pairs[i] = h.enrol(fmt.Sprint("S", i), "pos", byte(i+1))
	}
	for seq := range int64(3) {
		for _, p := range pairs {
			if !h.pass(h.says(p, protocol.KindClaim, seq+1)) {
				t.Errorf("%s is refused", p.store)
			}
		}
	}
	if h.Remembered() != 3 {
		t.Errorf("%d keys are in memory", h.Remembered())
	}
}

// TestAForgerFillsNeitherLogNorMemory: each terminal is told of at most once a
// minute a reason, however many are made up.
func TestAForgerFillsNeitherLogNorMemory(t *testing.T) {
	t.Parallel()
	h := open(t)
	forge := func(storeID string) {
		in := transport.Inbound{Topic: h.topics.Terminal(storeID, "pos", protocol.KindClaim), Payload: []byte("{}")}
		if h.pass(in) {
			t.Fatal("it went through")
		}
	}
	for range 100 {
		forge("S1")
		h.wait(time.Second)
	}
	if h.lines != 2 || len(h.alarms) != 2 { // at 0 s and 60 s
		t.Errorf("%d lines and %d alarms in 100 s", h.lines, len(h.alarms))
	}
	h.wait(time.Minute)
	forge("S1")
	h.wait(50 * time.Second)
	forge("S2")
	h.wait(15 * time.Second)
	forge("S2") // told 15 s ago
	forge("S1")
	if h.lines != 5 || len(h.alarms) != 5 {
		t.Errorf("%d lines and %d alarms of two terminals", h.lines, len(h.alarms))
	}
	h.wait(time.Hour)
	const terminals = 5000
	for i := range terminals {
		forge(fmt.Sprint("X", i))
	}
	if h.lines > terminals/4 || len(h.alarms) > terminals/4 {
		t.Errorf("%d lines, %d alarms", h.lines, len(h.alarms))
	}
	h.wait(time.Minute)
	alarms := len(h.alarms)
	forge("S1")
	if len(h.alarms) != alarms+1 {
		t.Error("after the flood nobody is told any more")
	}
	if got := h.Stats().Refused[gate.Unsigned]; got != int64(105+terminals) {
		t.Errorf("%d are counted", got)
	}
}
