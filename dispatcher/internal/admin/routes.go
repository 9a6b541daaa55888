package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"muster/dispatcher/internal/metrics"
	"muster/dispatcher/internal/quarantine"
	"muster/internal/protocol"
)

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/enrol-token", route(s, s.enrolToken))
	mux.HandleFunc("POST /v1/revoke", route(s, s.revoke))
	mux.HandleFunc("POST /v1/keys/rotate", route(s, s.rotate))
	mux.HandleFunc("POST /v1/reload", route(s, s.reload))
	mux.HandleFunc("GET /v1/health", route(s, s.health))
	mux.HandleFunc("GET /v1/keys", route(s, s.keys))
	mux.HandleFunc("GET /v1/terminals", route(s, s.terminals))
	mux.HandleFunc("/", route(s, func(*http.Request, struct{}) (struct{}, error) {
		return struct{}{}, &protocol.Error{Code: protocol.CodeNotFound, Message: "the admin line has no such request",
			MessageZh: "管理接口没有该请求", Hint: "use the dispatcher command of the same version as the running one", HintZh: "请使用与运行中版本相同的 dispatcher 命令"}
	}))
	open := http.NewServeMux()
	open.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { tell(w, nil) })
	open.HandleFunc("GET /readyz", s.readiness)
	open.HandleFunc("GET /metrics", s.measurements)
	open.Handle("/", s.private(mux))
	return s.own(open)
}

// own lets nobody in who asks for another host, nor a page of a browser: it sends
// its Origin, and one that was led here by a name of its own (DNS rebinding) another
// Host.
func (s *Server) own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" || !s.ownHost(r.Host) {
			s.refuse(w, r, http.StatusForbidden, notAllowed("the admin line takes no requests of browsers or for other hosts"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readiness is for supervisors: 200 when headquarters takes work in, else 503 and why.
func (s *Server) readiness(w http.ResponseWriter, r *http.Request) {
	if s.Ready == nil {
		tell(w, nil)
		return
	}
	tell(w, s.Ready(r.Context()))
}

func tell(w http.ResponseWriter, trouble error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if trouble != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, trouble)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// measurements is for who collects them. They hold counts alone, so nobody on this
// machine needs a token.
func (s *Server) measurements(w http.ResponseWriter, r *http.Request) {
	if s.Metrics == nil {
		http.NotFound(w, r)
		return
	}
	page, err := s.Metrics(r.Context())
	if err != nil {
		tell(w, err)
		return
	}
	w.Header().Set("Content-Type", metrics.ContentType)
	_, _ = w.Write(page) // who went away needs nothing more
}

// private lets those in alone who hold the token.
func (s *Server) private(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + s.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			s.refuse(w, r, http.StatusUnauthorized, notAllowed("the token of the admin line is missing or wrong"))
			return
		}
		next.ServeHTTP(w, r)
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
		Hint:   "use the dispatcher command on this machine",
		HintZh: "请在本机使用 dispatcher 命令"}
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
	said := fault{Code: protocol.CodeInternal, Message: err.Error(), MessageZh: "总部内部错误", Hint: "see the log of headquarters", HintZh: "请查看总部日志"}
	var refused *protocol.Error
	if errors.As(err, &refused) {
		said = fault{refused.Code, refused.Message, refused.MessageZh, refused.Hint, refused.HintZh, refused.Path}
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
