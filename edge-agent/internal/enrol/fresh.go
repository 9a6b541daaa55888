package enrol

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"muster/edge-agent/internal/identity"
)

const (
	// firstRetry and lastRetry bound the waits between failed renewals. A third
	// of the lifetime is left for them, a month in a usual certificate's, unless
	// the clock was wrong until now.
	firstRetry = time.Minute
	lastRetry  = time.Hour
	// longestWait bounds one sleep, since a machine's clock may be set, the
	// machine suspended, and headquarters tells what time it is.
	longestWait = time.Minute
	// spread is the part of a lifetime by which terminals renew apart: those
	// that were enrolled on one day need not come back on one.
	spread = 50
)

// KeepFresh renews the certificate when two thirds of its lifetime are over,
// again and again, until ctx ends: by headquarters' time, or, until that is known,
// by wall, the terminal's clock. What fails is retried with back-off and told to
// log; a certificate that is past its end is told as an error, with what to do.
func KeepFresh(ctx context.Context, id *identity.Identity, wall func() time.Time, log *slog.Logger) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstRetry),
		backoff.WithMaxInterval(lastRetry), backoff.WithMaxElapsedTime(0))
	late := rand.Float64()
	for {
		leaf := id.Certificate().Leaf
		if wait := untilDue(leaf, id.Now(wall()), late); wait > 0 {
			if !sleep(ctx, min(wait, longestWait)) {
				return
			}
			continue
		}
		wait := longestWait // none is renewed more often
		err := Renew(ctx, id, wall)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry.Reset()
			late = rand.Float64()
			log.Info("certificate is renewed", "valid_until", id.Certificate().Leaf.NotAfter)
		default:
			wait = retry.NextBackOff()
			tell(log, leaf.NotAfter, id.Now(wall()), err, wait)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func tell(log *slog.Logger, end, now time.Time, err error, wait time.Duration) {
	if now.After(end) {
		log.Error("the certificate has ended: set this terminal's clock if it is wrong, else ask headquarters for a new token and run: edge-agent enroll --force",
			"ended_at", end, "now", now, "error", err, "retry_in", wait)
		return
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		log.Error("headquarters refused to renew the certificate", "valid_until", end, "error", err, "retry_in", wait)
		return
	}
	log.Warn("certificate is not renewed yet", "valid_until", end, "error", err, "retry_in", wait)
}

// untilDue is how long a certificate is left alone: until two thirds of its
// lifetime are over, and late, from 0 to 1, of the spread. It is due at once where
// now is before its beginning, and so does not tell its age.
func untilDue(leaf *x509.Certificate, now time.Time, late float64) time.Duration {
	if now.Before(leaf.NotBefore) {
		return 0
	}
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotBefore.Add(life*2/3 + time.Duration(late*float64(life/spread))).Sub(now)
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
