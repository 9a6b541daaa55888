package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"muster/dispatcher/internal/quarantine"
	"muster/internal/protocol"
)

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/enrol-token", route(s, s.enrolToken))
	mux.HandleFunc("POST /v1/revoke", route(s, s.revoke))
	mux.HandleFunc("POST /v1/keys/rotate", route(s, s.rotate))
	mux.HandleFunc("GET /v1/health", route(s, s.health))
	mux.HandleFunc("GET /v1/keys", route(s, s.keys))
	mux.HandleFunc("GET /v1/terminals", route(s, s.terminals))
	mux.HandleFunc("/", route(s, func(*http.Request, struct{}) (struct{}, error) {
		return struct{}{}, &protocol.Error{Code: protocol.CodeNotFound, Message: "the admin line has no such request",
			MessageZh: "管理接口没有该请求", Hint: "use the dispatcher command of the same version as the running one"}
	}))
	return s.private(mux)
}

// private lets those in alone who hold the token, and no page of a browser: a
// page sends its Origin, and one that was led here by a name of its own (DNS
// rebinding) another Host.
func (s *Server) private(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + s.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		switch {
		case r.Header.Get("Origin") != "" || !s.ownHost(r.Host):
			s.refuse(w, r, http.StatusForbidden, notAllowed("the admin line takes no requests of browsers or for other hosts"))
		case subtle.ConstantTimeCompare(got[:], want[:]) != 1:
			s.refuse(w, r, http.StatusUnauthorized, notAllowed("the token of the admin line is missing or wrong"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ownHost says whether the request was addressed to where the line is.
func (s *Server) ownHost(asked string) bool {
	address := s.listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	return err == nil && (asked == address || asked == net.JoinHostPort("localhost", port))
}

func notAllowed(why string) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeNotAllowed, Message: why, MessageZh: "管理接口拒绝了该请求",
		Hint: "use the dispatcher command on this machine"}
}

// route decodes a request, lets do answer it and writes what came of it. A GET
// has no body.
func route[Request, Answer any](s *Server, do func(*http.Request, Request) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request Request
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
			if err == nil {
				err = protocol.Decode(body, maxBodyBytes, &request)
			}
			if err != nil {
				s.refuse(w, r, http.StatusBadRequest, err)
				return
			}
		}
		var answer Answer
		err := s.Ward.Do(quarantine.AlarmPanicked, "the command "+r.URL.Path, func() (err error) {
			answer, err = do(r, request)
			return err
		})
		if err != nil {
			s.refuse(w, r, statusOf(err), err)
			return
		}
		s.write(w, http.StatusOK, answer)
	}
}

func statusOf(err error) int {
	var refused *protocol.Error
	if !errors.As(err, &refused) {
		return http.StatusInternalServerError
	}
	switch refused.Code {
	case protocol.CodeNotFound, protocol.CodeUnknownStore:
		return http.StatusNotFound
	case protocol.CodeConflict:
		return http.StatusConflict
	case protocol.CodeShuttingDown:
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

// refuse says why. The whole text of an unknown error is told: who may read the
// data folder may read the log.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	said := fault{Code: protocol.CodeInternal, Message: err.Error(), Hint: "see the log of headquarters"}
	var refused *protocol.Error
	if errors.As(err, &refused) {
		said = fault{refused.Code, refused.Message, refused.MessageZh, refused.Hint, refused.Path}
	}
	if left, due := s.sparing.Due(string(said.Code), s.Now()); due { // whoever is on this machine can be refused
		s.Logger.Warn("admin request refused", "path", strings.ToValidUTF8(r.URL.Path, "?"), "code", said.Code, "error", err, "left_out", left)
	}
	s.write(w, status, said)
}

func (s *Server) write(w http.ResponseWriter, status int, body any) {
	text, err := protocol.Encode(body)
	if err != nil {
		s.Logger.Error("admin request failed", "error", err)
		status, text = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // whoever left asks again
}
