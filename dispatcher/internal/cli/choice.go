package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// choice is what flags say of how a run goes on, in the place of the job's settings or,
// with retry, of those of the run before.
type choice struct {
	barrier, makeup                    time.Duration
	attempts, running, burst, priority int
	rate                               float64
}

// flags adds them; whose says what counts where one is not given.
func (c *choice) flags(cmd *cobra.Command, whose string) {
	f, otherwise := cmd.Flags(), " (default: "+whose+")"
	f.DurationVar(&c.barrier, "barrier", 0, "from now to the report, 1s to 24h"+otherwise)
	f.DurationVar(&c.makeup, "makeup", 0, "from the report to the close, up to 744h"+otherwise)
	f.IntVar(&c.attempts, "attempts", 0, "executions a task, 1 to 10"+otherwise)
	f.IntVar(&c.running, "max-running", 0, "cap on stores that run at once, 0 for none but headquarters'"+otherwise)
	f.Float64Var(&c.rate, "grants-per-second", 0, "tasks of the run that begin each second, from 0.001"+otherwise)
	f.IntVar(&c.burst, "grant-burst", 0, "tasks of the run that may begin at once, from 1"+otherwise)
	f.IntVar(&c.priority, "priority", 0, "-100 to 100, higher is admitted first"+otherwise)
}

// members are where a request has its settings.
type members struct {
	barrierSeconds, makeupSeconds, attempts, maxRunning, grantBurst, priority **int
	grantsPerSecond                                                           **float64
}

// into sets the members whose flags were given; headquarters judges their values.
func (c choice) into(cmd *cobra.Command, to members) error {
	for _, d := range []struct {
		flag string
		from time.Duration
		to   **int
	}{{"barrier", c.barrier, to.barrierSeconds}, {"makeup", c.makeup, to.makeupSeconds}} {
		if !cmd.Flags().Changed(d.flag) {
			continue
		}
		if d.from%time.Second != 0 {
			return fmt.Errorf("--%s %s must be whole seconds", d.flag, d.from)
		}
		seconds := int(d.from / time.Second)
		*d.to = &seconds
	}
	for _, n := range []struct {
		flag string
		from int
		to   **int
	}{{"attempts", c.attempts, to.attempts}, {"max-running", c.running, to.maxRunning}, {"grant-burst", c.burst, to.grantBurst}, {"priority", c.priority, to.priority}} {
		if cmd.Flags().Changed(n.flag) {
			*n.to = &n.from
		}
	}
	if cmd.Flags().Changed("grants-per-second") {
		*to.grantsPerSecond = &c.rate
	}
	return nil
}
