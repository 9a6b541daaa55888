package trigger

import (
	"context"
	"errors"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
	"muster/internal/task"
)

func (t *Trigger) status(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.StatusRequest
	if err := t.decode(protocol.VerbStatus, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	switch {
	case request.Approvals:
		return t.listApprovals(ctx, person)
	case request.ApprovalID != "":
		return t.showApproval(ctx, request.ApprovalID)
	}
	run, err := t.Runs.GetRun(ctx, request.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return protocol.Reply{}, refuse.UnknownRun(request.RunID)
	}
	if err != nil {
		return protocol.Reply{}, err
	}
	state, err := t.state(ctx, run)
	if err != nil {
		return protocol.Reply{}, err
	}
	topics := t.Sender.Topics()
	reply := protocol.Reply{OK: true, Status: "accepted", RunID: run.RunID, State: state,
		Watch: topics.Run(run.RunID, protocol.RunState), Summary: topics.Run(run.RunID, protocol.RunSummary)}
	if request.StoreID == "" {
		return reply, nil
	}
	reply.Task, err = t.record(ctx, run, request.StoreID)
	return reply, err
}

func (t *Trigger) state(ctx context.Context, run store.Run) (*protocol.RunStateReport, error) {
	counts, _, err := t.Tasks.CountTasks(ctx, run.RunID)
	if err != nil {
		return nil, err
	}
	online, err := t.Tasks.CountOnline(ctx, run.RunID)
	if err != nil {
		return nil, err
	}
	return &protocol.RunStateReport{
		Meta:      t.Sender.Meta(),
		RunID:     run.RunID,
		ParentRun: run.ParentRun,
		Job:       run.Job,
		Phase:     run.Phase(),
		Targets:   run.Targets,
		Tasks:     counts,
		Online:    online,
		Waiting:   t.Waiting(run.RunID),
		BarrierAt: protocol.At(run.BarrierAt),
		MakeupTo:  protocol.At(run.MakeupUntil),
		Revision:  run.Revision,
	}, nil
}

// record is the task record of one store; of several tasks, the first that is
// still open, or else the last.
func (t *Trigger) record(ctx context.Context, run store.Run, storeID string) (*protocol.Record, error) {
	tasks, err := t.Tasks.GetTaskOf(ctx, run.RunID, storeID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, refuse.NoTarget(run.RunID, "/storeId", []string{storeID})
	}
	chosen := tasks[len(tasks)-1]
	for _, one := range tasks {
		if !one.State.Settled {
			chosen = one
			break
		}
	}
	record := &protocol.Record{
		TaskID:   chosen.TaskID,
		ParentID: chosen.RunID,
		StoreID:  chosen.StoreID,
		Type:     chosen.Type,
		Input:    chosen.Input,
		Status:   chosen.State.Status,
		Attempt:  chosen.State.Attempt,
		Deadline: chosen.Deadline.UnixMilli(),
	}
	if chosen.State.Attempt == 0 || chosen.State.Status == task.Running {
		return record, nil
	}
	attempt, err := t.Tasks.GetResult(ctx, chosen.TaskID, chosen.State.Attempt)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	record.Result, record.Error = attempt.Result, attempt.Failure
	return record, nil
}

func (t *Trigger) jobs() protocol.Reply {
	reply := protocol.Reply{OK: true, Status: "accepted", Jobs: []protocol.JobInfo{}}
	for _, spec := range t.Jobs.List() {
		reply.Jobs = append(reply.Jobs, spec.Info())
	}
	return reply
}

// noHash stands in examples for the contentHash that an approval is shown with.
const noHash = "0000000000000000000000000000000000000000000000000000000000000000"

// help explains the verbs that the person has.
func (t *Trigger) help(person people.Person) protocol.Reply {
	topics := t.Sender.Topics()
	reply := protocol.Reply{
		OK: true, Status: "accepted",
		Message: "publish one of these; the answer comes on the request's response topic below " + topics.Replies(person.Name) +
			", or else on " + topics.LastReply(person.Name),
		MessageZh: "按以下格式发布请求；答复发到请求指定的、位于 " + topics.Replies(person.Name) + " 之下的响应主题，否则发到 " + topics.LastReply(person.Name),
	}
	for _, line := range []struct {
		verb    protocol.Verb
		payload string
	}{
		{protocol.VerbRun, `{"job":"collect_log","stores":"all","input":{"date":"yesterday"}}`},
		{protocol.VerbRun, `{"requestId":"my-1","job":"collect_log","stores":["SH_0312","SH_0313"],"barrierSeconds":120}`},
		{protocol.VerbRun, `{"job":"collect_log","stores":{"labels":"region=east,format!=kiosk"}}`},
		{protocol.VerbRun, `{"job":"collect_log","stores":{"allBut":["SH_0312"]},"dryRun":true}`},
		{protocol.VerbStatus, `{"runId":"RUN"}`},
		{protocol.VerbStatus, `{"runId":"RUN","storeId":"SH_0312"}`},
		{protocol.VerbRetry, `{"runId":"RUN"}`},
		{protocol.VerbRetry, `{"runId":"RUN","stores":["SH_0312"],"reason":"the line is back"}`},
		{protocol.VerbStatus, `{"approvalId":"APPROVAL"}`},
		{protocol.VerbStatus, `{"approvals":true}`},
		{protocol.VerbApprove, `{"approvalId":"APPROVAL","contentHash":"` + noHash + `","decision":"approve"}`},
		{protocol.VerbApprove, `{"approvalId":"APPROVAL","contentHash":"` + noHash + `","decision":"reject","reason":"WHY"}`},
		{protocol.VerbCancel, `{"runId":"RUN","stores":["SH_0312"]}`},
		{protocol.VerbJobs, `{}`},
		{protocol.VerbHelp, `{}`},
	} {
		if person.May(line.verb) == nil {
			reply.Usage = append(reply.Usage, topics.Request(person.Name, line.verb)+" "+line.payload)
		}
	}
	return reply
}
