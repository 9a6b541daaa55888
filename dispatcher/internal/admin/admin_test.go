package admin_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// headquarters is a real line over a real store and a real identity.
type headquarters struct {
	t        *testing.T
	data     string // folder
	identity string // folder
	id       *identity.Identity
	store    *store.Store
	cfg      admin.Config
	server   *admin.Server
	revoked  []string // keys that the gate was told of
	now      time.Time
}

var clock = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func setup(t *testing.T) *headquarters {
	t.Helper()
	hq := &headquarters{t: t, now: clock, data: t.TempDir(), identity: filepath.Join(t.TempDir(), "identity")}
	err := identity.Create(hq.identity, []string{"127.0.0.1"}, clock)
	if err == nil {
		hq.id, err = identity.Open(hq.identity, clock)
	}
	if err == nil {
		hq.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(hq.data, "muster.db")})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hq.store.Close() })
	places := []store.Place{{StoreID: "0001", Name: "a", TimeZone: "UTC"}, {StoreID: "SH_1", Name: "b", TimeZone: "UTC"}}
	if _, _, _, err := hq.store.ReplacePlaces(t.Context(), "", places, clock); err != nil {
		t.Fatal(err)
	}
	hq.cfg = admin.Config{DataFolder: hq.data, Register: hq.store, Places: hq.store, Authority: hq.id,
		EnrolmentURL: "https://hq.example.com:8443", RequestRotation: hq.askRotation,
		Revoked: func(keys []store.TerminalKey) {
			for _, k := range keys {
				hq.revoked = append(hq.revoked, k.KeyID)
			}
		},
		Version: "v1.2", Healthy: hq.store.Health, Now: func() time.Time { return hq.now }, Logger: slog.New(slog.DiscardHandler)}
	hq.start()
	return hq
}

func (hq *headquarters) start() {
	hq.t.Helper()
	var err error
	if hq.server, err = admin.New(hq.cfg); err != nil {
		hq.t.Fatal(err)
	}
	if err := hq.server.Start(hq.t.Context()); err != nil {
		hq.t.Fatal(err)
	}
	server := hq.server
	hq.t.Cleanup(func() {
		if err := server.Stop(context.WithoutCancel(hq.t.Context())); err != nil {
			hq.t.Error(err)
		}
	})
}

func (hq *headquarters) askRotation(ctx context.Context, by string, now bool) (approvalID, contentHash string, err error) {
	a, _, err := hq.store.AddApproval(ctx, store.Approval{ApprovalID: "ap-1", Kind: store.ApprovalKeys, Requester: by, RequestID: "keys",
		RequestHash: "h", ContentHash: "h", Request: fmt.Sprintf(`{"now":%t}`, now), CreatedAt: clock, ExpiresAt: clock.Add(time.Hour)}, clock)
	return a.ApprovalID, a.ContentHash, err
}

func (hq *headquarters) client() *admin.Client {
	hq.t.Helper()
	c, err := admin.Dial(hq.data)
	if err != nil {
		hq.t.Fatal(err)
	}
	return c
}

// enrol records a key as the enrolment's door would, and returns its serial.
func (hq *headquarters) enrol(token string) store.TerminalKey {
	hq.t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		hq.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		hq.t.Fatal(err)
	}
	draft, err := hq.id.Draft(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), 0, clock)
	if err != nil {
		hq.t.Fatal(err)
	}
	enrolled, err := hq.store.Enrol(hq.t.Context(), identity.HashToken(token), store.TerminalKey{KeyID: draft.KeyID,
		PublicKey: base64.StdEncoding.EncodeToString(public), Serial: draft.Serial, IssuedAt: clock, NotAfter: draft.NotAfter}, clock)
	if err != nil {
		hq.t.Fatal(err)
	}
	return enrolled
}

