package ordering_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

func TestARunIsCommittedBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	d := setup(t)
	reply := d.ask(protocol.VerbRun, `{"requestId":"r-1","job":"collect_log","stores":{"labels":"region=east"},"input":{"date": "yesterday"},
		"reason":"巡检","barrierSeconds":60,"attempts":4}`)
	want := protocol.Reply{OK: true, Status: "accepted", RequestID: "r-1", Stores: 2}
	if !reply.OK || reply.RequestID != want.RequestID || reply.Stores != 2 || *reply.Duplicate || !reply.BarrierAt.Equal(d.now.Add(time.Minute)) {
		t.Errorf("got %+v", reply)
	}
	if reply.Watch != "muster/v1/runs/"+reply.RunID+"/state" || reply.Summary != "muster/v1/runs/"+reply.RunID+"/summary" {
		t.Errorf("topics %s, %s", reply.Watch, reply.Summary)
	}
	run, err := d.Store.GetRun(t.Context(), reply.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if run.RequestedBy != "wang" || run.Reason != "巡检" || string(run.Input) != `{"date":"yesterday"}` || run.Policy.Attempts != 4 || run.Targets != 2 {
		t.Errorf("got %+v", run)
	}
	if tasks, err := d.Store.GetTaskOf(t.Context(), run.RunID, "007"); err != nil || len(tasks) != 1 || !protocol.ValidID(tasks[0].TaskID) {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
}

func TestMarkAndWindowsLineEndsAreTaken(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if reply := d.ask(protocol.VerbRun, "\ufeff{\r\n \"job\":\"collect_log\",\r\n \"stores\":\"all\"\r\n}\r\n"); !reply.OK || reply.Stores != 3 {
		t.Errorf("got %+v", reply)
	}
}

func TestTheSameRequestMakesOneRun(t *testing.T) {
	t.Parallel()
	d := setup(t)
	first := d.ask(protocol.VerbRun, `{"requestId":"r","job":"collect_log","stores":["1E5","007"],"input":{"date":"2026-09-17","topErrors":5}}`)
	d.pass(48 * time.Hour)
	for name, payload := range map[string]string{
		"the same":                 `{"requestId":"r","job":"collect_log","stores":["1E5","007"],"input":{"date":"2026-09-17","topErrors":5}}`,
		"other white space":        "{ \"requestId\":\"r\",\"job\":\"collect_log\",\n\"stores\":[\"1E5\",\"007\"],\"input\":{\"date\":\"2026-09-17\",\"topErrors\":5}}",
		"other order and a double": `{"input":{"topErrors":5,"date":"2026-09-17"},"stores":["007","1E5","007"],"job":"collect_log","requestId":"r"}`,
	} {
		reply := d.ask(protocol.VerbRun, payload)
		if !reply.OK || reply.RunID != first.RunID || !*reply.Duplicate || reply.Stores != 2 || !reply.BarrierAt.Equal(first.BarrierAt.Time) {
			t.Errorf("%s: got %+v", name, reply)
		}
	}
	for name, payload := range map[string]string{
		"fewer stores": `{"requestId":"r","job":"collect_log","stores":["1E5"],"input":{"date":"2026-09-17","topErrors":5}}`,
		"other number": `{"requestId":"r","job":"collect_log","stores":["1E5","007"],"input":{"date":"2026-09-17","topErrors":6}}`,
		"a setting":    `{"requestId":"r","job":"collect_log","stores":["1E5","007"],"input":{"date":"2026-09-17","topErrors":5},"attempts":2}`,
	} {
		if reply := d.ask(protocol.VerbRun, payload); reply.Code != protocol.CodeConflict || reply.RequestID != "r" {
			t.Errorf("%s: got %+v", name, reply)
		}
	}
	d.Broker.Forget()
	err := d.trigger.Handle(t.Context(), request("li", protocol.VerbRun), transport.Inbound{Payload: []byte(`{"requestId":"r","job":"collect_log","stores":["1E5"]}`)})
	if reply := d.reply(d.Broker.Sent()[0]); err != nil || !reply.OK || reply.RunID == first.RunID {
		t.Errorf("another user's id: %+v, %v", reply, err)
	}
	if n := d.runs(); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestARequestWithoutIdIsTheSameForAMinute(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.pass(2 * time.Minute) // well after the start
	const payload = `{"job":"collect_log","stores":"all"}`
	first := d.ask(protocol.VerbRun, payload)
	d.pass(59 * time.Second) // into the next minute of the clock
	if reply := d.ask(protocol.VerbRun, payload); reply.RunID != first.RunID || !*reply.Duplicate || !strings.Contains(reply.Message, "59s ago") {
		t.Errorf("after 59 s: %+v", reply)
	}
	if reply := d.ask(protocol.VerbRun, payload+" "); reply.RunID == first.RunID || *reply.Duplicate {
		t.Errorf("other bytes: %+v", reply)
	}
	d.pass(time.Second)
	second := d.ask(protocol.VerbRun, payload)
	if second.RunID == first.RunID || *second.Duplicate {
		t.Errorf("after 60 s: %+v", second)
	}
	if n := d.runs(); n != 3 {
		t.Errorf("%d runs", n)
	}
}

func TestARedeliveryAfterAnOutageMakesNoSecondRun(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const payload = `{"job":"collect_log","stores":"all"}`
	first := d.ask(protocol.VerbRun, payload)
	for range 2 {
		d.trigger.Stop()
		d.Close()
		d.pass(20 * time.Minute)
		d.open()
		if reply := d.ask(protocol.VerbRun, payload); reply.RunID != first.RunID || !*reply.Duplicate {
			t.Errorf("after a restart: %+v", reply)
		}
	}
	d.pass(61 * time.Second)
	if reply := d.ask(protocol.VerbRun, payload); *reply.Duplicate {
		t.Errorf("a minute later it is a new request: %+v", reply)
	}
}

func TestDeliveriesAtTheSameTimeMakeOneRun(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var wg sync.WaitGroup
	for _, payload := range []string{`{"job":"collect_log","stores":"all"}`, `{"requestId":"r","job":"collect_log","stores":"all"}`} {
		for range 8 {
			wg.Go(func() {
				if err := d.trigger.Handle(t.Context(), request("wang", protocol.VerbRun), transport.Inbound{Payload: []byte(payload)}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n := d.runs(); n != 2 || len(d.Broker.Sent()) != 16 {
		t.Errorf("%d runs, %d replies", n, len(d.Broker.Sent()))
	}
}

func TestAnUnansweredRequestStaysUnacknowledged(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.Broker.Break(errors.New("not connected"))
	in := transport.Inbound{Payload: []byte(`{"job":"collect_log","stores":"all"}`)}
	if err := d.trigger.Handle(t.Context(), request("wang", protocol.VerbRun), in); err == nil {
		t.Fatal("it was acknowledged")
	}
	d.Broker.Break(nil)
	if reply := d.ask(protocol.VerbRun, string(in.Payload)); !reply.OK || !*reply.Duplicate {
		t.Errorf("the redelivery: %+v", reply)
	}
	if n := d.runs(); n != 1 {
		t.Errorf("%d runs", n)
	}
}
