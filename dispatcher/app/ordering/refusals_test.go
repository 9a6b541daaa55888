package ordering_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
)

func utf16(text string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, r := range text {
		b.WriteString(string([]byte{byte(r), byte(r >> 8)}))
	}
	return b.String()
}

// refusal is a request and how it is refused: say begins the message, hint stands in the
// hint.
type refusal struct {
	verb    protocol.Verb
	payload string
	code    protocol.Code
	path    string
	say     string
	hint    string
}

func (r refusal) want(t *testing.T, reply protocol.Reply) {
	t.Helper()
	if reply.OK || reply.Status != "rejected" || reply.Code != r.code || reply.Path != r.path || !strings.HasPrefix(reply.Message, r.say) {
		t.Errorf("got  %s %q %q\nwant %s %q %q", reply.Code, reply.Path, reply.Message, r.code, r.path, r.say)
	}
	if hint := reply.Hint + reply.HintZh; reply.Hint == "" || !strings.Contains(reply.Hint, r.hint) || unseen.MatchString(hint) || !chinese(reply.MessageZh) || !chinese(reply.HintZh) || english.MatchString(reply.MessageZh) {
		t.Errorf("hint %q, messageZh %q, hintZh %q", reply.Hint, reply.MessageZh, reply.HintZh)
	}
}

