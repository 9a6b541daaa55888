package enrol_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/internal/enrol"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/trust"
)

func TestATerminalEnrolsWithItsToken(t *testing.T) {
	hq := setup(t)
	key := newKey(t)
	cert := hq.wantHolder(hq.enrol(hq.token("0001", "pos-1"), request(t, key)), "0001", "pos-1")
	known, err := hq.store.GetTerminalKey(t.Context(), keyID(key))
	if err != nil || known.Serial != fmt.Sprintf("%032x", cert.SerialNumber) || !known.NotAfter.Equal(cert.NotAfter) ||
		known.StoreID != "0001" || known.TerminalID != "pos-1" {
		t.Fatalf("recorded %+v, %v; the certificate has serial %x until %s", known, err, cert.SerialNumber, cert.NotAfter)
	}
	if life := time.Until(cert.NotAfter); life < 89*24*time.Hour || life > 90*24*time.Hour {
		t.Errorf("it lives for %s", life)
	}
}

func TestATokenIsOfOneUse(t *testing.T) {
	hq := setup(t)
	token, csr := hq.token("0001", "pos-1"), request(t, newKey(t))
	hq.wantHolder(hq.enrol(token, csr), "0001", "pos-1")
	wantRefused(t, hq.enrol(token, request(t, newKey(t))), http.StatusForbidden, "NOT_ALLOWED", "it was used at")
}

