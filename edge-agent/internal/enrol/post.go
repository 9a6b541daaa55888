package enrol

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// requestTimeout bounds one question, connecting included: headquarters
	// answers in milliseconds, a bad link in seconds.
	requestTimeout = 30 * time.Second
	// maxAnswer bounds what headquarters may answer: two certificates and a list
	// of keys.
	maxAnswer = 256 << 10
)

// question is what headquarters is asked; CSR is PEM (PKCS #10, RFC 2986).
type question struct {
	Token    string `json:"token,omitempty"`
	CSR      string `json:"csr"`
	Store    string `json:"store,omitempty"`
	Terminal string `json:"terminal,omitempty"`
}

type answer struct {
	Store       string       `json:"store"`
	Terminal    string       `json:"terminal"`
	Certificate string       `json:"certificate"`
	Authority   string       `json:"authority"`
	Trust       trust.Sealed `json:"trust"`
}

// Refusal is headquarters' no. Hint says what to do about it, "" when
// headquarters did not say.
type Refusal struct {
	Status  int           `json:"-"` // of HTTP
	Code    protocol.Code `json:"code"`
	Message string        `json:"message"`
	Hint    string        `json:"hint"`
	Path    string        `json:"path"` // a JSON Pointer into what was asked
}

// Error gives code, sentence and hint.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("headquarters refused (%d %s)", r.Status, http.StatusText(r.Status))
	if r.Code != "" {
		text += ": " + string(r.Code)
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	if r.Hint != "" {
		text += "; " + r.Hint
	}
	return text
}

func post(ctx context.Context, config *tls.Config, to *url.URL, q question, key ed25519.PrivateKey) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	csr, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, key)
	if err != nil {
		return answer{}, fmt.Errorf("cannot ask for a certificate: %w", err)
	}
	q.CSR = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	body, err := json.Marshal(q)
	if err != nil {
		return answer{}, fmt.Errorf("cannot ask for a certificate: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("cannot ask for a certificate: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true}
	client := &http.Client{Transport: transport,
		// A token is for the address it was meant for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("cannot reach headquarters at %s: %w%s", to.Host, err, adviceFor(err))
	}
	defer response.Body.Close()
	return readAnswer(response)
}

// errCutOff says that the line broke within an answer.
var errCutOff = errors.New("cannot read headquarters' answer")

func readAnswer(response *http.Response) (answer, error) {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w; ask again", errCutOff, err)
	}
	if response.StatusCode != http.StatusOK {
		refusal := Refusal{Status: response.StatusCode}
		// A proxy or another program may answer too: then the status says it all.
		_ = protocol.Decode(text, maxAnswer, &refusal)
		return answer{}, &refusal
	}
	var got answer
	if err := protocol.Decode(text, maxAnswer, &got); err != nil {
		return answer{}, fmt.Errorf("cannot read headquarters' answer: %w; is this the address of headquarters' enrolment?", err)
	}
	return got, nil
}

// adviceFor says what to do about a headquarters that cannot be reached.
func adviceFor(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "; check the host name in the address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; check the port, and whether headquarters has enrolment switched on"
	case errors.Is(err, context.DeadlineExceeded):
		return "; check the network and firewalls between here and headquarters"
	}
	return ""
}
