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
	// of the lifetime is left for them, a month in a usual certificate's.
	firstRetry = time.Minute
	lastRetry  = 6 * time.Hour
	// longestWait bounds one sleep, since a machine's clock may be set and the
	// machine suspended.
	longestWait = time.Hour
	// spread is the part of a lifetime by which terminals renew apart: those
	// that were enrolled on one day need not come back on one.
	spread = 50
)

// KeepFresh renews the certificate when two thirds of its lifetime are over,
// again and again, until ctx ends. What fails is retried with back-off and told
// to log; a certificate that is past its end is told as an error, with what to do.
func KeepFresh(ctx context.Context, id *identity.Identity, log *slog.Logger) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstRetry),
		backoff.WithMaxInterval(lastRetry), backoff.WithMaxElapsedTime(0))
	due := firstRenewal(id.Certificate().Leaf, time.Now())
	for {
		if !sleep(ctx, min(time.Until(due), longestWait)) {
			return
		}
		if time.Now().Before(due) {
			continue
		}
		err := Renew(ctx, id)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			retry.Reset()
			due = nextRenewal(id.Certificate().Leaf, time.Now())
			log.Info("certificate is renewed", "valid_until", id.Certificate().Leaf.NotAfter, "renews_at", due)
			continue
		}
		wait := retry.NextBackOff()
		due = time.Now().Add(wait)
		tell(log, id.Certificate().Leaf.NotAfter, err, wait)
	}
}

func tell(log *slog.Logger, end time.Time, err error, wait time.Duration) {
	if time.Now().After(end) {
		log.Error("the certificate has ended: ask headquarters for a new token and run: edge-agent enroll --force",
			"ended_at", end, "error", err)
		return
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		log.Error("headquarters refused to renew the certificate", "valid_until", end, "error", err, "retry_in", wait)
		return
	}
	log.Warn("certificate is not renewed yet", "valid_until", end, "error", err, "retry_in", wait)
}

// firstRenewal is when a certificate is due that was there at the start: at once,
// where the clock shows a time before it began and so cannot tell its age.
func firstRenewal(leaf *x509.Certificate, now time.Time) time.Time {
	if now.Before(leaf.NotBefore) {
		return now
	}
	return nextRenewal(leaf, now)
}

// nextRenewal is when two thirds of the lifetime are over, or a little later: by
// the clock, or counted from now where that has not reached the beginning.
func nextRenewal(leaf *x509.Certificate, now time.Time) time.Time {
	life, from := leaf.NotAfter.Sub(leaf.NotBefore), leaf.NotBefore
	if now.Before(from) {
		from = now
	}
	return from.Add(life*2/3 + rand.N(life/spread+1))
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
