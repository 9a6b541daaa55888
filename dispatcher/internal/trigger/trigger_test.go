package trigger_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/schemas"
)

// desk is a trigger over a real store, with a clock that the test turns.
type desk struct {
	*steptest.Bench
	t       *testing.T
	path    string
	trigger *trigger.Trigger
	replies *schema.Schema

	mu  sync.Mutex
	now time.Time
}

func setup(t *testing.T, tune ...func(*trigger.Config)) *desk {
	t.Helper()
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "muster.db"), now: time.Date(2026, 9, 17, 7, 30, 12, 0, time.UTC)}
	d.replies = compile(t, "reply.v1.schema.json")
	d.open(tune...)
	_, _, _, err := d.Store.ReplacePlaces(t.Context(), []store.Place{
		{StoreID: "007", Name: "seven", TimeZone: "UTC", Labels: map[string]string{"region": "east"}},
		{StoreID: "1E5", Name: "exp", TimeZone: "UTC", Labels: map[string]string{"region": "west"}},
		{StoreID: "SH_1", Name: "one", TimeZone: "Asia/Shanghai", Labels: map[string]string{"region": "east"}},
	}, d.now)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func compile(t *testing.T, file string) *schema.Schema {
	t.Helper()
	doc, err := fs.ReadFile(schemas.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(file, doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open starts headquarters over the desk's database, for the first time or
// again.
func (d *desk) open(tune ...func(*trigger.Config)) {
	d.t.Helper()
	d.Bench = steptest.Open(d.t, d.path)
	cfg := trigger.Config{
		Runs: d.Store, Tasks: d.Store, Register: d.Store, Sender: d.Sender, Now: d.clock, Logger: d.Logger,
		Rate: rate.Inf, Waiting: func(string) int { return 7 },
		Jobs: job.NewRegistry(job.Spec{Name: "collect_log", Version: 1, Title: "Collect", TitleZh: "收集", Policy: job.DefaultPolicy(),
			Input: compile(d.t, "collect_log_input.v1.schema.json"), Output: compile(d.t, "collect_log_output.v1.schema.json")}),
	}
	for _, f := range tune {
		f(&cfg)
	}
	var err error
	if d.trigger, err = trigger.New(cfg); err != nil {
		d.t.Fatal(err)
	}
	if err := d.trigger.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func request(user string, verb protocol.Verb) protocol.Address {
	return protocol.Address{Area: protocol.AreaRequest, User: user, Verb: verb}
}

// ask sends one request of user wang and returns its only reply, which must
// fit the published schema.
func (d *desk) ask(verb protocol.Verb, payload string) protocol.Reply {
	d.t.Helper()
	d.Broker.Forget()
	if err := d.trigger.Handle(d.t.Context(), request("wang", verb), transport.Inbound{Payload: []byte(payload)}); err != nil {
		d.t.Fatalf("not acknowledged: %v", err)
	}
	sent := d.Broker.Sent()
	if len(sent) != 1 {
		d.t.Fatalf("%d messages instead of one reply", len(sent))
	}
	return d.reply(sent[0])
}

func (d *desk) reply(sent steptest.Sent) protocol.Reply {
	d.t.Helper()
	if sent.Retain {
		d.t.Errorf("the reply %s is retained", sent.Payload)
	}
	if err := d.replies.Validate(sent.Payload); err != nil {
		d.t.Errorf("the reply %s does not fit its schema: %v", sent.Payload, err)
	}
	var reply protocol.Reply
	if err := protocol.Decode(sent.Payload, protocol.MaxPayloadBytes, &reply); err != nil {
		d.t.Fatal(err)
	}
	return reply
}

func (d *desk) runs() int {
	d.t.Helper()
	runs, err := d.Store.ListOpenRuns(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return len(runs)
}

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

func utf16(text string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, r := range text {
		b.WriteString(string([]byte{byte(r), byte(r >> 8)}))
	}
	return b.String()
}

// TestBadInputIsRefusedWithAReason is the whole list: each gets its reply with
// code, message in two languages and hint, and nothing is created.
func TestBadInputIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	d := setup(t)
	first := d.ask(protocol.VerbRun, `{"requestId":"taken","job":"collect_log","stores":["007"]}`)
	const good = `"job":"collect_log","stores":"all"`
	for name, c := range map[string]struct {
		verb    protocol.Verb
		payload string
		code    protocol.Code
		path    string
		say     string
		hint    string
	}{
		"empty":          {protocol.VerbRun, "", protocol.CodeEmptyPayload, "", "the payload is empty", `-m "$(cat file)"`},
		"white space":    {protocol.VerbRun, "\r\n", protocol.CodeEmptyPayload, "", "the payload is empty", ""},
		"no JSON":        {protocol.VerbRun, "collect_log all", protocol.CodeBadJSON, "", "line 1, byte 1: invalid character 'c'", ""},
		"cut off":        {protocol.VerbRun, `{` + good, protocol.CodeBadJSON, "", "line 1, byte 35: the document ends too early", ""},
		"single quotes":  {protocol.VerbRun, `{'job':'collect_log'}`, protocol.CodeBadJSON, "", `line 1, byte 2: invalid character '\''`, ""},
		"UTF-16":         {protocol.VerbRun, utf16(`{` + good + `}`), protocol.CodeBadJSON, "", "the payload is UTF-16 (little endian), not UTF-8", "UTF-8"},
		"GBK":            {protocol.VerbRun, "{" + good + ",\"reason\":\"\xd1\xb2\xbc\xec\"}", protocol.CodeBadJSON, "", "the payload is not valid UTF-8", ""},
		"oversize":       {protocol.VerbRun, `{` + good + `,"reason":"` + strings.Repeat("x", protocol.MaxPayloadBytes) + `"}`, protocol.CodeTooLarge, "", "the payload has", ""},
		"deep":           {protocol.VerbRun, `{` + good + `,"input":` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 41), protocol.CodeBadJSON, "/input" + strings.Repeat("/a", 31), "it is nested deeper than 32 levels", ""},
		"key twice":      {protocol.VerbRun, `{` + good + `,"stores":["007"]}`, protocol.CodeBadJSON, "", `the member "stores" stands twice`, ""},
		"key in capital": {protocol.VerbRun, `{` + good + `,"RequestID":"a"}`, protocol.CodeBadJSON, "", `the member "RequestID" must be spelled "requestId"`, "case-sensitive"},
		"1e400":          {protocol.VerbRun, `{` + good + `,"priority":1e400}`, protocol.CodeBadJSON, "/priority", "the number 1e400 is out of range", ""},
		"half surrogate": {protocol.VerbRun, `{` + good + `,"reason":"\ud800"}`, protocol.CodeBadJSON, "/reason", "a string holds half a surrogate pair", ""},
		"two documents":  {protocol.VerbRun, `{` + good + `}{}`, protocol.CodeBadJSON, "", "something follows the document", ""},
		"a list":         {protocol.VerbRun, `[]`, protocol.CodeSchema, "", "document: must be object, not array", ""},
		"no members":     {protocol.VerbRun, `{}`, protocol.CodeSchema, "/job", "/job: is required\n/stores: is required", "run_request"},
		"job a number":   {protocol.VerbRun, `{"job":1,"stores":"all"}`, protocol.CodeSchema, "/job", "/job: must be string, not integer", ""},
		"stores a word":  {protocol.VerbRun, `{"job":"collect_log","stores":"007"}`, protocol.CodeSchema, "/stores", `it must be "all", a list of store ids as text, or {"labels":"key=value"}, not "007"`, "for example"},
		"stores numbers": {protocol.VerbRun, `{"job":"collect_log","stores":[7]}`, protocol.CodeSchema, "/stores", `it must be "all", a list of store ids as text`, "for example"},
		"stores null":    {protocol.VerbRun, `{"job":"collect_log","stores":null}`, protocol.CodeSchema, "/stores", `it must be "all"`, ""},
		"text as number": {protocol.VerbRun, `{` + good + `,"barrierSeconds":"60"}`, protocol.CodeSchema, "/barrierSeconds", "/barrierSeconds: must be integer, not string", ""},
		"out of range":   {protocol.VerbRun, `{` + good + `,"attempts":11}`, protocol.CodeSchema, "/attempts", "/attempts: must be at most 10", ""},
		"bad requestId":  {protocol.VerbRun, `{` + good + `,"requestId":"~a"}`, protocol.CodeSchema, "/requestId", "/requestId: must match", ""},
		"unknown job":    {protocol.VerbRun, `{"job":"Collect_log","stores":"all"}`, protocol.CodeUnknownJob, "/job", "no such job: Collect_log", "known jobs: collect_log"},
		"unknown store":  {protocol.VerbRun, `{"job":"collect_log","stores":["007","sh_1","X"]}`, protocol.CodeUnknownStore, "/stores", "no such store: sh_1, X", "did you mean SH_1?"},
		"no store":       {protocol.VerbRun, `{"job":"collect_log","stores":[]}`, protocol.CodeNoTargets, "/stores", "the list of stores is empty", ""},
		"no such label":  {protocol.VerbRun, `{"job":"collect_log","stores":{"labels":"region=north"}}`, protocol.CodeNoTargets, "/stores", `no store has the labels "region=north"`, ""},
		"bad expression": {protocol.VerbRun, `{"job":"collect_log","stores":{"labels":"region"}}`, protocol.CodeSchema, "/stores/labels", `the label expression "region" is wrong at character 1`, ""},
		"bad input":      {protocol.VerbRun, `{` + good + `,"input":{"date":17,"topErrors":-1}}`, protocol.CodeSchema, "/input/date", "/input/date: must be string, not integer\n/input/topErrors: must be at least 0", "collect_log_input"},
		"input a list":   {protocol.VerbRun, `{` + good + `,"input":[]}`, protocol.CodeSchema, "/input", "/input: must be object, not array", ""},
		"past deadline":  {protocol.VerbRun, `{` + good + `,"deadline":1}`, protocol.CodeExpired, "/deadline", "the request came", "epoch milliseconds"},
		"other content":  {protocol.VerbRun, `{"requestId":"taken","job":"collect_log","stores":["1E5"]}`, protocol.CodeConflict, "/requestId", "the requestId taken made run " + first.RunID, "new requestId"},
		"cancel nothing": {protocol.VerbCancel, ``, protocol.CodeEmptyPayload, "", "the payload is empty", ""},
		"cancel no run":  {protocol.VerbCancel, `{}`, protocol.CodeSchema, "/runId", "/runId: is required", ""},
		"cancel unknown": {protocol.VerbCancel, `{"runId":"nope"}`, protocol.CodeNotFound, "/runId", "no such run: nope", ""},
		"cancel a stranger": {protocol.VerbCancel, `{"runId":"` + first.RunID + `","stores":["007","SH_1"]}`, protocol.CodeUnknownStore, "/stores",
			"run " + first.RunID + " has no such store: SH_1; nothing was changed", ""},
		"status unknown":    {protocol.VerbStatus, `{"runId":"nope"}`, protocol.CodeNotFound, "/runId", "no such run: nope", ""},
		"status wildcard":   {protocol.VerbStatus, `{"runId":"+"}`, protocol.CodeSchema, "/runId", "/runId: must match", ""},
		"status a stranger": {protocol.VerbStatus, `{"runId":"` + first.RunID + `","storeId":"SH_1"}`, protocol.CodeUnknownStore, "/storeId", "run " + first.RunID + " has no such store: SH_1", ""},
		"retry":             {protocol.VerbRetry, `{}`, protocol.CodeNotAllowed, "", "this version does not offer retry", "it offers run"},
		"approve":           {protocol.VerbApprove, ``, protocol.CodeNotAllowed, "", "this version does not offer approve", "it offers run"},
	} {
		t.Run(name, func(t *testing.T) {
			reply := d.ask(c.verb, c.payload)
			if reply.OK || reply.Status != "rejected" || reply.Code != c.code || reply.Path != c.path || !strings.HasPrefix(reply.Message, c.say) {
				t.Errorf("got  %s %q %q\nwant %s %q %q", reply.Code, reply.Path, reply.Message, c.code, c.path, c.say)
			}
			if reply.Hint == "" || !strings.Contains(reply.Hint, c.hint) || !strings.ContainsFunc(reply.MessageZh, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
				t.Errorf("hint %q, messageZh %q", reply.Hint, reply.MessageZh)
			}
			if n := d.runs(); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
	if tasks, err := d.Store.GetTaskOf(t.Context(), first.RunID, "007"); err != nil || tasks[0].State.Status != task.Pending {
		t.Errorf("the first run was touched: %+v, %v", tasks, err)
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
		"a member nobody knows":    `{"requestId":"r","job":"collect_log","stores":["1E5","007"],"input":{"date":"2026-09-17","topErrors":5},"x":1}`,
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

func TestARetainedTriggerIsClearedAndMakesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	addr := request("wang", protocol.VerbRun)
	in := transport.Inbound{Payload: []byte(`{"job":"collect_log","stores":"all"}`), Retained: true}
	for range 3 { // and again with every start
		d.Broker.Forget()
		if err := d.trigger.Handle(t.Context(), addr, in); err != nil {
			t.Fatal(err)
		}
		sent := d.Broker.Sent()
		if len(sent) != 2 {
			t.Fatalf("%d messages", len(sent))
		}
		if cleared := sent[0]; cleared.Topic != "muster/v1/req/wang/run" || !cleared.Retain || len(cleared.Payload) != 0 {
			t.Errorf("not cleared: %+v", cleared.Outbound)
		}
		if reply := d.reply(sent[1]); reply.Code != protocol.CodeRetainedCommand || sent[1].Topic != "muster/v1/rep/wang/last" {
			t.Errorf("got %+v on %s", reply, sent[1].Topic)
		}
	}
	d.Broker.Forget()
	if err := d.trigger.Handle(t.Context(), addr, transport.Inbound{Retained: true}); err != nil || len(d.Broker.Sent()) != 0 {
		t.Errorf("the clearing itself: %v, %d messages", err, len(d.Broker.Sent()))
	}
	if n := d.runs(); n != 0 {
		t.Errorf("%d runs", n)
	}
}

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
	settled, err := d.Store.Settle(t.Context(), store.Answer{Event: task.Succeed, Attempt: store.Attempt{TaskID: tasks[0].TaskID, Attempt: 1, StoreID: "007", TerminalID: "pos",
		Answer: protocol.AnswerSucceeded, Executed: true, Result: json.RawMessage(`{"n":9007199254740993,"f":1.0}`), SHA256: strings.Repeat("0", 64), Bytes: 30}}, d.now)
	if err != nil || !settled.Applied {
		t.Fatalf("%+v, %v", settled, err)
	}
	if reply := d.ask(protocol.VerbStatus, `{"runId":"`+run.RunID+`","storeId":"007"}`); string(reply.Task.Result) != `{"n":9007199254740993,"f":1.0}` {
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

// TestEveryExampleOfHelpIsTaken keeps the help honest.
func TestEveryExampleOfHelpIsTaken(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, line := range d.ask(protocol.VerbHelp, `{}`).Usage {
		topic, payload, _ := strings.Cut(line, " ")
		addr, ok := d.Sender.Topics().Parse(topic)
		if !ok {
			t.Fatalf("%s is no topic", topic)
		}
		reply := d.ask(addr.Verb, payload)
		if !reply.OK && reply.Code != protocol.CodeUnknownStore && reply.Code != protocol.CodeNotFound {
			t.Errorf("%s: %+v", line, reply)
		}
	}
}

func TestAFloodOfOneUserIsHeldBack(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) { c.Rate, c.Burst = 0, 0 })
	for i := range trigger.DefaultBurst {
		if reply := d.ask(protocol.VerbJobs, `{}`); !reply.OK {
			t.Fatalf("request %d: %+v", i, reply)
		}
	}
	if reply := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all"}`); reply.Code != protocol.CodeRateLimited || reply.Hint == "" {
		t.Errorf("got %+v", reply)
	}
	d.Broker.Forget()
	err := d.trigger.Handle(t.Context(), request("li", protocol.VerbJobs), transport.Inbound{})
	if reply := d.reply(d.Broker.Sent()[0]); err != nil || !reply.OK {
		t.Errorf("another user: %+v, %v", reply, err)
	}
	d.pass(200 * time.Millisecond)
	if reply := d.ask(protocol.VerbJobs, `{}`); !reply.OK {
		t.Errorf("after a while: %+v", reply)
	}
	if n := d.runs(); n != 0 {
		t.Errorf("%d runs", n)
	}
}

func TestStopRefusesAndIsPatient(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.trigger.Stop()
	d.trigger.Stop()
	if reply := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all"}`); reply.Code != protocol.CodeShuttingDown {
		t.Errorf("got %+v", reply)
	}
	if n := d.runs(); n != 0 {
		t.Errorf("%d runs", n)
	}
}

func TestAClosedStoreIsNoInternalDetail(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.Close()
	reply := d.ask(protocol.VerbRun, `{"requestId":"r","job":"collect_log","stores":"all"}`)
	if reply.OK || reply.Code != protocol.CodeShuttingDown && reply.Code != protocol.CodeInternal || reply.RequestID != "r" {
		t.Errorf("got %+v", reply)
	}
}

// full is a store whose disk is full.
type full struct{ *store.Store }

func (full) CreateRun(context.Context, store.Run, []store.Place, []store.NewTask, store.Request, time.Time) (store.Created, error) {
	return store.Created{}, errors.New("cannot commit: database or disk is full (13) at /var/lib/muster")
}

func TestUnknownErrorsStayInTheLog(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) { c.Runs = full{c.Runs.(*store.Store)} })
	reply := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all"}`)
	if reply.Code != protocol.CodeInternal || strings.Contains(reply.Message+reply.Hint, "disk") {
		t.Errorf("got %+v", reply)
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
