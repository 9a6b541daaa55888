package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/store"
)

// gateModel is what the gatehouse should say, kept in a few maps and written
// apart from it.
type gateModel struct {
	b        *bundle
	now      time.Time
	tokens   []modelToken
	keys     map[string]*modelKey // by id
	pending  map[string]time.Time // approval → its end
	decided  map[string]string    // approval → its state
	serials  int
	requests int
	entries  int // of the audit
}

type modelToken struct {
	terminal string
	expires  time.Time
	usedAt   time.Time
	key      string
}

type modelKey struct {
	terminal     string
	certificates int
	revoked      bool
}

// TestAnySequenceKeepsTheGatehouseHonest plays tokens, enrolments, renewals,
// revocations, approvals, decisions and time in any order against the model. A
// token lets one key in; nothing revoked comes back; an approval is decided
// once; and every change, and nothing else, is one entry of a whole chain.
func TestAnySequenceKeepsTheGatehouseHonest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		b := &bundle{t: t, path: filepath.Join(dir, fmt.Sprintf("%d.db", n))}
		b.open()
		defer b.close()
		m := &gateModel{b: b, now: t0, keys: map[string]*modelKey{}, pending: map[string]time.Time{}, decided: map[string]string{}}
		rt.Repeat(map[string]func(*rapid.T){
			"token":  m.token,
			"enrol":  m.enrol,
			"renew":  m.renew,
			"revoke": m.revoke,
			"ask":    m.ask,
			"decide": m.decide,
			"later": func(rt *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 9).Draw(rt, "minutes")) * time.Minute)
			},
			"": m.check,
		})
		intact(t, b.path, m.entries, b.head())
	})
}

func drawTerminal(rt *rapid.T) string { return rapid.SampledFrom(terminals()).Draw(rt, "terminal") }

func (m *gateModel) draftKey(rt *rapid.T) store.TerminalKey {
	m.serials++
	id := rapid.SampledFrom([]string{"k1", "k2", "k3", "k4"}).Draw(rt, "key")
	key := newKey(id, fmt.Sprintf("%04x", m.serials))
	key.IssuedAt, key.NotAfter = m.now, m.now.Add(time.Hour)
	return key
}

func (m *gateModel) token(rt *rapid.T) {
	k := modelToken{terminal: drawTerminal(rt), expires: m.now.Add(15 * time.Minute)}
	err := m.b.AddEnrolment(m.b.t.Context(), store.Enrolment{TokenSHA256: tokenHash(len(m.tokens)), StoreID: "007", TerminalID: k.terminal,
		CreatedBy: "host:root", CreatedAt: m.now, ExpiresAt: k.expires})
	if err != nil {
		rt.Fatal(err)
	}
	m.tokens = append(m.tokens, k)
	m.entries++
}

// taken says whether the terminal may not have the key.
func (m *gateModel) taken(id, terminal string) bool {
	k, ok := m.keys[id]
	return ok && (k.revoked || k.terminal != terminal)
}

func (m *gateModel) take(id, terminal string) {
	if m.keys[id] == nil {
		m.keys[id] = &modelKey{terminal: terminal}
	}
	m.keys[id].certificates++
	m.entries++
}

func (m *gateModel) enrol(rt *rapid.T) {
	if len(m.tokens) == 0 {
		rt.Skip()
	}
	i := rapid.IntRange(0, len(m.tokens)-1).Draw(rt, "token")
	k, key := &m.tokens[i], m.draftKey(rt)
	again := k.key == key.KeyID && m.now.Sub(k.usedAt) <= 10*time.Minute
	var want error
	switch {
	case !again && (!k.usedAt.IsZero() || !m.now.Before(k.expires)):
		want = store.ErrTokenInvalid
	case m.taken(key.KeyID, k.terminal):
		want = store.ErrKeyTaken
	}
	got, err := m.b.Enrol(m.b.t.Context(), tokenHash(i), key, m.now)
	if !errors.Is(err, want) || err == nil && got.TerminalID != k.terminal {
		rt.Fatalf("enrol with token %+v: %+v, %v, want %v", k, got, err, want)
	}
	if err == nil {
		m.take(key.KeyID, k.terminal)
		if !again {
			k.usedAt, k.key = m.now, key.KeyID
		}
	}
}

func (m *gateModel) renew(rt *rapid.T) {
	old := rapid.SampledFrom([]string{"k1", "k2", "k3", "k4"}).Draw(rt, "old")
	key, holder := m.draftKey(rt), m.keys[old]
	var want error
	switch {
	case holder == nil:
		want = store.ErrNotFound
	case holder.revoked, m.taken(key.KeyID, holder.terminal):
		want = store.ErrKeyTaken
	}
	err := m.b.RenewKey(m.b.t.Context(), old, key, m.now)
	if !errors.Is(err, want) {
		rt.Fatalf("renew %s with %s: %v, want %v", old, key.KeyID, err, want)
	}
	if err == nil {
		m.take(key.KeyID, holder.terminal)
	}
}

