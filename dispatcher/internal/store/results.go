package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"muster/dispatcher/internal/progress"
	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
)

// checkResult compares a stored result with the hash under which its terminal sent
// it. SQLite has no checksum of a page, so this is what finds a byte that changed
// inside of it. What was blacked out keeps the hash of what was sent, and so does an
// answer that was no valid result, of which nothing but the failure is stored.
func checkResult(a Attempt) error {
	if a.Answer != protocol.AnswerSucceeded || a.Redacted > 0 || a.Failure != nil {
		return nil
	}
	if sum := sha256.Sum256(a.Result); hex.EncodeToString(sum[:]) != a.SHA256 {
		return fmt.Errorf("%w: the result of attempt %d of task %s is not what its terminal sent", ErrCorrupt, a.Attempt, a.TaskID)
	}
	return nil
}

// checkResults compares every one.
func checkResults(ctx context.Context, q sqlite.Querier) error {
	attempts := sqlite.Stream(ctx, q, func(row sqlite.Row) (Attempt, error) {
		var a Attempt
		err := row.Scan(&a.TaskID, &a.Attempt, &a.Answer, &a.Redacted, &a.SHA256, sqlite.Document{Content: &a.Failure}, sqlite.Raw{Into: &a.Result})
		return a, err
	}, `SELECT task_id, attempt, answer, redacted, sha256, failure, result FROM attempts WHERE answer = 'succeeded'`)
	total, done := int64(0), int64(0)
	if progress.Of(ctx) != nil {
		var err error
		total, err = sqlite.One(ctx, q, func(row sqlite.Row) (n int64, err error) {
			err = row.Scan(&n)
			return n, err
		}, `SELECT count(*) FROM attempts WHERE answer = 'succeeded'`)
		if err != nil {
			return err
		}
	}
	for a, err := range attempts {
		progress.Say(ctx, "compares results with their hashes", done, total)
		done++
		if err == nil {
			err = checkResult(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
