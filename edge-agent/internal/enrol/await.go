package enrol

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"muster/edge-agent/internal/durable"
	"muster/edge-agent/internal/identity"
	"muster/internal/files"
	"muster/internal/trust"
)

const (
	// firstTry and lastTry bound the waits for a token and for headquarters: a
	// person who has just put the token there wants to see that it works, and a
	// whole chain that waits for its headquarters must not trample it.
	firstTry = time.Second
	lastTry  = 30 * time.Second
)

// Await enrols with the token in a file, as soon as the file is there and
// headquarters can be reached, and tells log what it waits for. The request's
// token is not looked at. It fails when trying again would change nothing: the
// token is refused, or is another headquarters'; and with ctx's error when that
// ends first.
func Await(ctx context.Context, r Request, tokenFile string, log *slog.Logger) (*identity.Identity, error) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstTry),
		backoff.WithMaxInterval(lastTry), backoff.WithMaxElapsedTime(0))
	for {
		id, err := enrolFrom(ctx, r, tokenFile)
		if err == nil {
			log.Info("terminal is enrolled", "valid_until", id.Certificate().Leaf.NotAfter)
			return id, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the enrolment was broken off: %w", ctx.Err())
		}
		wait := retry.NextBackOff()
		switch {
		case errors.Is(err, errNoToken):
			log.Info("waits for the token of its enrolment: dispatcher enroll makes one", "token_file", tokenFile, "retry_in", wait)
		case mayPass(err):
			log.Warn("not enrolled yet", "headquarters", r.URL, "error", err, "retry_in", wait)
		default:
			return nil, fmt.Errorf("%w: put a new token of dispatcher enroll into %s, unless this says otherwise, and start again", err, tokenFile)
		}
		if !sleep(ctx, wait) {
			return nil, fmt.Errorf("the enrolment was broken off: %w", ctx.Err())
		}
	}
}

// errNoToken says that the file is not there, or not written yet.
var errNoToken = errors.New("there is no token yet")

func enrolFrom(ctx context.Context, r Request, tokenFile string) (*identity.Identity, error) {
	text, err := files.Await(ctx, func() ([]byte, error) { return trust.ReadPrivate(tokenFile) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoToken
	}
	if err != nil {
		return nil, err
	}
	if r.Token = strings.TrimSpace(string(text)); r.Token == "" {
		return nil, errNoToken
	}
	return Enrol(ctx, r)
}

// mayPass says whether the same enrolment may work later.
func mayPass(err error) bool {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Status == http.StatusTooManyRequests || refusal.Status >= http.StatusInternalServerError
	}
	var unreached *url.Error
	return !errors.Is(err, errOtherAuthority) && (errors.As(err, &unreached) || errors.Is(err, errCutOff) || durable.Refused(err))
}
