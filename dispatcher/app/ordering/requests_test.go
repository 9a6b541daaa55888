package ordering_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestRepliesGoToTheUsersOwnTopicsAlone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const last = "muster/v1/rep/wang/last"
	for asked, want := range map[string]string{
		"muster/v1/rep/wang/1":                           "muster/v1/rep/wang/1",
		"muster/v1/rep/wang/a/b":                         "muster/v1/rep/wang/a/b",
		"":                                               last,
		"muster/v1/rep/wang":                             last,
		"muster/v1/rep/wang/":                            last,
		"muster/v1/rep/wang/+":                           last,
		"muster/v1/rep/wang/#":                           last,
		"muster/v1/rep/wang/a\x00":                       last,
		"muster/v1/rep/li/1":                             last,
		"muster/v1/rep/Wang/1":                           last,
		"muster/v1/req/wang/run":                         last,
		"muster/v1/runs/x/state":                         last,
		"muster/v2/rep/wang/1":                           last,
		"/muster/v1/rep/wang/1":                          last,
		"$share/g/muster/v1/rep/wang/":                   last,
		"muster/v1/rep/wang/" + strings.Repeat("x", 600): last,
	} {
		d.Broker.Forget()
		in := transport.Inbound{Payload: []byte(`{}`), ResponseTopic: asked, CorrelationData: []byte{1, 0, 255}}
		if err := d.trigger.Handle(t.Context(), request("wang", protocol.VerbHelp), in); err != nil {
			t.Fatal(err)
		}
		if sent := d.Broker.Sent()[0]; sent.Topic != want || string(sent.CorrelationData) != "\x01\x00\xff" {
			t.Errorf("%q: answered on %q with %v", asked, sent.Topic, sent.CorrelationData)
		}
	}
}

func TestCancelSaysWhatItDid(t *testing.T) {
	t.Parallel()
	d := setup(t)
	run := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all"}`)
	for _, step := range []struct {
		payload             string
		cancelled, finished int
		say                 string
	}{
		{`,"stores":["007"],"requestId":"c1"`, 1, 0, "1 cancelled"},
		{`,"stores":["007"]`, 0, 1, "already finished: nothing was left to cancel"},
		{`,"stores":["007","1E5","1E5"]`, 1, 1, "1 cancelled, 1 were already finished"},
		{`,"reason":"power cut"`, 1, 2, "1 cancelled, 2 were already finished"},
		{``, 0, 3, "already finished: nothing was left to cancel"},
	} {
		reply := d.ask(protocol.VerbCancel, `{"runId":"`+run.RunID+`"`+step.payload+`}`)
		if !reply.OK || *reply.Cancelled != step.cancelled || *reply.Finished != step.finished || reply.Message != step.say || reply.MessageZh == "" {
			t.Errorf("%s: got %+v", step.payload, reply)
		}
	}
	tasks, err := d.Store.GetTaskOf(t.Context(), run.RunID, "SH_1")
	if err != nil || tasks[0].State.Status != task.Cancelled {
		t.Errorf("got %+v, %v", tasks, err)
	}
}

func TestStatusTellsRunAndTask(t *testing.T) {
	t.Parallel()
	d := setup(t)
	run := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all"}`)
	d.ask(protocol.VerbCancel, `{"runId":"`+run.RunID+`","stores":["1E5"]}`)
	reply := d.ask(protocol.VerbStatus, `{"runId":"`+run.RunID+`"}`)
	if s := reply.State; s == nil || s.Phase != protocol.PhaseCollecting || s.Targets != 3 || s.Tasks[task.Pending] != 2 || s.Tasks[task.Cancelled] != 1 ||
		s.Waiting != 7 || s.Job != "collect_log" || !s.BarrierAt.Equal(run.BarrierAt.Time) || reply.Task != nil {
		t.Errorf("got %+v", reply.State)
	}
	reply = d.ask(protocol.VerbStatus, `{"runId":"`+run.RunID+`","storeId":"1E5"}`)
	if r := reply.Task; r == nil || r.StoreID != "1E5" || r.ParentID != run.RunID || r.Status != task.Cancelled || r.Attempt != 0 || string(r.Input) != `{}` {
		t.Errorf("got %+v", reply.Task)
	}
}

