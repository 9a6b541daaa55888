package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

func (t *Trigger) run(ctx context.Context, user string, payload []byte) (protocol.Reply, error) {
	var request protocol.RunRequest
	if err := t.decode(protocol.VerbRun, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	echo := protocol.Reply{RequestID: request.RequestID}
	key, err := t.identify(user, request, payload)
	if err != nil {
		return echo, err
	}
	defer t.locks.lock(user)()
	if known, err := t.known(ctx, key, request); err != nil || known.OK {
		return withID(known, request), err
	}
	created, err := t.create(ctx, key, request)
	if err != nil {
		return echo, err
	}
	switch {
	case created.Conflict:
		return echo, conflict(request.RequestID, created.Run.RunID)
	case created.Duplicate:
		return withID(t.again(created.Run, request), request), nil
	}
	run := created.Run
	t.Logger.Info("run accepted", "run_id", run.RunID, "user", user, "job", run.Job, "stores", run.Targets)
	return withID(t.accepted(run, false), request), nil
}

func withID(reply protocol.Reply, request protocol.RunRequest) protocol.Reply {
	reply.RequestID = request.RequestID
	return reply
}

// create checks what leans on the world of now (clock, jobs, register) and
// commits the run. A request that made its run already never comes here.
func (t *Trigger) create(ctx context.Context, key requestKey, request protocol.RunRequest) (store.Created, error) {
	now := t.Now()
	if request.Deadline > 0 && now.UnixMilli() > request.Deadline {
		return store.Created{}, expired(now, time.UnixMilli(request.Deadline))
	}
	spec, ok := t.Jobs.Get(request.Job)
	if !ok {
		return store.Created{}, unknownJob(request.Job, t.Jobs)
	}
	input, err := checkInput(spec, request.Input)
	if err != nil {
		return store.Created{}, err
	}
	request.Input = input
	places, err := t.Register.ListPlaces(ctx)
	if err != nil {
		return store.Created{}, fmt.Errorf("cannot list stores: %w", err)
	}
	run, targets, tasks, err := t.Planner.Expand(key.user, request, spec, places, now)
	if err != nil {
		return store.Created{}, err
	}
	return t.Runs.CreateRun(ctx, run, targets, tasks,
		store.Request{User: key.user, RequestID: key.id, ContentHash: key.content}, now)
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
		ago := t.Now().Sub(run.CreatedAt).Truncate(time.Second)
		reply.Message = fmt.Sprintf("the same request made this run %s ago; put a requestId of your own into it to ask for another", ago)
		reply.MessageZh = fmt.Sprintf("%s 前同样的请求已创建该批次；如需再建一批，请在请求中加上新的 requestId", ago)
	}
	return reply
}

// checkInput validates the input by the job's schema and returns it without
// white space, which is how terminals get it.
func checkInput(spec job.Spec, input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	err := spec.Input.Validate(input)
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
	return protocol.Compact(input)
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