func (hq *headquarters) token(storeID, terminalID string) string {
	hq.t.Helper()
	got, err := hq.client().EnrolToken(hq.t.Context(), admin.TokenRequest{Store: storeID, Terminal: terminalID, Actor: "chen"})
	if err != nil {
		hq.t.Fatal(err)
	}
	return got.Token
}

// crl lists the serials of the folder's list of revoked certificates.
func (hq *headquarters) crl() (serials []string) {
	hq.t.Helper()
	text, err := os.ReadFile(filepath.Join(hq.identity, identity.FileRevoked))
	if err != nil {
		hq.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		hq.t.Fatal(err)
	}
	for _, entry := range list.RevokedCertificateEntries {
		serials = append(serials, entry.SerialNumber.Text(16))
	}
	return serials
}

func wantRefused(t *testing.T, err error, code protocol.Code, words string) {
	t.Helper()
	var refused *protocol.Error
	if !errors.As(err, &refused) || refused.Code != code || !strings.Contains(refused.Message, words) || refused.Hint == "" || refused.MessageZh == "" || refused.HintZh == "" {
		t.Fatalf("got %v (%+v); want %s with %q", err, refused, code, words)
	}
}

func TestATokenIsMadeAndOnlyItsHashIsKept(t *testing.T) {
	hq := setup(t)
	got, err := hq.client().EnrolToken(t.Context(), admin.TokenRequest{Store: "0001", Terminal: "pos-1", Actor: "chen"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Store != "0001" || got.Terminal != "pos-1" || !got.ExpiresAt.Equal(clock.Add(24*time.Hour)) || got.EnrolmentURL != "https://hq.example.com:8443" ||
		!strings.HasSuffix(got.Token, hq.id.AuthorityHash()) {
		t.Fatalf("got %+v", got)
	}
	if k := hq.enrol(got.Token); k.StoreID != "0001" || k.TerminalID != "pos-1" {
		t.Fatalf("the token lets in %+v", k)
	}
	short, err := hq.client().EnrolToken(t.Context(), admin.TokenRequest{Store: "0001", Terminal: "pos-2", Actor: "chen", ValidSeconds: 60})
	if err != nil || !short.ExpiresAt.Equal(clock.Add(time.Minute)) {
		t.Fatalf("got %+v, %v", short, err)
	}
}

func TestTokensForNobodyAreRefused(t *testing.T) {
	hq := setup(t)
	hq.enrol(hq.token("0001", "pos-1"))
	for _, c := range []struct {
		request admin.TokenRequest
		code    protocol.Code
		words   string
	}{
		{admin.TokenRequest{Store: "0002", Terminal: "pos-1", Actor: "chen"}, protocol.CodeUnknownStore, "store 0002 is not on the list of stores"},
		{admin.TokenRequest{Store: "sh_1", Terminal: "pos-1", Actor: "chen"}, protocol.CodeUnknownStore, "did you mean SH_1?"},
		{admin.TokenRequest{Store: "0001", Terminal: "POS-1", Actor: "chen"}, protocol.CodeConflict, "differs only in case from pos-1"},
		{admin.TokenRequest{Store: "0001", Terminal: "pos/1", Actor: "chen"}, protocol.CodeSchema, `"pos/1" is no id`},
		{admin.TokenRequest{Store: "0001", Terminal: "pos-1", Actor: "a b"}, protocol.CodeSchema, "the operator's name is no id"},
		{admin.TokenRequest{Store: "0001", Terminal: "pos-1", Actor: "chen", ValidSeconds: 59}, protocol.CodeSchema, "one minute to seven days"},
		{admin.TokenRequest{Store: "0001", Terminal: "pos-1", Actor: "chen", ValidSeconds: 1 << 62}, protocol.CodeSchema, "one minute to seven days"},
	} {
		_, err := hq.client().EnrolToken(t.Context(), c.request)
		wantRefused(t, err, c.code, c.words)
		var refused *protocol.Error
		if errors.As(err, &refused); c.code == protocol.CodeUnknownStore && !strings.HasSuffix(refused.Hint, "dispatcher reload") {
			t.Errorf("store %s: the hint is %q", c.request.Store, refused.Hint)
		}
	}
}

func TestARotationIsAskedForInTheOperatorsName(t *testing.T) {
	hq := setup(t)
	got, err := hq.client().RotateKeys(t.Context(), admin.RotateRequest{Actor: "chen", Now: true})
	if err != nil || got.ApprovalID != "ap-1" || got.ContentHash != "h" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if a, err := hq.store.GetApproval(t.Context(), "ap-1"); err != nil || a.Requester != "host:chen" || a.Request != `{"now":true}` {
		t.Fatalf("asked by %+v, %v", a, err)
	}
	if keys, err := hq.client().Keys(t.Context()); err != nil || len(keys.Keys) != 1 || keys.Signs != hq.id.Signer(clock).KeyID() || keys.Version != 1 {
		t.Fatalf("keys %+v, %v", keys, err)
	}
	if _, err := hq.id.Replace(identity.Rotation{}, clock); err != nil {
		t.Fatal(err)
	}
	if keys, err := hq.client().Keys(t.Context()); err != nil || len(keys.Keys) != 2 || keys.Signs != hq.id.Signer(clock).KeyID() {
		t.Fatalf("keys %+v, %v", keys, err)
	}
}

func TestWithoutIdentityNobodyIsEnrolled(t *testing.T) {
	hq := setup(t)
	if err := hq.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	hq.cfg.Authority = nil
	hq.start()
	const words = "headquarters has no identity"
	_, err := hq.client().EnrolToken(t.Context(), admin.TokenRequest{Store: "0001", Terminal: "pos-1", Actor: "chen"})
	wantRefused(t, err, protocol.CodeNotAllowed, words)
	_, err = hq.client().Revoke(t.Context(), admin.RevokeRequest{Store: "0001", Terminal: "pos-1", Actor: "chen"})
	wantRefused(t, err, protocol.CodeNotAllowed, words)
	_, err = hq.client().RotateKeys(t.Context(), admin.RotateRequest{Actor: "chen"})
	wantRefused(t, err, protocol.CodeNotAllowed, words)
	_, err = hq.client().Keys(t.Context())
	wantRefused(t, err, protocol.CodeNotAllowed, words)
}

// note is the content of admin.json.
type note struct{ URL, Token string }

func (hq *headquarters) note() note {
	hq.t.Helper()
	var n note
	text, err := trust.ReadPrivate(filepath.Join(hq.data, "admin.json"))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		hq.t.Fatal(err)
	}
	return n
}

func TestOnlyTheHolderOfTheTokenGetsInAndNoBrowser(t *testing.T) {
	hq := setup(t)
	n := hq.note()
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"the operator":        {func(*http.Request) {}, http.StatusOK},
		"under localhost":     {func(r *http.Request) { r.Host = strings.Replace(r.Host, "127.0.0.1", "localhost", 1) }, http.StatusOK},
		"no token":            {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"part of the token":   {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+n.Token[:63]) }, http.StatusUnauthorized},
		"another token":       {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("0", 64)) }, http.StatusUnauthorized},
		"a page":              {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"a local page":        {func(r *http.Request) { r.Header.Set("Origin", n.URL) }, http.StatusForbidden},
		"a name led to us":    {func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		"the name with port":  {func(r *http.Request) { r.Host = strings.Replace(r.Host, "127.0.0.1", "evil.example", 1) }, http.StatusForbidden},
		"an unknown path":     {func(r *http.Request) { r.URL.Path = "/v1/nothing" }, http.StatusNotFound},
		"the wrong method":    {func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusNotFound},
		"a body that is none": {func(r *http.Request) { r.Method, r.URL.Path = http.MethodPost, "/v1/revoke" }, http.StatusBadRequest},
	} {
		r, err := http.NewRequest(http.MethodGet, n.URL+"/v1/terminals", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+n.Token)
		c.change(r)
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, response.Status, c.want)
		}
	}
}

func TestTheLineIsOnLoopbackAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "192.0.2.1:80", ":9000", "hq.example.com:1", "127.0.0.1", "[::]:1"} {
		if _, err := admin.New(admin.Config{Address: address, Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "admin address") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestTheNoticeIsPrivateAndGoesWithTheDispatcher(t *testing.T) {
	hq := setup(t)
	path := filepath.Join(hq.data, "admin.json")
	if err := trust.CheckPrivate(path); err != nil {
		t.Fatal(err)
	}
	c := hq.client()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := hq.server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Dial(hq.data); !errors.Is(err, admin.ErrNotRunning) || !strings.Contains(err.Error(), hq.data) || !strings.Contains(err.Error(), "dispatcher serve") {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Terminals(t.Context()); !errors.Is(err, admin.ErrNotRunning) {
		t.Fatalf("got %v", err)
	}
	// A dispatcher that was killed leaves its notice; the next one replaces it.
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hq.client().Terminals(t.Context()); !errors.Is(err, admin.ErrNotRunning) {
		t.Fatalf("got %v", err)
	}
	hq.start()
	if _, err := hq.client().Terminals(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := hq.server
	hq.start()
	if err := old.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := hq.client().Terminals(t.Context()); err != nil {
		t.Fatalf("the old one took the new one's notice: %v", err)
	}
}

func TestDialTrustsNoNoticeThatOthersReadOrThatLeadsAway(t *testing.T) {
	hq := setup(t)
	path := filepath.Join(hq.data, "admin.json")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Dial(hq.data); !errors.Is(err, trust.ErrOpenToOthers) || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Fatalf("got %v", err)
	}
	folder := t.TempDir()
	if err := trust.WritePrivate(filepath.Join(folder, "admin.json"), []byte(`{"url":"http://192.0.2.1:80","token":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Dial(folder); err == nil || !strings.Contains(err.Error(), "names no loopback address") {
		t.Fatalf("got %v", err)
	}
}

// Others may spoil the notice. What is said then names the file and the way out, and is no
// answer of headquarters.
func TestDialSaysWhatToDoAboutANoticeThatWasSpoilt(t *testing.T) {
	hq := setup(t)
	path := filepath.Join(hq.data, "admin.json")
	for _, spoilt := range []string{"", "x", `{"url":"http://127.0.0.1:1","tok`, "\xff\xfe"} {
		if err := os.WriteFile(path, []byte(spoilt), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := admin.Dial(hq.data)
		if err == nil || !strings.Contains(err.Error(), path+" is not as headquarters wrote it") || !strings.Contains(err.Error(), "restart headquarters") {
			t.Errorf("%q: %v", spoilt, err)
		}
		if _, answer := errors.AsType[*protocol.Error](err); answer {
			t.Errorf("%q: it is taken for a refusal: %v", spoilt, err)
		}
	}
}

func TestDialSaysWhatToDoWhenTheNoticeWasRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := admin.Dial(folder)
	if !errors.Is(err, admin.ErrNotRunning) || !strings.HasSuffix(err.Error(), "; if it does run with this folder, its admin.json was removed: start it again, which writes it anew") {
		t.Errorf("got %v", err)
	}
}

func TestStopBeforeStartIsHarmless(t *testing.T) {
	s, err := admin.New(admin.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil || s.Addr() != nil {
		t.Fatal(err)
	}
}

func TestTheActorIsAnID(t *testing.T) {
	if actor := admin.Actor(); !protocol.ValidID(actor) {
		t.Fatalf("got %q", actor)
	}
}

// Whoever is on the machine can be refused; that must not fill its disk.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	hq := setup(t)
	if err := hq.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	hq.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	hq.start()
	for range 100 {
		response, err := http.Get(hq.note().URL + "/v1/terminals")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	if err := hq.server.Stop(t.Context()); err != nil { // nobody writes any more
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %.500s", n, log.String())
	}
}
