package job_test

import (
	"testing"
	"time"

	"muster/dispatcher/internal/job"
)

func TestTheTightestLimitSaysWhenARunIsDone(t *testing.T) {
	t.Parallel()
	all := job.Limits{MaxRunning: 100, GrantsPerSecond: 10, GrantBurst: 20}
	for name, c := range map[string]struct {
		n       int
		typical time.Duration
		policy  job.Policy
		limits  job.Limits
		want    time.Duration
		rate    float64
	}{
		"no limit":             {1000, time.Second, job.Policy{}, job.Limits{}, time.Second, 0},
		"within the burst":     {20, time.Second, job.Policy{}, all, time.Second, 10},
		"by the rate of all":   {120, time.Second, job.Policy{}, all, 11 * time.Second, 10},
		"by its own rate":      {120, time.Second, job.Policy{GrantRate: 0.5, GrantBurst: 20}, all, 201 * time.Second, 0.5},
		"its own is wider":     {120, time.Second, job.Policy{GrantRate: 50, GrantBurst: 100}, all, 11 * time.Second, 10},
		"by the slots of all":  {120, time.Minute, job.Policy{}, all, 2 * time.Minute, 10},
		"by its own slots":     {120, time.Minute, job.Policy{MaxRunning: 10}, all, 12 * time.Minute, 10},
		"nobody is there":      {0, 0, job.Policy{}, all, 0, 10},
		"nothing is known yet": {120, 0, job.Policy{}, all, 10 * time.Second, 10},
	} {
		if got, rate := c.policy.Finish(c.n, c.typical, c.limits), c.policy.Rate(c.limits); got != c.want || rate != c.rate {
			t.Errorf("%s: %v at %v a second, want %v at %v", name, got, rate, c.want, c.rate)
		}
	}
}
