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
	return t.fulfil(ctx, person, t.runWish(request), payload)
}

// wish is a request that makes a run, of whichever verb.
type wish struct {
	id           string
	deadline     int64
	dryRun       bool
	request      any // as it came
	what, whatZh string
	content      func() (string, error) // the hash of what is asked for
	expand       func(ctx context.Context, person people.Person) (planned, error)
}

func (t *Trigger) runWish(request protocol.RunRequest) wish {
	return wish{
		id: request.RequestID, deadline: request.Deadline, dryRun: request.DryRun, request: request,
		what: request.Job, whatZh: "作业 " + request.Job,
		content: func() (string, error) {
			asked := request
			if t.People.Signed() {
				asked.Deadline = 0 // it says how old the request may be, not what it asks for
			}
			return contentHash(asked)
		},
		expand: func(ctx context.Context, person people.Person) (planned, error) {
			return t.expand(ctx, person, request)
		},
	}
}

// fulfil does what a wish asks for once, however often it comes.
func (t *Trigger) fulfil(ctx context.Context, person people.Person, w wish, payload []byte) (protocol.Reply, error) {
	echo := protocol.Reply{RequestID: w.id}
	if w.dryRun {
		return t.forecast(ctx, person, w)
	}
	// A deadline that is over is no reason to refuse what made its run before.
	if err := errors.Join(t.wantID(w.id), t.wantDeadline(w.deadline)); err != nil {
		return echo, err
	}
	key, err := t.identify(person.Name, w, payload)
	if err != nil {
		return echo, err
	}
	defer t.locks.lock(person.Name)()
	known, err := t.known(ctx, key, w.id)
	if err == nil && !known.OK {
		known, err = t.order(ctx, person, key, w)
	}
	known.RequestID = w.id
	return known, err
}

// order creates the run of a request that is new, unless a second person has to
// agree first.
func (t *Trigger) order(ctx context.Context, person people.Person, key requestKey, w wish) (protocol.Reply, error) {
	var none protocol.Reply
	asked, waiting, err := t.waiting(ctx, key)
	if err != nil {
		return none, err
	}
	if asked != nil {
		return waits(*asked), refuse.NeedsApproval(*asked, w.what, w.whatZh)
	}
	if err := errors.Join(t.closed(ctx, key), overdue(w.deadline, t.Now())); err != nil {
		return none, err
	}
	plan, err := w.expand(ctx, person)
	if err != nil {
		return none, err
	}
	if t.secondWord(plan) {
		asked, err := t.ask(ctx, key, w, plan, waiting)
		if err != nil {
			return none, err
		}
		return waits(asked), refuse.NeedsApproval(asked, w.what, w.whatZh)
	}
	created, err := t.Runs.CreateRun(ctx, plan.run, plan.targets, plan.tasks,
		store.Request{User: key.user, RequestID: key.id, ContentHash: key.content}, plan.at)
	if errors.Is(err, store.ErrNotMissing) {
		return none, refuse.Meanwhile(plan.run.ParentRun)
	}
	if err != nil {
		return none, err
	}
	return t.made(created, w.id, plan.leftOut)
}

// made answers a request that made, or had made, its run. id is the request's own.
func (t *Trigger) made(created store.Created, id string, leftOut []string) (protocol.Reply, error) {
	run := created.Run
	switch {
	case created.Conflict:
		return protocol.Reply{}, refuse.Conflict(id, run.RunID)
	case created.Duplicate:
		return t.again(run, id), nil
	}
	t.Logger.Info("run accepted", "run_id", run.RunID, "retry_of", run.ParentRun, "user", run.RequestedBy, "approved_by", run.ApprovedBy, "job", run.Job, "stores", run.Targets)
	reply := t.accepted(run, false)
	noteLeftOut(&reply, leftOut)
	return reply, nil
}

// planned is a run that is not created yet.
type planned struct {
	at      time.Time
	spec    job.Spec
	run     store.Run
	targets []store.Place
	tasks   []store.NewTask
	leftOut []string // of a retry: missing, and no longer registered
}

// expand checks what leans on the world of now (clock, jobs, register, what the
// person may order). A request that made its run already never comes here.
func (t *Trigger) expand(ctx context.Context, person people.Person, request protocol.RunRequest) (planned, error) {
	now := t.Now()
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
		ParentRun: run.ParentRun,
		Stores:    run.Targets,
		BarrierAt: protocol.At(run.BarrierAt),
		Watch:     topics.Run(run.RunID, protocol.RunState),
		Summary:   topics.Run(run.RunID, protocol.RunSummary),
		Duplicate: &duplicate,
	}
}

// again answers a request that made its run before.
func (t *Trigger) again(run store.Run, id string) protocol.Reply {
	reply := t.accepted(run, true)
	if id == "" {
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