// TestBadInputIsRefusedWithAReason is the whole list: each gets its reply with
// code, message in two languages and hint, and nothing is created.
func TestBadInputIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	d := setup(t)
	first := d.ask(protocol.VerbRun, `{"requestId":"taken","job":"collect_log","stores":["007"]}`)
	const good = `"job":"collect_log","stores":"all"`
	for name, c := range map[string]refusal{
		"empty":          {protocol.VerbRun, "", protocol.CodeEmptyPayload, "", "the payload is empty", `-m "$(cat file)"`},
		"white space":    {protocol.VerbRun, "\r\n", protocol.CodeEmptyPayload, "", "the payload is empty", ""},
		"no JSON":        {protocol.VerbRun, "collect_log all", protocol.CodeBadJSON, "", "line 1, byte 1: invalid character 'c'", ""},
		"cut off":        {protocol.VerbRun, `{` + good, protocol.CodeBadJSON, "", "line 1, byte 35: the document ends too early", ""},
		"quotes lost":    {protocol.VerbRun, `{job:collect_log,stores:all}`, protocol.CodeBadJSON, "", `line 1, byte 2: invalid character 'j'`, "PowerShell"},
		"single quotes":  {protocol.VerbRun, `{'job':'collect_log'}`, protocol.CodeBadJSON, "", `line 1, byte 2: invalid character '\''`, "no single quotes"},
		"curly quotes":   {protocol.VerbRun, `{“job”:“collect_log”}`, protocol.CodeBadJSON, "", `line 1, byte 2: invalid character '“' (U+201C)`, `write " for each`},
		"UTF-16":         {protocol.VerbRun, utf16(`{` + good + `}`), protocol.CodeBadJSON, "", "the payload is UTF-16 (little endian), not UTF-8", "UTF-8"},
		"GBK":            {protocol.VerbRun, "{" + good + ",\"reason\":\"\xd1\xb2\xbc\xec\"}", protocol.CodeBadJSON, "", "the payload is not UTF-8; it may be GBK or Big5", "Notepad"},
		"oversize":       {protocol.VerbRun, `{` + good + `,"reason":"` + strings.Repeat("x", protocol.MaxPayloadBytes) + `"}`, protocol.CodeTooLarge, "", "the payload has", ""},
		"deep":           {protocol.VerbRun, `{` + good + `,"input":` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 41), protocol.CodeBadJSON, "/input" + strings.Repeat("/a", 31), "it is nested deeper than 32 levels", ""},
		"key twice":      {protocol.VerbRun, `{` + good + `,"stores":["007"]}`, protocol.CodeBadJSON, "", `the member "stores" stands twice`, ""},
		"key in capital": {protocol.VerbRun, `{` + good + `,"RequestID":"a"}`, protocol.CodeSchema, "/RequestID", `/RequestID: is not allowed; did you mean "requestId"?`, "document: takes attempts, barrierSeconds, deadline"},
		"1e400":          {protocol.VerbRun, `{` + good + `,"priority":1e400}`, protocol.CodeBadJSON, "/priority", "the number 1e400 is out of range", ""},
		"half surrogate": {protocol.VerbRun, `{` + good + `,"reason":"\ud800"}`, protocol.CodeBadJSON, "/reason", "a string holds half a surrogate pair", ""},
		"two documents":  {protocol.VerbRun, `{` + good + `}{}`, protocol.CodeBadJSON, "", "something follows the document", ""},
		"a list":         {protocol.VerbRun, `[]`, protocol.CodeSchema, "", "document: must be object, not array", ""},
		"no members":     {protocol.VerbRun, `{}`, protocol.CodeSchema, "/job", "/job: is required\n/stores: is required", "document: takes attempts, "},
		"job a number":   {protocol.VerbRun, `{"job":1,"stores":"all"}`, protocol.CodeSchema, "/job", "/job: must be string, not integer", ""},
		"stores a word":  {protocol.VerbRun, `{"job":"collect_log","stores":"007"}`, protocol.CodeSchema, "/stores", `stores must be "all", a list of store ids as text, {"labels":"key=value"} or {"allBut":[ids]}, not "007"`, "for example"},
		"stores numbers": {protocol.VerbRun, `{"job":"collect_log","stores":[7]}`, protocol.CodeSchema, "/stores", `stores must be "all", a list of store ids as text`, "for example"},
		"stores null":    {protocol.VerbRun, `{"job":"collect_log","stores":null}`, protocol.CodeSchema, "/stores", `stores must be "all"`, ""},
		"text as number": {protocol.VerbRun, `{` + good + `,"barrierSeconds":"60"}`, protocol.CodeSchema, "/barrierSeconds", "/barrierSeconds: must be integer, not string", ""},
		"out of range":   {protocol.VerbRun, `{` + good + `,"attempts":11}`, protocol.CodeSchema, "/attempts", "/attempts: must be at most 10", ""},
		"bad requestId":  {protocol.VerbRun, `{` + good + `,"requestId":"~a"}`, protocol.CodeSchema, "/requestId", "/requestId: must be 1 to 63 of", ""},
		"unknown job":    {protocol.VerbRun, `{"job":"Collect_log","stores":"all"}`, protocol.CodeUnknownJob, "/job", "no such job: Collect_log", "known jobs: collect_log"},
		"unknown store":  {protocol.VerbRun, `{"job":"collect_log","stores":["007","sh_1","X"]}`, protocol.CodeUnknownStore, "/stores", "no such store: sh_1, X", "did you mean SH_1?"},
		"no store":       {protocol.VerbRun, `{"job":"collect_log","stores":[]}`, protocol.CodeNoTargets, "/stores", "the list of stores is empty", ""},
		"all but nobody": {protocol.VerbRun, `{"job":"collect_log","stores":{"allBut":[]}}`, protocol.CodeSchema, "/stores", `stores must be "all"`, ""},
		"all but a slip": {protocol.VerbRun, `{"job":"collect_log","stores":{"allBut":["sh_1"]}}`, protocol.CodeUnknownStore, "/stores", "no such store: sh_1", "did you mean SH_1?"},
		"all but all":    {protocol.VerbRun, `{"job":"collect_log","stores":{"allBut":["007","1E5","SH_1"]}}`, protocol.CodeNoTargets, "/stores", "no store is left", ""},
		"no such label":  {protocol.VerbRun, `{"job":"collect_log","stores":{"labels":"region=north"}}`, protocol.CodeNoTargets, "/stores", `no store has the labels "region=north"`, ""},
		"bad expression": {protocol.VerbRun, `{"job":"collect_log","stores":{"labels":"region"}}`, protocol.CodeSchema, "/stores/labels", `the label expression "region" is wrong at character 1`, ""},
		"bad input":      {protocol.VerbRun, `{` + good + `,"input":{"date":17,"topErrors":-1}}`, protocol.CodeSchema, "/input/date", "/input/date: must be string, not integer\n/input/topErrors: must be at least 0", "/input: takes date, excerptLines, topErrors"},
		"input a list":   {protocol.VerbRun, `{` + good + `,"input":[]}`, protocol.CodeSchema, "/input", "/input: must be object, not array", ""},
		"no such day":    {protocol.VerbRun, `{` + good + `,"input":{"date":"2026-02-30"}}`, protocol.CodeSchema, "/input/date", "/input/date: must be a valid date such as 2026-09-17, or \"yesterday\"", ""},
		"past deadline":  {protocol.VerbRun, `{` + good + `,"deadline":1}`, protocol.CodeExpired, "/deadline", "the request's deadline was", "epoch milliseconds"},
		"other content":  {protocol.VerbRun, `{"requestId":"taken","job":"collect_log","stores":["1E5"]}`, protocol.CodeConflict, "/requestId", "the requestId taken made run " + first.RunID, "new requestId"},
		"cancel nothing": {protocol.VerbCancel, ``, protocol.CodeEmptyPayload, "", "the payload is empty", ""},
		"cancel no run":  {protocol.VerbCancel, `{}`, protocol.CodeSchema, "/runId", "/runId: is required", ""},
		"misspelt":       {protocol.VerbRun, `{` + good + `,"barrierSecond":60}`, protocol.CodeSchema, "/barrierSecond", `/barrierSecond: is not allowed; did you mean "barrierSeconds"?`, "barrierSeconds"},
		"no such member": {protocol.VerbRun, `{` + good + `,"x":{"job":1}}`, protocol.CodeSchema, "/x", "/x: is not allowed", "document: takes attempts, "},
		// Who misspells the stores would cancel the whole run.
		"cancel misspelt":  {protocol.VerbCancel, `{"runId":"` + first.RunID + `","store":["1E5"]}`, protocol.CodeSchema, "/store", `/store: is not allowed; did you mean "stores"?`, ""},
		"retry misspelt":   {protocol.VerbRetry, `{"runId":"` + first.RunID + `","dry":true}`, protocol.CodeSchema, "/dry", "/dry: is not allowed", ""},
		"status misspelt":  {protocol.VerbStatus, `{"runId":"` + first.RunID + `","storeID_":"1E5"}`, protocol.CodeSchema, "/storeID_", `/storeID_: is not allowed; did you mean "storeId"?`, ""},
		"approve misspelt": {protocol.VerbApprove, `{"approvalId":"nope","contentHash":"` + strings.Repeat("0", 64) + `","decision":"approve","reasons":"x"}`, protocol.CodeSchema, "/reasons", `/reasons: is not allowed; did you mean "reason"?`, ""},
		"cancel unknown":   {protocol.VerbCancel, `{"runId":"nope"}`, protocol.CodeNotFound, "/runId", "no such run: nope", ""},
		"cancel a stranger": {protocol.VerbCancel, `{"runId":"` + first.RunID + `","stores":["007","SH_1"]}`, protocol.CodeUnknownStore, "/stores",
			"run " + first.RunID + " has no such store: SH_1; nothing was changed", ""},
		"status unknown":    {protocol.VerbStatus, `{"runId":"nope"}`, protocol.CodeNotFound, "/runId", "no such run: nope", ""},
		"status wildcard":   {protocol.VerbStatus, `{"runId":"+"}`, protocol.CodeSchema, "/runId", "/runId: must be 1 to 63 of", ""},
		"status a stranger": {protocol.VerbStatus, `{"runId":"` + first.RunID + `","storeId":"SH_1"}`, protocol.CodeUnknownStore, "/storeId", "run " + first.RunID + " has no such store: SH_1", ""},
		"retry nothing":     {protocol.VerbRetry, `{}`, protocol.CodeSchema, "/runId", "/runId: is required", ""},
		"retry unknown":     {protocol.VerbRetry, `{"runId":"nope"}`, protocol.CodeNotFound, "/runId", "no such run: nope", ""},
		"retry too early":   {protocol.VerbRetry, `{"runId":"` + first.RunID + `"}`, protocol.CodeConflict, "/runId", "run " + first.RunID + " is not reported yet", "when its report is out"},
		"approve nothing":   {protocol.VerbApprove, ``, protocol.CodeEmptyPayload, "", "the payload is empty", ""},
		"approve unknown":   {protocol.VerbApprove, `{"approvalId":"nope","contentHash":"` + strings.Repeat("0", 64) + `","decision":"approve"}`, protocol.CodeNotFound, "/approvalId", "no such approval: nope", "approvals"},
		"approve no hash":   {protocol.VerbApprove, `{"approvalId":"nope","decision":"approve"}`, protocol.CodeSchema, "/contentHash", "/contentHash: is required", ""},
		"approval unknown":  {protocol.VerbStatus, `{"approvalId":"nope"}`, protocol.CodeNotFound, "/approvalId", "no such approval: nope", "approvals"},
	} {
		t.Run(name, func(t *testing.T) {
			c.want(t, d.ask(c.verb, c.payload))
			if n := d.runs(); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
	if tasks, err := d.Store.GetTaskOf(t.Context(), first.RunID, "007"); err != nil || tasks[0].State.Status != task.Pending {
		t.Errorf("the first run was touched: %+v, %v", tasks, err)
	}
}

// english finds two words of English in a row, such as a Chinese sentence must not hold.
var english = regexp.MustCompile(`[a-z]{3,}[ ,]+[a-z]{3,}`)

// unseen finds what a hint must not send a technician to: it lies at headquarters.
var unseen = regexp.MustCompile(`schema|格式定义|register|名册`)

func chinese(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// TestStoresAndRunsAreNamedByIDsAlone: neither a wildcard of MQTT nor a control
// character stands in an id, whatever the verb.
func TestStoresAndRunsAreNamedByIDsAlone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	first := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["007"]}`)
	for name, c := range map[string]refusal{
		"run wildcard":     {protocol.VerbRun, `{"job":"collect_log","stores":["007","+"]}`, protocol.CodeSchema, "/stores", `"+" is no id of a store: that is 1 to 63 of`, "there are no wildcards"},
		"run control":      {protocol.VerbRun, `{"job":"collect_log","stores":["00\u00077"]}`, protocol.CodeSchema, "/stores", `"00\a7" is no id of a store`, "its character 3 is U+0007"},
		"all but wildcard": {protocol.VerbRun, `{"job":"collect_log","stores":{"allBut":["#"]}}`, protocol.CodeSchema, "/stores", `"#" is no id of a store`, "there are no wildcards"},
		"run space":        {protocol.VerbRun, `{"job":"collect_log","stores":["007 "]}`, protocol.CodeSchema, "/stores", `"007 " is no id of a store`, "its character 4 is U+0020 (a space)"},
		"all but Cyrillic": {protocol.VerbRun, `{"job":"collect_log","stores":{"allBut":["А001"]}}`, protocol.CodeSchema, "/stores", `"А001" is no id of a store`, "its character 1 is 'А' (U+0410)"},
		"cancel wildcard":  {protocol.VerbCancel, `{"runId":"` + first.RunID + `","stores":["007","+"]}`, protocol.CodeSchema, "/stores/1", "/stores/1: must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit; its character 1 is '+' (U+002B)", ""},
		"cancel control":   {protocol.VerbCancel, `{"runId":"` + first.RunID + `","stores":["007\n"]}`, protocol.CodeSchema, "/stores/0", "/stores/0: must be 1 to 63 of", ""},
		"cancel any run":   {protocol.VerbCancel, `{"runId":"#"}`, protocol.CodeSchema, "/runId", "/runId: must be 1 to 63 of", ""},
		"retry wildcard":   {protocol.VerbRetry, `{"runId":"` + first.RunID + `","stores":["+/+"]}`, protocol.CodeSchema, "/stores/0", "/stores/0: must be 1 to 63 of", ""},
		"status any store": {protocol.VerbStatus, `{"runId":"` + first.RunID + `","storeId":"+"}`, protocol.CodeSchema, "/storeId", "/storeId: must be 1 to 63 of", ""},
	} {
		t.Run(name, func(t *testing.T) { c.want(t, d.ask(c.verb, c.payload)) })
	}
	if n := d.runs(); n != 1 {
		t.Errorf("%d runs", n)
	}
	if tasks, err := d.Store.GetTaskOf(t.Context(), first.RunID, "007"); err != nil || tasks[0].State.Status != task.Pending {
		t.Errorf("the run was touched: %+v, %v", tasks, err)
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

// TestASetClockMovesNoLimit: set back it keeps nobody out, set ahead it lets nobody in.
func TestASetClockMovesNoLimit(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-26 * time.Hour, 26 * time.Hour} {
		d := setup(t, func(c *trigger.Config) { c.Rate, c.Burst = 5, 1 })
		for i, rest := range []time.Duration{0, 0, 200 * time.Millisecond} {
			d.pass(rest)
			if i == 1 {
				d.set(off)
			}
			if reply := d.ask(protocol.VerbJobs, `{}`); reply.OK != (i != 1) {
				t.Errorf("set by %s, request %d: %+v", off, i, reply)
			}
		}
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
type full struct{ trigger.Runs }

func (full) CreateRun(context.Context, store.Run, []store.Place, []store.NewTask, store.Request, time.Time) (store.Created, error) {
	return store.Created{}, errors.New("cannot commit: database or disk is full (13) at /var/lib/muster")
}

func TestUnknownErrorsStayInTheLog(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) { c.Runs = full{c.Runs} })
	reply := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all"}`)
	if reply.Code != protocol.CodeInternal || strings.Contains(reply.Message+reply.Hint, "disk") {
		t.Errorf("got %+v", reply)
	}
}
