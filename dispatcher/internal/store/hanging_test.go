package store_test

import (
	"strings"
	"testing"
	"time"

	"muster/internal/task"
)

// TestHangingNamesWhatMustNotSeeTheTimeStep, one thing after the other.
func TestHangingNamesWhatMustNotSeeTheTimeStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := at(0)
	want := func(part string) {
		t.Helper()
		got, err := b.Hanging(t.Context(), now)
		if err != nil || (part == "") != (got == "") || !strings.Contains(got, part) {
			t.Errorf("%q hangs on the time, want %q: %v", got, part, err)
		}
	}
	want("")
	b.create(2)
	want("before its barrier")
	b.revise(1, b.judged(b.barrier(at(2*time.Minute))))
	want("") // what nobody works on waits for its make-up, by any clock
	b.grant(0, at(3*time.Minute))
	want("is running")
	failed := failure(0, 1, task.Fail)
	failed.RetryAt = at(4 * time.Minute)
	b.settle(failed, at(3*time.Minute))
	want("next attempt")
	now = at(4 * time.Minute)
	want("") // its store may be away for days
	b.grant(0, at(10*time.Minute))
	b.settle(success(0, 2, `{}`), at(10*time.Minute))
	want("")
}