func TestALostAnswerIsGivenAgainToTheSameKeyForTenMinutes(t *testing.T) {
	hq := setup(t)
	token, key := hq.token("0001", "pos-1"), newKey(t)
	first := hq.wantHolder(hq.enrol(token, request(t, key)), "0001", "pos-1")
	hq.advance(9 * time.Minute)
	second := hq.wantHolder(hq.enrol(token, request(t, key)), "0001", "pos-1")
	if first.SerialNumber.Cmp(second.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
	wantRefused(t, hq.enrol(token, request(t, newKey(t))), http.StatusForbidden, "NOT_ALLOWED", "it was used at")
	hq.advance(2 * time.Minute)
	wantRefused(t, hq.enrol(token, request(t, key)), http.StatusForbidden, "NOT_ALLOWED", "it was used at")
}

func TestOfManyWithOneTokenOneGetsIn(t *testing.T) {
	hq := setup(t)
	token := hq.token("0001", "pos-1")
	var in, out atomic.Int32
	var wg sync.WaitGroup
	for range 12 {
		csr := request(t, newKey(t))
		wg.Go(func() {
			got, err := hq.post(client(pinOf(token)), "/v1/enrol", map[string]string{"token": token, "csr": string(csr)})
			switch {
			case err == nil && got.status == http.StatusOK:
				in.Add(1)
			case err == nil && got.Code == "NOT_ALLOWED":
				out.Add(1)
			default:
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if in.Load() != 1 || out.Load() != 11 {
		t.Fatalf("%d got in, %d were refused", in.Load(), out.Load())
	}
}

func TestATokenExpires(t *testing.T) {
	hq := setup(t)
	token := hq.token("0001", "pos-1")
	hq.advance(24 * time.Hour)
	wantRefused(t, hq.enrol(token, request(t, newKey(t))), http.StatusForbidden, "NOT_ALLOWED", "it expired at")
	other, err := hq.id.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, hq.enrol(other, request(t, newKey(t))), http.StatusForbidden, "NOT_ALLOWED", "it is not known here")
}

// The chain that the door shows ends in the authority, so that a terminal needs
// nothing but its token to tell headquarters from another.
func TestWhoPinsAnotherAuthoritySaysNothing(t *testing.T) {
	hq := setup(t)
	token := hq.token("0001", "pos-1")
	_, other := newIdentity(t)
	foreign, err := other.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	csr := request(t, newKey(t))
	if _, err := hq.post(client(pinOf(foreign)), "/v1/enrol", map[string]string{"token": token, "csr": string(csr)}); !errors.Is(err, errPin) {
		t.Fatalf("got %v", err)
	}
	hq.wantHolder(hq.enrol(token, csr), "0001", "pos-1") // the token is as it was
}

func TestBadRequestsForCertificatesSpendNoToken(t *testing.T) {
	hq := setup(t)
	token := hq.token("0001", "pos-1")
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	forged, _ := pem.Decode(request(t, newKey(t)))
	forged.Bytes[len(forged.Bytes)-1] ^= 1
	for key, want := range map[crypto.Signer]string{ec: "its key is ECDSA, not Ed25519", old: "its key is RSA, not Ed25519"} {
		wantRefused(t, hq.enrol(token, request(t, key)), http.StatusBadRequest, "SCHEMA", want)
	}
	wantRefused(t, hq.enrol(token, pem.EncodeToMemory(forged)), http.StatusBadRequest, "SCHEMA", "its signature is not by its key")
	wantRefused(t, hq.enrol(token, nil), http.StatusBadRequest, "SCHEMA", "no PEM certificate request")
	hq.wantHolder(hq.enrol(token, request(t, newKey(t))), "0001", "pos-1")
}

func TestARequestForAnotherTerminalsNameGetsTheTokens(t *testing.T) {
	hq := setup(t)
	csr := request(t, newKey(t), "urn:muster:store:0002:terminal:pos-9")
	hq.wantHolder(hq.enrol(hq.token("0001", "pos-1"), csr), "0001", "pos-1")
}

func TestATerminalThatTakesItselfForAnotherIsTold(t *testing.T) {
	hq := setup(t)
	token, csr := hq.token("0001", "pos-1"), request(t, newKey(t))
	ask := func(storeID, terminalID string) answer {
		got, err := hq.post(client(pinOf(token)), "/v1/enrol", map[string]string{"token": token, "csr": string(csr), "store": storeID, "terminal": terminalID})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	wantRefused(t, ask("0002", "pos-1"), http.StatusConflict, "CONFLICT", "the token is for terminal pos-1 of store 0001")
	wantRefused(t, ask("0001", "pos-2"), http.StatusConflict, "CONFLICT", "the token is for terminal pos-1 of store 0001")
	hq.wantHolder(ask("0001", "pos-1"), "0001", "pos-1") // corrected, with the same key
}

func TestATokenOnTheWrongMachineIsNotSpentAndThatKeyNotBelieved(t *testing.T) {
	hq := setup(t)
	token, wrong := hq.token("0001", "pos-1"), newKey(t)
	got, err := hq.post(client(pinOf(token)), "/v1/enrol", map[string]string{"token": token, "csr": string(request(t, wrong)), "store": "0002", "terminal": "pos-1"})
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, got, http.StatusConflict, "CONFLICT", "the token is for terminal pos-1 of store 0001")
	if key, err := hq.store.GetTerminalKey(t.Context(), keyID(wrong)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the key of the wrong machine is recorded: %+v, %v", key, err)
	}
	hq.advance(time.Hour) // the right one comes with a key of its own, in its own time
	hq.wantHolder(hq.enrol(token, request(t, newKey(t))), "0001", "pos-1")
}

func TestACertificateIsRenewedForTheSameAndForAnotherKey(t *testing.T) {
	hq := setup(t)
	key, cert := hq.enrolled("0001", "pos-1")
	same := hq.renew(key, cert, request(t, key))
	hq.wantHolder(same, "0001", "pos-1")
	next := newKey(t)
	other := hq.renew(key, same.Certificate, request(t, next, "urn:muster:store:0002:terminal:pos-9"))
	hq.wantHolder(other, "0001", "pos-1")
	hq.wantHolder(hq.renew(next, other.Certificate, request(t, next)), "0001", "pos-1")
	for _, k := range []string{keyID(key), keyID(next)} {
		known, err := hq.store.GetTerminalKey(t.Context(), k)
		if err != nil || known.StoreID != "0001" || known.TerminalID != "pos-1" {
			t.Fatalf("recorded %+v, %v", known, err)
		}
	}
}

func TestOneTerminalFillsNoRegisterWithItsRenewals(t *testing.T) {
	hq := setup(t)
	key, cert := hq.enrolled("0001", "pos-1")
	for range 6 {
		hq.wantHolder(hq.renew(key, cert, request(t, newKey(t))), "0001", "pos-1")
	}
	wantRefused(t, hq.renew(key, cert, request(t, newKey(t))), http.StatusTooManyRequests, "RATE_LIMITED", "renewed its certificate too often")
	other, its := hq.enrolled("0001", "pos-2")
	hq.wantHolder(hq.renew(other, its, request(t, other)), "0001", "pos-2")
	hq.advance(10 * time.Minute)
	hq.wantHolder(hq.renew(key, cert, request(t, key)), "0001", "pos-1")
}

// The token is spent before anything is signed; what then fails is mended by
// asking again.
func TestAnAuthorityThatCannotSignLosesNoToken(t *testing.T) {
	hq := setup(t)
	token, csr := hq.token("0001", "pos-1"), request(t, newKey(t))
	path := filepath.Join(hq.folder, identity.FileAuthorityKey)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, hq.enrol(token, csr), http.StatusInternalServerError, "INTERNAL", "internal error")
	if !strings.Contains(hq.log.String(), "put ca.key back into "+hq.folder) {
		t.Fatalf("the log does not say why:\n%s", hq.log)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	hq.wantHolder(hq.enrol(token, csr), "0001", "pos-1")
}

func TestARevokedTerminalCannotRenewNorEnrolItsKeyAgain(t *testing.T) {
	hq := setup(t)
	key, cert := hq.enrolled("0001", "pos-1")
	if _, err := hq.store.RevokeTerminal(t.Context(), "0001", "pos-1", "host:test", hq.now()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, hq.renew(key, cert, request(t, key)), http.StatusForbidden, "NOT_ALLOWED", "the certificate was revoked")
	wantRefused(t, hq.renew(key, cert, request(t, newKey(t))), http.StatusForbidden, "NOT_ALLOWED", "the certificate was revoked")
	token := hq.token("0001", "pos-1")
	wantRefused(t, hq.enrol(token, request(t, key)), http.StatusConflict, "CONFLICT", "the key was revoked, or belongs to another terminal")
	hq.wantHolder(hq.enrol(token, request(t, newKey(t))), "0001", "pos-1")
}

func TestNobodyTakesAnotherTerminalsKey(t *testing.T) {
	hq := setup(t)
	key, cert := hq.enrolled("0001", "pos-1")
	other, _ := hq.enrolled("0002", "pos-1")
	wantRefused(t, hq.renew(key, cert, request(t, other)), http.StatusConflict, "CONFLICT", "belongs to another terminal")
	wantRefused(t, hq.enrol(hq.token("0001", "pos-1"), request(t, other)), http.StatusConflict, "CONFLICT", "belongs to another terminal")
}

func TestOnlyAnEnrolledTerminalRenews(t *testing.T) {
	hq := setup(t)
	key := newKey(t)
	csr := request(t, key)
	none, err := hq.post(client(hq.id.AuthorityHash()), "/v1/renew", map[string]string{"csr": string(csr)})
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, none, http.StatusUnauthorized, "NOT_ALLOWED", "none was shown")
	for name, holder := range map[string]trust.Holder{"a user": {User: "alice"}, "nobody on record": {Store: "0001", Terminal: "pos-1"}} {
		cert, _, err := hq.id.Issue(csr, holder, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		wantRefused(t, hq.renew(key, string(cert), csr), http.StatusForbidden, "NOT_ALLOWED", "not of a terminal that is enrolled here")
	}
	// A certificate that names another terminal than the record of its key.
	enrolled, _ := hq.enrolled("0001", "pos-1")
	cert, _, err := hq.id.Issue(request(t, enrolled), trust.Holder{Store: "0002", Terminal: "pos-1"}, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, hq.renew(enrolled, string(cert), csr), http.StatusForbidden, "NOT_ALLOWED", "not of a terminal that is enrolled here")
}

func TestACertificateOfAnotherAuthorityOpensNothing(t *testing.T) {
	hq := setup(t)
	key, _ := hq.enrolled("0001", "pos-1")
	_, other := newIdentity(t)
	cert, _, err := other.Issue(request(t, key), trust.Holder{Store: "0001", Terminal: "pos-1"}, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	shown := pair(t, key, string(cert))
	got, err := hq.post(client(hq.id.AuthorityHash(), shown), "/v1/renew", map[string]string{"csr": string(request(t, key))})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestRequestsThatAreNoneAreRefusedWithTheReason(t *testing.T) {
	hq := setup(t)
	c := client(hq.id.AuthorityHash())
	for _, r := range []struct {
		path, body  string
		status      int
		code, words string
	}{
		{"/v1/enrol", "", 400, "EMPTY_PAYLOAD", "empty"},
		{"/v1/enrol", "{", 400, "BAD_JSON", "too early"},
		{"/v1/enrol", `{"token":"a","token":"b"}`, 400, "BAD_JSON", "token"},
		{"/v1/enrol", `{"Token":"a"}`, 400, "BAD_JSON", "Token"},
		{"/v1/enrol", `{"token":7}`, 400, "SCHEMA", "/token: must be a string, not "},
		{"/v1/enrol", `{"csr":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "TOO_LARGE", "at most 65536"},
		{"/v2/enrol", "{}", 404, "NOT_FOUND", "there is nothing here"},
	} {
		got, err := hq.post(c, r.path, r.body)
		if err != nil {
			t.Fatal(err)
		}
		wantRefused(t, got, r.status, r.code, r.words)
	}
	response, err := c.Get(fmt.Sprintf("https://%s/v1/enrol", hq.server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", response.Status)
	}
}

func TestOneAddressIsSlowedDown(t *testing.T) {
	hq := setup(t, func(c *enrol.Config) { c.PerSecond, c.Burst = 0.001, 2 })
	c := client(hq.id.AuthorityHash())
	for i, want := range []int{400, 400, 429, 429} {
		got, err := hq.post(c, "/v1/enrol", "{")
		if err != nil || got.status != want {
			t.Fatalf("request %d: %+v, %v", i, got, err)
		}
	}
	hq.advance(1000 * time.Second)
	if got, err := hq.post(c, "/v1/enrol", "{"); err != nil || got.status != 400 {
		t.Fatalf("after a rest: %+v, %v", got, err)
	}
}

// TestASetClockMovesNoLimit: set back it keeps nobody out, set ahead it lets nobody in.
func TestASetClockMovesNoLimit(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-26 * time.Hour, 26 * time.Hour} {
		hq := setup(t, func(c *enrol.Config) { c.PerSecond, c.Burst = 0.001, 1 })
		c := client(hq.id.AuthorityHash())
		for i, want := range []int{400, 429, 400} {
			switch i {
			case 1:
				hq.set(off)
			case 2:
				hq.advance(1000 * time.Second)
			}
			if got, err := hq.post(c, "/v1/enrol", "{"); err != nil || got.status != want {
				t.Errorf("set by %s, request %d: %+v, %v", off, i, got, err)
			}
		}
	}
}

func TestSilentConnectionsLeaveRoomForNoMoreOfTheirOwn(t *testing.T) {
	hq := setup(t, func(c *enrol.Config) { c.MaxRequests = 2 }) // two connections from one address
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", hq.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	first, second, third := dial(), dial(), dial()
	if err := third.SetReadDeadline(time.Now().Add(4 * time.Second)); err != nil { // below the handshake's limit
		t.Fatal(err)
	}
	if _, err := third.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Fatalf("a third connection is held: %v", err)
	}
	_ = first.Close()
	_ = second.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		got, err := hq.post(client(hq.id.AuthorityHash()), "/v1/enrol", "{")
		if err == nil && got.status == 400 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the places were not given back: %+v, %v", got, err)
		}
	}
}

func TestTheDoorSpeaksTLS13AndNothingLess(t *testing.T) {
	hq := setup(t)
	conn, err := tls.Dial("tcp", hq.server.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		_ = conn.Close()
		t.Fatal("TLS 1.2 is spoken")
	}
	if !strings.Contains(err.Error(), "protocol version") {
		t.Fatal(err)
	}
	got, err := http.Get(fmt.Sprintf("http://%s/v1/enrol", hq.server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusBadRequest || got.Header.Get("Content-Type") == "application/json" {
		t.Fatalf("plain HTTP is answered with %s", got.Status)
	}
}

func TestNoTokenIsEverLogged(t *testing.T) {
	hq := setup(t)
	token := hq.token("0001", "pos-1")
	csr := request(t, newKey(t))
	hq.enrol(token, csr)
	hq.enrol(token, request(t, newKey(t)))
	for _, body := range []string{`{"` + token + `":1,"` + token + `":2}`, `{"token":"` + token + `"`, `{"token":["` + token + `"]}`} {
		if _, err := hq.post(client(pinOf(token)), "/v1/enrol?token="+token, body); err != nil {
			t.Fatal(err)
		}
	}
	text := hq.log.String()
	if strings.Contains(text, strings.Split(token, ".")[1]) {
		t.Fatalf("the log tells the token:\n%s", text)
	}
	if !strings.Contains(text, "certificate handed out") || strings.Count(text, "enrolment refused") != 4 {
		t.Fatalf("the log is not whole:\n%s", text)
	}
}

func TestStopIsHarmlessBeforeStartAndTwice(t *testing.T) {
	hq := setup(t)
	idle := enrol.New(enrol.Config{Identity: hq.id, Keys: hq.store, Now: time.Now, Logger: discard()})
	if err := idle.Stop(t.Context()); err != nil || idle.Addr() != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := hq.server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := hq.post(client(hq.id.AuthorityHash()), "/v1/enrol", "{}"); err == nil {
		t.Fatal("it still answers")
	}
	taken := setup(t)
	busy := enrol.New(enrol.Config{Address: taken.server.Addr().String(), Identity: hq.id, Keys: hq.store, Now: time.Now, Logger: discard()})
	if err := busy.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot take enrolments") {
		t.Fatalf("a taken address: %v", err)
	}
}