func TestStatusShowsTheResult(t *testing.T) {
	t.Parallel()
	d := setup(t)
	run := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["007"]}`)
	tasks, err := d.Store.GetTaskOf(t.Context(), run.RunID, "007")
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Store.Grant(t.Context(), store.Grant{TaskID: tasks[0].TaskID, StoreID: "007", TerminalID: "pos", LeaseUntil: d.now.Add(time.Minute)}, d.now)
	if err != nil {
		t.Fatal(err)
	}
	if reply := d.ask(protocol.VerbStatus, `{"runId":"`+run.RunID+`","storeId":"007"}`); reply.Task.Status != task.Running || reply.Task.Attempt != 1 {
		t.Errorf("while it runs: %+v", reply.Task)
	}
	const exact = `{"n":9007199254740993,"f":1.0}`
	settled, err := d.Store.Settle(t.Context(), store.Answer{Event: task.Succeed, Attempt: store.Attempt{TaskID: tasks[0].TaskID, Attempt: 1, StoreID: "007", TerminalID: "pos",
		Answer: protocol.AnswerSucceeded, Executed: true, Result: json.RawMessage(exact), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(exact))), Bytes: int64(len(exact))}}, d.now)
	if err != nil || !settled.Applied {
		t.Fatalf("%+v, %v", settled, err)
	}
	if reply := d.ask(protocol.VerbStatus, `{"runId":"`+run.RunID+`","storeId":"007"}`); string(reply.Task.Result) != exact {
		t.Errorf("got %+v", reply.Task)
	}
}

func TestJobsAndHelpTellWhatThereIs(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, payload := range []string{`{}`, ``, `anything`} {
		if reply := d.ask(protocol.VerbJobs, payload); len(reply.Jobs) != 1 || reply.Jobs[0] != (protocol.JobInfo{Name: "collect_log", Version: 1, Title: "Collect", TitleZh: "收集"}) {
			t.Errorf("got %+v", reply)
		}
		if reply := d.ask(protocol.VerbHelp, payload); len(reply.Usage) == 0 || !strings.HasPrefix(reply.Usage[0], "muster/v1/req/wang/run {") {
			t.Errorf("got %+v", reply)
		}
	}
}

// TestEveryExampleOfHelpIsTaken keeps the help honest, of whoever asks for it: what an
// example names is there and is theirs.
func TestEveryExampleOfHelpIsTaken(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) {
		c.TechnicianBurst = 1000
		spec, _ := c.Jobs.Get("collect_log")
		spec.Name = "another"
		c.Jobs = job.NewRegistry(append(c.Jobs.List(), spec)...)
		c.People = listed(t, false,
			people.Person{Name: "wang", Role: people.Operator},
			people.Person{Name: "east", Role: people.Technician, Stores: protocol.Targets{Labels: "region=east"}},
			people.Person{Name: "list", Role: people.Technician, Stores: protocol.Targets{Stores: []string{"GONE", "SH_1", "1E5"}}},
			people.Person{Name: "zhao", Role: people.Technician, Stores: protocol.Targets{All: true}, Jobs: []string{"another"}},
			people.Person{Name: "none", Role: people.Technician},
			people.Person{Name: "chen", Role: people.Approver},
			people.Person{Name: "dev", Role: people.Developer})
	})
	for user, runs := range map[string]int{"wang": 4, "east": 2, "list": 2, "zhao": 4, "none": 0, "chen": 0, "dev": 0} {
		help, _ := d.as(user, protocol.VerbHelp, `{}`)
		asked := 0
		for _, line := range help.Usage {
			topic, payload, _ := strings.Cut(line, " ")
			addr, ok := d.Sender.Topics().Parse(topic)
			if !ok || addr.User != user {
				t.Fatalf("%s is no topic of %s", topic, user)
			}
			if addr.Verb == protocol.VerbRun {
				asked++
			}
			reply, _ := d.as(user, addr.Verb, payload)
			if made := strings.Contains(payload, "RUN") || strings.Contains(payload, "APPROVAL"); reply.OK == made || made && reply.Code != protocol.CodeNotFound {
				t.Errorf("%s: %+v", line, reply)
			}
		}
		if asked != runs {
			t.Errorf("%s is shown %d runs, want %d: %q", user, asked, runs, help.Usage)
		}
	}
}
