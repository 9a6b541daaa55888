package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// ErrNotRunning says that no dispatcher answers for the data folder.
var ErrNotRunning = errors.New("headquarters is not running")

const (
	// clientTimeout bounds a request: longer than the server's writeTimeout.
	clientTimeout = 70 * time.Second
	// maxAnswerBytes bounds an answer: 50,000 terminals fit.
	maxAnswerBytes = 32 << 20
)

// Client is the operator's end. Call Dial.
type Client struct {
	notice
	folder string
	http   *http.Client
}

// Dial finds the dispatcher that runs with the data folder. It fails with
// ErrNotRunning when none left its notice there; whether it still runs shows
// with the first request.
func Dial(dataFolder string) (*Client, error) {
	found, err := readNotice(filepath.Join(dataFolder, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; if it does run with this folder, its %s was removed: start it again, which writes it anew", notRunning(dataFolder), file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach headquarters: %w", err)
	}
	address, err := url.Parse(found.URL)
	if err != nil || address.Scheme != "http" || checkLoopback(address.Host) != nil {
		return nil, fmt.Errorf("cannot reach headquarters: %s names no loopback address", filepath.Join(dataFolder, file))
	}
	// No proxy of the environment comes between two ends of one machine.
	return &Client{notice: found, folder: dataFolder, http: &http.Client{Timeout: clientTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}, nil
}

func readNotice(path string) (notice, error) {
	var n notice
	data, err := trust.ReadOwn(path)
	if err != nil {
		return n, err
	}
	if protocol.Decode(data, maxBodyBytes, &n) != nil { // its words are for who sends a message
		return n, fmt.Errorf("%s is not as headquarters wrote it: restart headquarters, which writes it anew", path)
	}
	return n, nil
}

func notRunning(dataFolder string) error {
	return fmt.Errorf("%w with the data folder %s: start it with dispatcher serve, or name its folder with --data (or its configuration with -c)", ErrNotRunning, dataFolder)
}

// Actor is the operator's name on this machine, as an id.
func Actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username[strings.LastIndex(u.Username, `\`)+1:] // without the domain of Windows
	}
	clean := strings.Map(func(r rune) rune {
		if protocol.ValidID("a" + string(r)) {
			return r
		}
		return '-'
	}, name)
	if len(clean) > 63 {
		clean = clean[:63]
	}
	if !protocol.ValidID(clean) {
		return "unknown"
	}
	return clean
}

// EnrolToken asks for a token with which one terminal may enrol.
func (c *Client) EnrolToken(ctx context.Context, request TokenRequest) (Token, error) {
	return ask[Token](ctx, c, http.MethodPost, "/v1/enrol-token", request)
}

// Revoke ends the trust in a terminal, for good.
func (c *Client) Revoke(ctx context.Context, request RevokeRequest) (Revocation, error) {
	return ask[Revocation](ctx, c, http.MethodPost, "/v1/revoke", request)
}

// RotateKeys asks for new signing keys; a second person has to approve.
func (c *Client) RotateKeys(ctx context.Context, request RotateRequest) (Rotation, error) {
	return ask[Rotation](ctx, c, http.MethodPost, "/v1/keys/rotate", request)
}

// Keys lists headquarters' signing keys.
func (c *Client) Keys(ctx context.Context) (Keys, error) {
	return ask[Keys](ctx, c, http.MethodGet, "/v1/keys", nil)
}

// Health asks whether headquarters runs and its database answers.
func (c *Client) Health(ctx context.Context) (Health, error) {
	return ask[Health](ctx, c, http.MethodGet, "/v1/health", nil)
}

// Reload has jobs, stores, users and limits read anew.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	return ask[Reloaded](ctx, c, http.MethodPost, "/v1/reload", struct{}{})
}

// Terminals lists the keys of all terminals.
func (c *Client) Terminals(ctx context.Context) (Terminals, error) {
	return ask[Terminals](ctx, c, http.MethodGet, "/v1/terminals", nil)
}

// ask sends a request and decodes its answer. A refusal is a *protocol.Error.
func ask[Answer any](ctx context.Context, c *Client, method, path string, request any) (Answer, error) {
	var answer Answer
	var body []byte
	if request != nil {
		var err error
		if body, err = protocol.Encode(request); err != nil {
			return answer, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return answer, fmt.Errorf("cannot ask headquarters: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := c.http.Do(r)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" && ctx.Err() == nil {
		return answer, fmt.Errorf("%w (%s)", notRunning(c.folder), op.Error()) // the notice is of a process that was killed
	}
	if err != nil {
		return answer, fmt.Errorf("cannot ask headquarters: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return answer, fmt.Errorf("cannot read the answer of headquarters: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var said fault
		if err := protocol.Decode(data, maxAnswerBytes, &said); err != nil || said.Code == "" {
			return answer, fmt.Errorf("headquarters answered %s", response.Status)
		}
		return answer, &protocol.Error{Code: said.Code, Message: said.Message, MessageZh: said.MessageZh, Hint: said.Hint, HintZh: said.HintZh, Path: said.Path}
	}
	if err := protocol.Decode(data, maxAnswerBytes, &answer); err != nil {
		return answer, fmt.Errorf("cannot read the answer of headquarters: %w", err)
	}
	return answer, nil
}
