package plan_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/plan"
	"muster/internal/protocol"
)

// TestARunsLimitsStayWithinHeadquarters: what would never be granted is refused by name.
func TestARunsLimitsStayWithinHeadquarters(t *testing.T) {
	t.Parallel()
	planner := plan.New(rand.Reader)
	planner.Limit(job.Limits{MaxRunning: 50, GrantsPerSecond: 20, GrantBurst: 10})
	number := func(n int) *int { return &n }
	rate := func(f float64) *float64 { return &f }
	for name, c := range map[string]struct {
		request protocol.RunRequest
		say     string
	}{
		"within":       {protocol.RunRequest{MaxRunning: number(50), GrantsPerSecond: rate(20), GrantBurst: number(10)}, ""},
		"running":      {protocol.RunRequest{MaxRunning: number(51)}, "maxRunning is 51; it must be 0 to 50"},
		"rate":         {protocol.RunRequest{GrantsPerSecond: rate(20.5)}, "grantsPerSecond is 20.5; it must be above 0 to 20"},
		"rate of zero": {protocol.RunRequest{GrantsPerSecond: rate(0)}, "grantsPerSecond is 0; it must be above 0 to 20"},
		"burst":        {protocol.RunRequest{GrantsPerSecond: rate(1), GrantBurst: number(11)}, "grantBurst is 11; it must be 1 to 10"},
	} {
		c.request.Stores = protocol.Targets{All: true}
		run, _, _, err := planner.Expand("wang", c.request, spec(), places(), now())
		if c.say == "" {
			if err != nil || run.Policy.GrantRate != 20 || run.Policy.GrantBurst != 10 || run.Policy.MaxRunning != 50 {
				t.Errorf("%s: %+v, %v", name, run.Policy, err)
			}
			continue
		}
		var refusal *protocol.Error
		if !errors.As(err, &refusal) || refusal.Message != c.say || refusal.Code != protocol.CodeSchema || refusal.MessageZh == "" {
			t.Errorf("%s: got %v, want %s", name, err, c.say)
		}
	}
}
