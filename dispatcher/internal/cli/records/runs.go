package records

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// knownRun is a run, as --json prints it.
type knownRun struct {
	Run         string         `json:"runId"`
	Job         string         `json:"job"`
	Version     int            `json:"jobVersion"`
	Phase       protocol.Phase `json:"phase"`
	Stores      int            `json:"stores"`
	Revision    int            `json:"revision"` // 0: before the barrier
	RequestedBy string         `json:"requestedBy"`
	ApprovedBy  string         `json:"approvedBy,omitempty"`
	Reason      string         `json:"reason"`
	CreatedAt   protocol.Time  `json:"createdAt"`
	BarrierAt   protocol.Time  `json:"barrierAt"`
	MakeupUntil protocol.Time  `json:"makeupUntil"`
	ClosedAt    protocol.Time  `json:"closedAt"` // null: it is open
}

func runsCommand() *cobra.Command {
	var p place
	var job string
	var open bool
	var most int
	cmd := &cobra.Command{
		Use:     "runs",
		Short:   "List the newest runs, from the database",
		Example: "  dispatcher runs -c hq/dispatcher.yaml --open\n  dispatcher runs --data hq/data --job collect_log --limit 5 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 1 || most > 10_000 {
				return fmt.Errorf("--limit %d must be 1 to 10000", most)
			}
			database, err := p.database()
			if err != nil {
				return err
			}
			runs, err := store.ReadRuns(cmd.Context(), database, job, open, most)
			if err != nil {
				return err
			}
			all := []knownRun{}
			for _, r := range runs {
				all = append(all, knownRun{r.RunID, r.Job, r.JobVersion, r.Phase(), r.Targets, r.Revision, r.RequestedBy, r.ApprovedBy, r.Reason,
					at(r.CreatedAt), at(r.BarrierAt), at(r.MakeupUntil), at(r.ClosedAt)})
			}
			if p.asJSON {
				return screen.JSON(cmd.OutOrStdout(), all)
			}
			showRuns(cmd.OutOrStdout(), all)
			return nil
		},
	}
	p.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&job, "job", "", "only runs of this job")
	f.BoolVar(&open, "open", false, "only runs that are not closed")
	f.IntVar(&most, "limit", 20, "how many, 1 to 10000")
	return cmd
}

func at(t time.Time) protocol.Time {
	if t.IsZero() {
		return protocol.Time{}
	}
	return protocol.At(t.UTC())
}

func showRuns(w io.Writer, all []knownRun) {
	table := screen.NewTable(w, "RUN", "JOB", "PHASE", "STORES", "REVISION", "BARRIER", "BY", "REASON")
	for _, r := range all {
		table.Row(r.Run, r.Job, string(r.Phase), strconv.Itoa(r.Stores), strconv.Itoa(r.Revision), screen.Moment(r.BarrierAt), r.RequestedBy, r.Reason)
	}
	table.Flush()
	screen.Say(w, "%s\n", screen.Many(int64(len(all)), "run", "runs"))
}

// knownTask is a task, as --json prints it.
type knownTask struct {
	Task      string        `json:"taskId"`
	Store     string        `json:"storeId"`
	Status    task.Status   `json:"status"`
	Attempt   int           `json:"attempt"`
	Attempts  int           `json:"attempts"` // at most
	Settled   bool          `json:"settled"`
	Terminal  string        `json:"terminalId"` // that has or had it; "": none
	Code      protocol.Code `json:"code"`       // of the last failure
	Reason    task.Reason   `json:"reason"`     // of a cancel
	ClaimedAt protocol.Time `json:"claimedAt"`
	SettledAt protocol.Time `json:"settledAt"`
	RetryAt   protocol.Time `json:"retryAt"`
}

func tasksCommand() *cobra.Command {
	var p place
	var status string
	cmd := &cobra.Command{
		Use:     "tasks RUN",
		Short:   "List the tasks of a run, from the database",
		Example: "  dispatcher tasks 20260917-073012-0k3f9t -c hq/dispatcher.yaml --status failed",
		Args:    screen.One("run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := statusOf(status)
			if err != nil {
				return err
			}
			database, err := p.database()
			if err != nil {
				return err
			}
			tasks, err := store.ReadTasks(cmd.Context(), database, args[0], wanted)
			if errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("there is no run %.80q; dispatcher runs lists them", args[0])
			}
			if err != nil {
				return err
			}
			all := []knownTask{}
			for _, t := range tasks {
				all = append(all, knownTask{t.TaskID, t.StoreID, t.State.Status, t.State.Attempt, t.Attempts, t.State.Settled, t.HolderID, t.LastCode, t.Reason,
					at(t.ClaimedAt), at(t.SettledAt), at(t.NextAttemptAt)})
			}
			if p.asJSON {
				return screen.JSON(cmd.OutOrStdout(), all)
			}
			showTasks(cmd.OutOrStdout(), all)
			return nil
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&status, "status", "", "only tasks that are pending, running, succeeded, failed or cancelled")
	return cmd
}

func showTasks(w io.Writer, all []knownTask) {
	table := screen.NewTable(w, "STORE", "STATUS", "ATTEMPT", "TERMINAL", "WHY", "SETTLED", "TASK")
	for _, t := range all {
		why, settled := string(t.Code), "-"
		if t.Reason != "" {
			why = string(t.Reason)
		}
		if !t.SettledAt.IsZero() {
			settled = screen.Moment(t.SettledAt)
		}
		table.Row(t.Store, string(t.Status), fmt.Sprintf("%d of %d", t.Attempt, t.Attempts), t.Terminal, why, settled, t.Task)
	}
	table.Flush()
	screen.Say(w, "%s\n", screen.Many(int64(len(all)), "task", "tasks"))
}
