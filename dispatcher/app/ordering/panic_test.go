package ordering_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
)

// brittle is the store with a fault of headquarters' own in front of it, behind
// it, or in the middle of its transaction.
type brittle struct {
	*store.Store
	before, within, after bool
}

func (b *brittle) CreateRun(ctx context.Context, run store.Run, places []store.Place, tasks []store.NewTask, req store.Request, now time.Time) (store.Created, error) {
	if b.before {
		panic("before the commit")
	}
	if b.within {
		tasks = append(tasks, tasks[0]) // against the schema, when all else is written
	}
	created, err := b.Store.CreateRun(ctx, run, places, tasks, req, now)
	if b.after {
		panic("after the commit")
	}
	return created, err
}

func (b *brittle) Cancel(ctx context.Context, runID string, stores []string, reason task.Reason, by string, now time.Time) ([]store.Task, int, error) {
	if b.before {
		panic("before the commit")
	}
	return b.Store.Cancel(ctx, runID, stores, reason, by, now)
}

func (b *brittle) CountTasks(ctx context.Context, runID string) (map[task.Status]int, int, error) {
	if b.before {
		panic("while it is read")
	}
	return b.Store.CountTasks(ctx, runID)
}

func (b *brittle) GetApproval(ctx context.Context, approvalID string) (store.Approval, error) {
	if b.before {
		panic("while it is read")
	}
	return b.Store.GetApproval(ctx, approvalID)
}

// openBrittle is a desk that fails as b says, and what it alarms operators of.
func openBrittle(t *testing.T, b *brittle) (d *desk, alarms *[]string) {
	t.Helper()
	alarms = new([]string)
	return setup(t, func(cfg *trigger.Config) {
		s, ok := cfg.Runs.(*store.Store)
		if !ok {
			t.Fatal("the runs are not the store")
		}
		b.Store = s
		cfg.Runs, cfg.Tasks, cfg.Approvals = b, b, b
		cfg.Ward = &quarantine.Ward{Logger: cfg.Logger, Now: cfg.Now, Alarm: func(kind, subject string, trouble error) {
			*alarms = append(*alarms, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
		}}
	}), alarms
}

// broke checks the answer to a request that broke headquarters, and its alarm.
func broke(t *testing.T, reply protocol.Reply, alarms []string, verb protocol.Verb) {
	t.Helper()
	if reply.OK || reply.Code != protocol.CodeInternal || !strings.Contains(reply.Message, "wholly or not at all") ||
		reply.MessageZh == "" || !strings.Contains(reply.Hint, "once more") {
		t.Errorf("%s is answered %+v", verb, reply)
	}
	if len(alarms) != 1 || !strings.HasPrefix(alarms[0], "message_panicked muster/v1/req/wang/"+string(verb)+": ") || strings.Contains(alarms[0], "\n") {
		t.Errorf("%s alarms with %q", verb, alarms)
	}
}

func TestARequestThatPanicsIsAnsweredAndAlarmsAndTheNextOneIsDone(t *testing.T) {
	t.Parallel()
	for verb, payload := range map[protocol.Verb]string{
		protocol.VerbRun:     `{"job":"collect_log","stores":"all","requestId":"poison"}`,
		protocol.VerbCancel:  `{"runId":%q}`,
		protocol.VerbStatus:  `{"runId":%q}`,
		protocol.VerbApprove: `{"approvalId":"%.20s","decision":"approve","contentHash":"` + strings.Repeat("0", 64) + `"}`,
	} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			b := &brittle{}
			d, alarms := openBrittle(t, b)
			run := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all"}`)
			if strings.Contains(payload, "%") {
				payload = fmt.Sprintf(payload, run.RunID)
			}
			b.before = true
			broke(t, d.ask(verb, payload), *alarms, verb)
			for range 5 { // it comes again and again: nobody is flooded
				if reply := d.ask(verb, payload); reply.Code != protocol.CodeInternal {
					t.Errorf("again: %+v", reply)
				}
			}
			broke(t, d.ask(verb, payload), *alarms, verb)
			b.before = false
			if reply := d.ask(verb, payload); reply.Code == protocol.CodeInternal {
				t.Errorf("once the fault is mended: %+v", reply)
			}
		})
	}
}

func TestARequestThatBreaksInItsTransactionLeavesNothingOfIt(t *testing.T) {
	t.Parallel()
	b := &brittle{within: true}
	d, alarms := openBrittle(t, b)
	const payload = `{"job":"collect_log","stores":"all","requestId":"half"}`
	broke(t, d.ask(protocol.VerbRun, payload), *alarms, protocol.VerbRun)
	if n := d.runs(); n != 0 {
		t.Errorf("%d runs are half made", n)
	}
	b.within = false
	if reply := d.ask(protocol.VerbRun, payload); !reply.OK || *reply.Duplicate {
		t.Errorf("the same once more: %+v", reply)
	}
}

func TestARequestThatPanicsAfterItsCommitIsDoneOnce(t *testing.T) {
	t.Parallel()
	b := &brittle{after: true}
	d, alarms := openBrittle(t, b)
	const payload = `{"job":"collect_log","stores":"all"}`
	for range 2 {
		d.ask(protocol.VerbRun, payload)
	}
	b.after = false
	reply := d.ask(protocol.VerbRun, payload)
	if !reply.OK || !*reply.Duplicate || d.runs() != 1 || len(*alarms) != 1 {
		t.Errorf("%+v, %d runs, alarms %q", reply, d.runs(), *alarms)
	}
	other := transport.Inbound{Payload: []byte(payload)}
	if err := d.trigger.Handle(t.Context(), request("li", protocol.VerbRun), other); err != nil || d.runs() != 2 {
		t.Errorf("another person: %v, %d runs", err, d.runs())
	}
}