func (m *gateModel) revoke(rt *rapid.T) {
	terminal := drawTerminal(rt)
	certificates, something := 0, false
	for _, k := range m.keys {
		if k.terminal == terminal && !k.revoked {
			k.revoked, something = true, true
			certificates += k.certificates
		}
	}
	for i := range m.tokens {
		if k := &m.tokens[i]; k.terminal == terminal && k.usedAt.IsZero() {
			k.usedAt, something = m.now, true
		}
	}
	got, err := m.b.RevokeTerminal(m.b.t.Context(), "007", terminal, "host:root", m.now)
	if something != (err == nil) || err != nil && !errors.Is(err, store.ErrNotFound) || len(got) != certificates {
		rt.Fatalf("revoke %s: %d certificates, want %d, %v", terminal, len(got), certificates, err)
	}
	if err == nil {
		m.entries++
	}
}

// expire is what every write to approvals does first.
func (m *gateModel) expire() {
	for id, end := range m.pending {
		if !m.now.Before(end) {
			delete(m.pending, id)
			m.decided[id] = store.ApprovalExpired
			m.entries++
		}
	}
}

func (m *gateModel) ask(rt *rapid.T) {
	m.requests++
	a := newApprovalUntil(fmt.Sprintf("A%d", m.requests), m.now.Add(10*time.Minute))
	a.RequestID = rapid.SampledFrom([]string{"", "q1"}).Draw(rt, "request")
	m.expire()
	got, duplicate, err := m.b.AddApproval(m.b.t.Context(), a, m.now)
	_, known := m.pending[got.ApprovalID]
	if err != nil || duplicate != known || duplicate == (got.ApprovalID == a.ApprovalID) {
		rt.Fatalf("ask: %+v, %t, %v", got, duplicate, err)
	}
	if !duplicate {
		m.pending[a.ApprovalID] = a.ExpiresAt
		m.entries++
	}
}

func (m *gateModel) decide(rt *rapid.T) {
	id := fmt.Sprintf("A%d", rapid.IntRange(1, m.requests+1).Draw(rt, "approval"))
	state := rapid.SampledFrom([]string{store.ApprovalApproved, store.ApprovalRejected, store.ApprovalVoid}).Draw(rt, "state")
	m.expire()
	var want error
	if _, open := m.pending[id]; !open {
		want = store.ErrDecided
		if m.decided[id] == "" {
			want = store.ErrNotFound
		}
	}
	var err error
	if state == store.ApprovalApproved {
		m.serials++
		run := newRun(fmt.Sprintf("R%d", m.serials))
		places, tasks := targets(1)
		tasks[0].TaskID = run.RunID
		_, err = m.b.CreateApprovedRun(m.b.t.Context(), id, "bob", run, places, tasks, store.Request{}, m.now)
	} else {
		_, err = m.b.DecideApproval(m.b.t.Context(), id, "bob", state, "", m.now)
	}
	if !errors.Is(err, want) {
		rt.Fatalf("%s %s: %v, want %v", state, id, err, want)
	}
	if err != nil {
		return
	}
	delete(m.pending, id)
	m.decided[id] = state
	if m.entries++; state == store.ApprovalApproved {
		m.entries++ // the run's own
	}
}

func (m *gateModel) check(rt *rapid.T) {
	ctx := m.b.t.Context()
	keys, err := m.b.ListTerminalKeys(ctx)
	if err != nil || len(keys) != len(m.keys) {
		rt.Fatalf("%d keys, want %d, %v", len(keys), len(m.keys), err)
	}
	certificates := 0
	for _, k := range keys {
		want := m.keys[k.KeyID]
		if want == nil || k.TerminalID != want.terminal || k.RevokedAt.IsZero() == want.revoked {
			rt.Fatalf("key %+v, want %+v", k, want)
		}
		if want.revoked {
			certificates += want.certificates
		}
	}
	if revoked, err := m.b.ListRevoked(ctx); err != nil || len(revoked) != certificates {
		rt.Fatalf("%d certificates are revoked, want %d, %v", len(revoked), certificates, err)
	}
	for id, state := range m.decided {
		if a, err := m.b.GetApproval(ctx, id); err != nil || a.State != state || (a.RunID != "") != (state == store.ApprovalApproved) {
			rt.Fatalf("approval %+v, want %s, %v", a, state, err)
		}
	}
	if pending, err := m.b.ListApprovals(ctx, true); err != nil || len(pending) != len(m.pending) {
		rt.Fatalf("%d are pending, want %d, %v", len(pending), len(m.pending), err)
	}
	if head, err := m.b.AuditHead(ctx); err != nil || head.Count != int64(m.entries) || head.ID != head.Count {
		rt.Fatalf("the audit has %+v, want %d entries, %v", head, m.entries, err)
	}
}
