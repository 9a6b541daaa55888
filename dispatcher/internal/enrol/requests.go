package enrol

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io"
	"net/http"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// enrolRequest asks for a terminal's first certificate. Store and terminal may
// say who the terminal believes to be; a token of another one is then refused and
// stays unused.
type enrolRequest struct {
	Token    string `json:"token"`
	CSR      string `json:"csr"`
	Store    string `json:"store"`
	Terminal string `json:"terminal"`
}

// renewRequest asks for the next certificate, for the same or another key.
type renewRequest struct {
	CSR string `json:"csr"`
}

// answer is what a terminal needs to speak and to believe.
type answer struct {
	Store       string       `json:"store"`
	Terminal    string       `json:"terminal"`
	Certificate string       `json:"certificate"` // PEM
	Authority   string       `json:"authority"`   // PEM
	Trust       trust.Sealed `json:"trust"`
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/enrol", s.guarded(s.enrol))
	mux.HandleFunc("POST /v1/renew", s.guarded(s.renew))
	mux.HandleFunc("/v1/enrol", s.guarded(wrongMethod))
	mux.HandleFunc("/v1/renew", s.guarded(wrongMethod))
	mux.HandleFunc("/", s.guarded(nothingHere))
	return mux
}

// work answers one request, whose body has been read, or returns why not, often
// a *refusal.
type work func(r *http.Request, body []byte) (answer, error)

// guarded puts the limits before work and its answer or refusal on the wire.
func (s *Server) guarded(do work) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reply, err := s.surviving(do, r)
		if err == nil {
			s.write(w, http.StatusOK, reply)
			return
		}
		refused := asRefusal(err)
		if refused.status == http.StatusInternalServerError {
			s.Logger.Error("enrolment failed", "remote", r.RemoteAddr, "error", err)
		} else {
			// The sentence may quote the request; only its code is logged.
			s.Logger.Warn("enrolment refused", "remote", r.RemoteAddr, "code", refused.Code)
		}
		if refused.status == http.StatusTooManyRequests || refused.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "10")
		}
		s.write(w, refused.status, refused)
	}
}

// surviving is limited, with an error for a request that makes headquarters panic.
func (s *Server) surviving(do work, r *http.Request) (reply answer, err error) {
	err = s.Ward.Do(quarantine.AlarmPanicked, r.URL.Path+" of "+network(r.RemoteAddr).String(), func() (err error) {
		reply, err = s.limited(do, r)
		return err
	})
	return reply, err
}

func (s *Server) limited(do work, r *http.Request) (answer, error) {
	if !s.limits.allow(network(r.RemoteAddr), s.Steady()) {
		return answer{}, tooFast()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	if err != nil {
		return answer{}, cutShort()
	}
	select {
	case s.working <- struct{}{}: // no slow sender holds a place
		defer func() { <-s.working }()
		return do(r, body)
	default:
		return answer{}, tooMany()
	}
}

func (s *Server) write(w http.ResponseWriter, status int, body any) {
	text, err := protocol.Encode(body)
	if err != nil {
		s.Logger.Error("enrolment failed", "error", err)
		status, text = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // whoever left asks again
}

func (s *Server) enrol(r *http.Request, body []byte) (answer, error) {
	var request enrolRequest
	if err := protocol.Decode(body, maxBodyBytes, &request); err != nil {
		return answer{}, err
	}
	draft, err := s.draft(request.CSR)
	if err != nil {
		return answer{}, err
	}
	asked := record(draft, s)
	asked.StoreID, asked.TerminalID = request.Store, request.Terminal
	key, err := s.Keys.Enrol(r.Context(), identity.HashToken(request.Token), asked, s.Now())
	if err != nil {
		return answer{}, unrecorded(err)
	}
	return s.answer(draft, trust.Holder{Store: key.StoreID, Terminal: key.TerminalID}, "enrolment")
}

func (s *Server) renew(r *http.Request, body []byte) (answer, error) {
	old, err := s.holder(r)
	if err != nil {
		return answer{}, err
	}
	var request renewRequest
	if err := protocol.Decode(body, maxBodyBytes, &request); err != nil {
		return answer{}, err
	}
	draft, err := s.draft(request.CSR)
	if err != nil {
		return answer{}, err
	}
	holder := trust.Holder{Store: old.StoreID, Terminal: old.TerminalID}
	if !s.renewals.allow(holder, s.Steady()) {
		return answer{}, tooOften()
	}
	if err := s.Keys.RenewKey(r.Context(), old.KeyID, record(draft, s), s.Now()); err != nil {
		return answer{}, unrecorded(err)
	}
	return s.answer(draft, holder, "renewal")
}

// holder is the record of the terminal whose certificate the connection proved,
// when it is enrolled and not revoked.
func (s *Server) holder(r *http.Request) (store.TerminalKey, error) {
	if len(r.TLS.VerifiedChains) == 0 {
		return store.TerminalKey{}, noCertificate()
	}
	cert := r.TLS.VerifiedChains[0][0]
	named, err := trust.HolderOf(cert)
	public, isEd25519 := cert.PublicKey.(ed25519.PublicKey)
	if err != nil || !isEd25519 {
		return store.TerminalKey{}, notEnrolled()
	}
	known, err := s.Keys.GetTerminalKey(r.Context(), trust.KeyID(public))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.TerminalKey{}, notEnrolled()
	case err != nil:
		return store.TerminalKey{}, err
	case known.PublicKey != encode(public), known.StoreID != named.Store, known.TerminalID != named.Terminal:
		return store.TerminalKey{}, notEnrolled() // a key id proves nothing
	case !known.RevokedAt.IsZero():
		return store.TerminalKey{}, revoked()
	}
	return known, nil
}

func (s *Server) draft(csr string) (*identity.Draft, error) {
	draft, err := s.Identity.Draft([]byte(csr), s.Lifetime, s.Now())
	if errors.Is(err, identity.ErrBadRequest) {
		return nil, badRequest(err)
	}
	return draft, err
}

// record is what the store keeps of a draft, still without a holder.
func record(d *identity.Draft, s *Server) store.TerminalKey {
	return store.TerminalKey{KeyID: d.KeyID, PublicKey: encode(d.PublicKey), Serial: d.Serial, IssuedAt: s.Now(), NotAfter: d.NotAfter}
}

// answer signs the certificate. The authority's key is read here, for those
// alone who may have it.
func (s *Server) answer(draft *identity.Draft, holder trust.Holder, occasion string) (answer, error) {
	cert, err := draft.Sign(holder)
	if err != nil {
		return answer{}, err
	}
	s.Logger.Info("certificate handed out", "occasion", occasion, "store_id", holder.Store, "terminal_id", holder.Terminal, "key_id", draft.KeyID, "not_after", draft.NotAfter)
	return answer{Store: holder.Store, Terminal: holder.Terminal, Certificate: string(cert),
		Authority: string(s.Identity.Authority()), Trust: s.Identity.Sealed()}, nil
}

func encode(public ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(public) }
