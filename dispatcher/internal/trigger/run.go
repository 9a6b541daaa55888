package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

func (t *Trigger) run(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.RunRequest
	if err := t.decode(protocol.VerbRun, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	echo := protocol.Reply{RequestID: request.RequestID}
	// A deadline that is over is no reason to refuse what made its run before.
	if err := errors.Join(t.wantID(request.RequestID), t.wantDeadline(request.Deadline)); err != nil {
		return echo, err
	}
	key, err := t.identify(person.Name, request, payload)
	if err != nil {
		return echo, err
	}
	defer t.locks.lock(person.Name)()
	if known, err := t.known(ctx, key, request); err != nil || known.OK {
		return withID(known, request), err
	}
	return t.order(ctx, person, key, request)
}

// order creates the run of a request that is new, unless a second person has to
// agree first.
func (t *Trigger) order(ctx context.Context, person people.Person, key requestKey, request protocol.RunRequest) (protocol.Reply, error) {
	echo := protocol.Reply{RequestID: request.RequestID}
	asked, waiting, err := t.waiting(ctx, key)
	if err != nil {
		return echo, err
	}
	if asked != nil {
		return t.waits(*asked, request), refuse.NeedsApproval(*asked, request.Job)
	}
	if err := t.closed(ctx, key); err != nil {
		return echo, err
	}
	plan, err := t.expand(ctx, person, request)
	if err != nil {
		return echo, err
	}
	if t.secondWord(plan) {
		asked, err := t.ask(ctx, key, request, plan, waiting)
		if err != nil {
			return echo, err
		}
		return t.waits(asked, request), refuse.NeedsApproval(asked, request.Job)
	}
	created, err := t.Runs.CreateRun(ctx, plan.run, plan.targets, plan.tasks,
		store.Request{User: key.user, RequestID: key.id, ContentHash: key.content}, plan.at)
	if err != nil {
		return echo, err
	}
	return t.made(created, request)
}

// made answers a request that made, or had made, its run.
func (t *Trigger) made(created store.Created, request protocol.RunRequest) (protocol.Reply, error) {
	run := created.Run
	switch {
	case created.Conflict:
		return withID(protocol.Reply{}, request), refuse.Conflict(request.RequestID, run.RunID)
	case created.Duplicate:
		return withID(t.again(run, request), request), nil
	}
	t.Logger.Info("run accepted", "run_id", run.RunID, "user", run.RequestedBy, "approved_by", run.ApprovedBy, "job", run.Job, "stores", run.Targets)
	return withID(t.accepted(run, false), request), nil
}

func withID(reply protocol.Reply, request protocol.RunRequest) protocol.Reply {
	reply.RequestID = request.RequestID
	return reply
}

// planned is a run that is not created yet.
type planned struct {
	at      time.Time
	spec    job.Spec
	run     store.Run
	targets []store.Place
	tasks   []store.NewTask
}

// expand checks what leans on the world of now (clock, jobs, register, what the
// person may order). A request that made its run already never comes here.
func (t *Trigger) expand(ctx context.Context, person people.Person, request protocol.RunRequest) (planned, error) {
	now := t.Now()
	if err := overdue(request.Deadline, now); err != nil {
		return planned{}, err
	}
	spec, ok := t.Jobs.Get(request.Job)
	if !ok {
		return planned{}, refuse.UnknownJob(request.Job, t.Jobs)
	}
	if err := person.MayOrder(spec.Name); err != nil {
		return planned{}, err
	}
	input, err := checkInput(spec, request.Input)
	if err != nil {
		return planned{}, err
	}
	request.Input = input
	places, err := t.Register.ListPlaces(ctx)
	if err != nil {
		return planned{}, fmt.Errorf("cannot list stores: %w", err)
	}
	p := planned{at: now, spec: spec}
	p.run, p.targets, p.tasks, err = t.Planner.Expand(person.Name, request, spec, places, now)
	if err != nil {
		return planned{}, err
	}
	return p, person.MayOrderAt(p.targets)
}

func (t *Trigger) accepted(run store.Run, duplicate bool) protocol.Reply {
	topics := t.Sender.Topics()
	return protocol.Reply{
		OK: true, Status: "accepted",
		RunID:     run.RunID,
		Stores:    run.Targets,
		BarrierAt: protocol.At(run.BarrierAt),
		Watch:     topics.Run(run.RunID, protocol.RunState),
		Summary:   topics.Run(run.RunID, protocol.RunSummary),
		Duplicate: &duplicate,
	}
}

// again answers a request that made its run before.
func (t *Trigger) again(run store.Run, request protocol.RunRequest) protocol.Reply {
	reply := t.accepted(run, true)
	if request.RequestID == "" {
		ago := max(0, t.Now().Sub(run.CreatedAt).Truncate(time.Second)) // the clock may be set back
		reply.Message = fmt.Sprintf("the same request made this run %s ago; put a requestId of your own into it to ask for another", ago)
		reply.MessageZh = fmt.Sprintf("%s 前同样的请求已创建该批次；如需再建一批，请在请求中加上新的 requestId", ago)
	}
	return reply
}

// checkInput validates the input by the job's bound and schema and returns it
// without white space, which is how terminals get it.
func checkInput(spec job.Spec, input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	compact, err := protocol.Compact(input)
	if err != nil {
		return nil, err
	}
	if most := cmp.Or(spec.MaxInputBytes, job.DefaultInputBytes); len(compact) > most {
		return nil, refuse.InputTooLarge(spec.Name, len(compact), most)
	}
	err = spec.Input.Validate(compact)
	var refusal *protocol.Error
	if errors.As(err, &refusal) {
		return nil, &protocol.Error{
			Code:      refusal.Code,
			Path:      "/input" + refusal.Path,
			Message:   under("/input", "document", refusal.Message),
			MessageZh: under("/input", "整个文档", refusal.MessageZh),
			Hint:      refusal.Hint,
		}
	}
	if err != nil {
		return nil, err
	}
	return compact, nil
}

// under puts a prefix before the pointer of each line; whole stands for the
// pointer of the whole document.
func under(prefix, whole, lines string) string {
	list := strings.Split(lines, "\n")
	for i, line := range list {
		list[i] = prefix + strings.TrimPrefix(line, whole)
	}
	return strings.Join(list, "\n")
}
