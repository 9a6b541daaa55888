package ordering_test

import (
	"fmt"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestADryRunTellsWhatARunWouldMeetAndMakesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t, func(cfg *trigger.Config) {
		cfg.Bounds = trigger.Bounds{Limits: job.Limits{MaxRunning: 1, GrantsPerSecond: 4, GrantBurst: 1}, ApprovalOver: 2}
	})
	seen := d.clock()
	if _, err := d.Store.SetPresence(t.Context(), store.Terminal{StoreID: "SH_1", TerminalID: "pos", Online: true, SessionID: "s", Since: seen}, seen); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		run := d.ask(protocol.VerbRun, fmt.Sprintf(`{"job":"collect_log","stores":["1E5","SH_1"],"reason":"%v"}`, d.clock()))
		d.answers(run.RunID, "SH_1", task.Succeed)
		d.reported(run.RunID, map[string]task.Outcome{"1E5": task.OutcomeOffline, "SH_1": task.OutcomeSucceeded})
		d.pass(time.Hour)
	}
	before := d.runs()
	reply := d.ask(protocol.VerbRun, `{"requestId":"x","job":"collect_log","stores":"all","dryRun":true}`)
	f := reply.Forecast
	if !reply.OK || f == nil || reply.RequestID != "x" || reply.RunID != "" || reply.Stores != 3 || d.runs() != before {
		t.Fatalf("got %+v", reply)
	}
	if f.Online != 1 || f.GrantsPerSecond != 4 || f.TypicalMs != 3000 || !f.NeedsApproval || !f.FinishAt.Equal(d.clock().Add(3*time.Second)) {
		t.Errorf("got %+v", f)
	}
	if f.Silent != 1 || len(f.SilentStores) != 1 || f.SilentStores[0].StoreID != "1E5" || !f.SilentStores[0].LastSeenAt.IsZero() {
		t.Errorf("silent: %+v", f.SilentStores)
	}
	by := d.clock().Add(3 * time.Second).In(shanghai).Format("2006-01-02 15:04:05 -07:00")
	if reply.Message != "nothing was created; stores: 3, online now: 1; a second person would have to agree first; those online would be done by "+by+", if nothing else runs; missing in each of the last three reports: 1E5" ||
		reply.MessageZh != "未创建任何内容；门店：3，当前在线：1；须先由第二人批准；若无其他任务，在线门店预计于 "+by+" 完成；最近三次报告均缺席：1E5" {
		t.Errorf("says %q, %q", reply.Message, reply.MessageZh)
	}
	slow := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["SH_1"],"dryRun":true,"barrierSeconds":2}`)
	if !slow.OK || slow.Message != "nothing was created; stores: 1, online now: 1; those online would be done by "+by+", if nothing else runs; at this rate the last ones come after the report" || slow.Forecast.NeedsApproval {
		t.Errorf("got %+v", slow)
	}
	// Who is offline finishes at no time.
	if none := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["007"],"dryRun":true}`); none.MessageZh != "未创建任何内容；门店：1，当前在线：0" {
		t.Errorf("got %q", none.MessageZh)
	}
	if bad := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["nope"],"dryRun":true}`); bad.Code != protocol.CodeUnknownStore {
		t.Errorf("got %+v", bad)
	}
	// The same id is free: nothing was made of it.
	if made := d.ask(protocol.VerbRun, `{"requestId":"x","job":"collect_log","stores":["007"]}`); !made.OK || *made.Duplicate {
		t.Errorf("got %+v", made)
	}
}
