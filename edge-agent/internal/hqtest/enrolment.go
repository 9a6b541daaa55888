package hqtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"muster/internal/trust"
)

// Enrolment is headquarters' HTTPS end.
type Enrolment struct {
	*HQ
	URL string

	mu     sync.Mutex
	tokens map[string]*token
	spent  map[string]bool // keys that are taken never again
	// lost is how many answers do not arrive: the connection is cut behind what
	// they decided.
	lost int
	// from and until are the times of the certificates that are given.
	from, until time.Time
	renewed     int
	version     int64 // of the list of keys
}

type token struct {
	holder trust.Holder
	key    string // of the CSR that used it up
}

// Enrol serves enrolment until the test ends, with a server certificate.
func (h *HQ) Enrol(server tls.Certificate) *Enrolment {
	now := time.Now()
	e := &Enrolment{HQ: h, version: 1, tokens: map[string]*token{}, spent: map[string]bool{}, from: now.Add(-time.Hour), until: now.Add(90 * 24 * time.Hour)}
	s := httptest.NewUnstartedServer(http.HandlerFunc(e.serve))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: h.Pool()}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	h.t.Cleanup(s.Close)
	e.URL = s.URL
	return e
}

// Token makes a token for a terminal.
func (e *Enrolment) Token(holder trust.Holder) string {
	secret := make([]byte, 32)
	_, err := rand.Read(secret)
	e.must(err)
	pin := sha256.Sum256(e.cert.RawSubjectPublicKeyInfo)
	text := "mt1." + base64.RawURLEncoding.EncodeToString(secret) + "." + hex.EncodeToString(pin[:])
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens[text] = &token{holder: holder}
	return text
}

// Lose lets so many answers get lost.
func (e *Enrolment) Lose(answers int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = answers
}

// Give sets the times of the certificates that are given from now on.
func (e *Enrolment) Give(from, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.from, e.until = from, until
}

// Rotate raises the version of the list of keys.
func (e *Enrolment) Rotate() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.version++
}

// Renewed counts the certificates that were renewed.
func (e *Enrolment) Renewed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.renewed
}

func (e *Enrolment) serve(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var q struct{ Token, CSR, Store, Terminal string }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		refuse(w, http.StatusBadRequest, "BAD_JSON", err.Error(), "")
		return
	}
	block, _ := pem.Decode([]byte(q.CSR))
	if block == nil {
		refuse(w, http.StatusBadRequest, "SCHEMA", "no certificate request", "/csr")
		return
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		refuse(w, http.StatusBadRequest, "SCHEMA", "no certificate request", "/csr")
		return
	}
	public, _ := csr.PublicKey.(ed25519.PublicKey)
	if e.spent[string(public)] {
		refuse(w, http.StatusConflict, "CONFLICT", "the key was revoked", "/csr")
		return
	}
	holder, ok := e.holder(w, r, q.Token, trust.Holder{Store: q.Store, Terminal: q.Terminal}, string(public))
	if !ok {
		return
	}
	if e.lost > 0 {
		e.lost--
		panic(http.ErrAbortHandler)
	}
	list := e.Seal(e.version, e.Listed)
	answer := map[string]any{"store": holder.Store, "terminal": holder.Terminal, "authority": string(e.Authority()),
		"certificate": string(e.Issue(public, holder, e.from, e.until)), "trust": list}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		e.t.Error(err)
	}
}

// holder is whom the certificate is for, by token or by the old certificate.
func (e *Enrolment) holder(w http.ResponseWriter, r *http.Request, text string, named trust.Holder, key string) (trust.Holder, bool) {
	if r.URL.Path == "/v1/renew" && len(r.TLS.PeerCertificates) > 0 {
		holder, err := trust.HolderOf(r.TLS.PeerCertificates[0])
		if err == nil {
			e.renewed++
			return holder, true
		}
	}
	used := e.tokens[text]
	switch {
	case r.URL.Path != "/v1/enrol" || used == nil:
		refuse(w, http.StatusForbidden, "NOT_ALLOWED", "the token is unknown", "/token")
		return trust.Holder{}, false
	case named.Store != "" && named != used.holder:
		refuse(w, http.StatusForbidden, "NOT_ALLOWED", "the token is for another terminal", "/store")
		return trust.Holder{}, false
	case used.key != "" && used.key != key:
		refuse(w, http.StatusForbidden, "CONFLICT", "the token was used", "/token")
		return trust.Holder{}, false
	}
	used.key = key
	return used.holder, true
}

// Spend takes no key any more that asked so far.
func (e *Enrolment) Spend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tokens {
		e.spent[t.key] = true
	}
}

func refuse(w http.ResponseWriter, status int, code, message, path string) {
	w.WriteHeader(status)
	// A connection that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": message, "path": path, "hint": "ask headquarters for a new token"})
}
