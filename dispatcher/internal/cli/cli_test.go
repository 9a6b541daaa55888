package cli_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"muster/broker/server"
	"muster/dispatcher/internal/cli"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/plan"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/schemas"
)

// headquarters is a real broker with a real trigger over a real store. What
// comes after the order (states and the summary) is published by the test.
type headquarters struct {
	t      *testing.T
	addr   string
	store  *store.Store
	sender *transport.Sender

	mu      sync.Mutex
	created func(store.Run) // told of each run
}

func setup(t *testing.T, tune ...func(*trigger.Config)) *headquarters {
	t.Helper()
	hq := &headquarters{t: t}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	if hq.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hq.store.Close() })
	hq.store.Observe(hq.changed)
	log := slog.New(slog.DiscardHandler)
	cfg := server.DefaultConfig()
	cfg.Anonymous, cfg.UsersFile = true, ""
	cfg.Listeners.TCP.Address = "127.0.0.1:0"
	var step *trigger.Trigger
	handle := func(ctx context.Context, in transport.Inbound) error {
		if addr, ok := topics.Parse(in.Topic); ok && addr.Area == protocol.AreaRequest {
			return step.Handle(ctx, addr, in)
		}
		return nil
	}
	link, err := transport.NewEmbedded(cfg, transport.EmbeddedOptions{Handle: handle, Session: func(transport.Session) {}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	hq.sender = transport.NewSender(link, topics, time.Now)
	stepConfig := trigger.Config{Runs: hq.store, Tasks: hq.store, World: hq.store, Approvals: hq.store, Past: hq.store, Planner: plan.New(rand.Reader), Sender: hq.sender, Now: time.Now, Logger: log,
		Jobs: job.NewRegistry(job.Spec{Name: "collect_log", Version: 1, Title: "Collect", Policy: job.DefaultPolicy(),
			Input: compile(t, "collect_log_input.v1.schema.json"), Output: compile(t, "collect_log_output.v1.schema.json")})}
	for _, f := range tune {
		f(&stepConfig)
	}
	step, err = trigger.New(stepConfig)
	if err != nil {
		t.Fatal(err)
	}
	places := []store.Place{{StoreID: "007", Name: "a", TimeZone: "UTC", Labels: map[string]string{"region": "east"}}, {StoreID: "1E5", Name: "b", TimeZone: "UTC"}}
	if _, _, _, err := hq.store.ReplacePlaces(t.Context(), "", places, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(step.Start(t.Context()), link.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Stop(context.WithoutCancel(t.Context())) })
	hq.addr = "mqtt://" + link.Addr("tcp").String()
	return hq
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

func (hq *headquarters) changed(changes []store.Change) {
	hq.mu.Lock()
	created := hq.created
	hq.mu.Unlock()
	for _, c := range changes {
		if c.Kind == store.RunCreated && created != nil {
			go created(*c.Run)
		}
	}
}

func (hq *headquarters) onRun(f func(store.Run)) {
	hq.mu.Lock()
	defer hq.mu.Unlock()
	hq.created = f
}

// publish retains v on a topic of the run.
func (hq *headquarters) publish(run string, kind protocol.RunKind, v any) {
	if err := hq.sender.JSON(context.Background(), hq.sender.Topics().Run(run, kind), v, transport.Options{Retain: true}); err != nil {
		hq.t.Error(err)
	}
}

// shell runs one command line and returns what it printed and its exit code.
func shell(ctx context.Context, t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "dispatcher", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(cli.Commands()...)
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(strings.NewReader(stdin))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return out.String(), errs.String(), 0
	}
	errs.WriteString(err.Error())
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return out.String(), errs.String(), coded.ExitCode()
	}
	return out.String(), errs.String(), 2
}

func (hq *headquarters) shell(args ...string) (stdout, stderr string, code int) {
	hq.t.Helper()
	return shell(hq.t.Context(), hq.t, "", append(args, "--broker", hq.addr, "--user", "wang")...)
}

// ordered runs a command that prints one reply as JSON.
func (hq *headquarters) ordered(args ...string) protocol.Reply {
	hq.t.Helper()
	out, errs, code := hq.shell(append(args, "--json")...)
	var reply protocol.Reply
	if err := protocol.Decode([]byte(out), 1<<20, &reply); err != nil || (code == 0) != reply.OK {
		hq.t.Fatalf("%v: %d, %q, %q, %v", args, code, out, errs, err)
	}
	return reply
}

func TestRunOrdersWhatTheFlagsSay(t *testing.T) {
	t.Parallel()
	hq := setup(t)
	list := filepath.Join(t.TempDir(), "missing.csv")
	if err := os.WriteFile(list, []byte("\ufeffstore_id,name\r\n# closed: 1E5\r\n007,a\r\n\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(`{"date":"2026-01-01","excerptLines":7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		stores int
		input  string
	}{
		"all":       {[]string{"--stores", "all"}, 2, `{}`},
		"list":      {[]string{"--stores", "007, 1E5,007"}, 2, `{}`},
		"file":      {[]string{"--stores", "@" + list}, 1, `{}`},
		"label":     {[]string{"--stores", "label:region!=east"}, 1, `{}`},
		"all but":   {[]string{"--stores", "allBut:007"}, 1, `{}`},
		"but those": {[]string{"--stores", "allBut:@" + list}, 1, `{}`},
		"text":      {[]string{"--stores", "all", "--input", "date=2026-09-17", "--input", "note=1E5", "--input", "eq=a=b"}, 2, `{"date":"2026-09-17","eq":"a=b","note":"1E5"}`},
		"JSON":      {[]string{"--stores", "all", "--input", "topErrors:=5"}, 2, `{"topErrors":5}`},
		"over file": {[]string{"--stores", "all", "--input-file", file, "--input", "date=yesterday"}, 2, `{"date":"yesterday","excerptLines":7}`},
	} {
		reply := hq.ordered(append([]string{"run", "collect_log", "--reason", name}, c.args...)...)
		run, err := hq.store.GetRun(t.Context(), reply.RunID)
		if err != nil || run.Targets != c.stores || string(run.Input) != c.input || run.Reason != name || run.RequestedBy != "wang" {
			t.Errorf("%s: %+v, %v", name, run, err)
		}
	}
	reply := hq.ordered("run", "collect_log", "--stores", "all", "--barrier", "90s", "--makeup", "0s", "--attempts", "4", "--max-running", "3", "--priority", "-2", "--grants-per-second", "0.5", "--grant-burst", "2", "--request-id", "mine")
	run, err := hq.store.GetRun(t.Context(), reply.RunID)
	if p := run.Policy; err != nil || p.Barrier != 90*time.Second || p.Makeup != 0 || p.Attempts != 4 || p.MaxRunning != 3 || p.Priority != -2 || p.GrantRate != 0.5 || p.GrantBurst != 2 {
		t.Errorf("settings: %+v, %v", p, err)
	}
	again := hq.ordered("run", "collect_log", "--stores", "all", "--barrier", "90s", "--makeup", "0s", "--attempts", "4", "--max-running", "3", "--priority", "-2", "--grants-per-second", "0.5", "--grant-burst", "2", "--request-id", "mine")
	if again.RunID != run.RunID || !*again.Duplicate {
		t.Errorf("the same id: %+v", again)
	}
}

func TestBadCommandLinesAskNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		say  string
	}{
		"no stores":       {[]string{"run", "collect_log"}, `required flag(s) "stores" not set`},
		"no job":          {[]string{"run", "--stores", "all"}, "run takes one job, not 0 arguments"},
		"empty stores":    {[]string{"run", "j", "--stores", " , "}, `--stores " , " names no store`},
		"all but nobody":  {[]string{"run", "j", "--stores", "allBut:"}, `--stores "allBut:" names no store`},
		"retry barrier":   {[]string{"retry", "r", "--barrier", "1500ms"}, "--barrier 1.5s must be whole seconds"},
		"empty label":     {[]string{"run", "j", "--stores", "label:"}, "--stores label: needs an expression"},
		"lost file":       {[]string{"run", "j", "--stores", "@/no/such/file"}, "put it there, or name another"},
		"input":           {[]string{"run", "j", "--stores", "all", "--input", "date"}, `--input "date" must be KEY=TEXT or KEY:=JSON`},
		"input JSON":      {[]string{"run", "j", "--stores", "all", "--input", "n:=01"}, `--input "n:=01": BAD_JSON`},
		"input file":      {[]string{"run", "j", "--stores", "all", "--input-file", "-"}, "cannot read the input from -: EMPTY_PAYLOAD"},
		"barrier":         {[]string{"run", "j", "--stores", "all", "--barrier", "1500ms"}, "--barrier 1.5s must be whole seconds"},
		"barrier no unit": {[]string{"run", "j", "--stores", "all", "--barrier", "60"}, "missing unit in duration"},
		"user":            {[]string{"jobs", "--user", "a/b"}, `--user "a/b" must be`},
		"broker":          {[]string{"jobs", "--broker", "nowhere"}, `--broker "nowhere" must be an address`},
		"root":            {[]string{"jobs", "--topic-root", "a/#"}, `cannot use topic root "a/#"`},
		"lost input":      {[]string{"run", "j", "--stores", "all", "--input-file", "/no/such/file"}, "put it there, or name another"},
		"lost CA":         {[]string{"jobs", "--ca-file", "/no/such/file"}, "put it there, or name another"},
		"lost key":        {[]string{"run", "j", "--stores", "all", "--key", "/no/such/file"}, "cannot use --key: cannot look at /no/such/file"},
		"no key":          {[]string{"cancel", "r", "--key", secret(t, 0o600)}, "it holds no PEM private key"},
		"open key":        {[]string{"approve", "a", "--key", secret(t, 0o644)}, "others may read it; run: chmod 600"},
		"half a pair":     {[]string{"jobs", "--cert", "/no/such/file"}, "--cert and --cert-key go together"},
		"open cert key":   {[]string{"jobs", "--cert", "/no/such/file", "--cert-key", secret(t, 0o640)}, "others may read it"},
		"lost cert":       {[]string{"jobs", "--cert", "/no/such/file", "--cert-key", secret(t, 0o600)}, "put it there, or name another"},
		"no approval":     {[]string{"approve"}, "approve takes one approval, not 0 arguments"},
		"key there":       {[]string{"request-key", secret(t, 0o600)}, "exists; name a new file"},
		"password file":   {[]string{"jobs", "--password-file", "/no/such/file"}, "cannot read the password"},
		"unknown flag":    {[]string{"jobs", "--nope"}, "unknown flag: --nope"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, errs, code := shell(t.Context(), t, "", c.args...); code != 2 || !strings.Contains(errs, c.say) {
				t.Errorf("got %d, %q", code, errs)
			}
		})
	}
}

func TestARefusalIsShownInBothLanguages(t *testing.T) {
	t.Parallel()
	hq := setup(t)
	_, errs, code := hq.shell("run", "collect_log", "--stores", "sh_1")
	if code != screen.ExitRefused || !strings.Contains(errs, "refused: UNKNOWN_STORE: no such store: sh_1") || !strings.Contains(errs, "未知门店") || !strings.Contains(errs, "hint: ids are compared exactly, and reports have them; headquarters' operator lists them with: dispatcher stores list\n      编号须完全一致，可查阅报告；") {
		t.Errorf("got %d, %q", code, errs)
	}
	if reply := hq.ordered("run", "nope", "--stores", "all"); reply.Code != protocol.CodeUnknownJob {
		t.Errorf("got %+v", reply)
	}
}

func TestCancelStatusAndJobs(t *testing.T) {
	t.Parallel()
	hq := setup(t)
	run := hq.ordered("run", "collect_log", "--stores", "all").RunID
	for _, step := range []struct{ args, say string }{
		{"jobs", "collect_log  v1  Collect"},
		{"status " + run, "stores 2: pending 2"},
		{"cancel " + run + " --stores 007 --reason x", "1 cancelled"},
		{"status " + run + " --store 007", "of store 007: CANCELLED, attempt 0"},
		{"cancel " + run, "1 cancelled, 1 were already finished"},
		{"cancel " + run, "already finished: nothing was left to cancel"},
	} {
		out, errs, code := hq.shell(strings.Fields(step.args)...)
		if code != 0 || !strings.Contains(out, step.say) {
			t.Errorf("%s: %d, %q, %q", step.args, code, out, errs)
		}
	}
	if _, errs, code := hq.shell("status", "nope"); code != screen.ExitRefused || !strings.Contains(errs, "NOT_FOUND") {
		t.Errorf("got %d, %q", code, errs)
	}
}

// TestStatusShowsWhatTheProgramSaid, line by line, and nothing of it moves the cursor.
func TestStatusShowsWhatTheProgramSaid(t *testing.T) {
	t.Parallel()
	hq := setup(t)
	run := hq.ordered("run", "collect_log", "--stores", "all").RunID
	tasks, err := hq.store.GetTaskOf(t.Context(), run, "007")
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	now := time.Now()
	at := store.Terminal{StoreID: "007", TerminalID: "pos1", Online: true, SessionID: "s", Since: now, LastSeenAt: now}
	if _, err := hq.store.SetPresence(t.Context(), at, now); err != nil {
		t.Fatal(err)
	}
	granted, err := hq.store.Grant(t.Context(), store.Grant{TaskID: tasks[0].TaskID, StoreID: "007", TerminalID: "pos1", LeaseUntil: now.Add(time.Minute)}, now)
	if err != nil || granted.Refusal != "" {
		t.Fatalf("%s, %v", granted.Refusal, err)
	}
	failure := protocol.Failure{Code: protocol.CodeExecution, Message: "the program ended\n\x1b[2Jwith exit status 3", Detail: "打印机缺纸\r\n\tat line 7\x1b]0;x\u202e\n"}
	_, err = hq.store.Settle(t.Context(), store.Answer{Event: task.GiveUp, Reason: task.ReasonExecutionError, Attempt: store.Attempt{TaskID: tasks[0].TaskID, Attempt: 1,
		StoreID: "007", TerminalID: "pos1", Answer: protocol.AnswerFailed, Executed: true, SHA256: strings.Repeat("0a", 32), Failure: &failure}}, now)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := hq.shell("status", run, "--store", "007")
	want := "error EXECUTION: the program ended\n  \ufffd[2Jwith exit status 3\n  打印机缺纸\n      at line 7\ufffd]0;x\ufffd\n"
	if code != 0 || !strings.HasSuffix(out, want) {
		t.Errorf("%d: %q, %q; want it to end in %q", code, out, errs, want)
	}
	if told := hq.ordered("status", run, "--store", "007").Task; told == nil || told.Error == nil || *told.Error != failure {
		t.Errorf("the reply tells %+v", told)
	}
}

func TestWaitEndsWithTheVerdict(t *testing.T) {
	t.Parallel()
	hq := setup(t)
	for verdict, want := range map[protocol.Verdict]int{protocol.VerdictComplete: 0, protocol.VerdictPartial: screen.ExitPartial, protocol.VerdictBelowQuorum: screen.ExitBelowQuorum} {
		hq.onRun(func(run store.Run) {
			hq.publish(run.RunID, protocol.RunState, protocol.RunStateReport{Meta: hq.sender.Meta(), RunID: run.RunID, Job: run.Job, Phase: protocol.PhaseCollecting,
				Targets: 2, Tasks: map[task.Status]int{task.Running: 2}, Online: 2, BarrierAt: protocol.At(run.BarrierAt)})
			hq.publish(run.RunID, protocol.RunSummary, protocol.Summary{Meta: hq.sender.Meta(), RunID: run.RunID, Job: run.Job, Revision: 1, Verdict: verdict, Targets: 2,
				Counts: protocol.Counts{Succeeded: 1, Offline: 1}, Missing: []string{"1E5"}, Folder: "reports/2026/09", Files: []protocol.ManifestFile{{Name: "r.json"}},
				Text: "1 of 2 stores", TextZh: "2 家门店中 1 家完成"})
		})
		out, errs, code := hq.shell("run", "collect_log", "--stores", "all", "--wait")
		if code != want {
			t.Errorf("%s: exit code %d, %q", verdict, code, errs)
		}
		for _, say := range []string{"2 stores, report by", "1 of 2 stores\n2 家门店中 1 家完成\n", "verdict " + string(verdict), "offline 1", "missing 1E5", "reports/2026/09/r.json"} {
			if !strings.Contains(out, say) {
				t.Errorf("%s: %q lacks %q", verdict, out, say)
			}
		}
	}
	out, _, _ := hq.shell("run", "collect_log", "--stores", "all", "--wait", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !json.Valid([]byte(lines[0])) || !strings.Contains(lines[1], `"verdict":`) {
		t.Errorf("JSON: %q", out)
	}
}

func TestNobodyThereIsSaid(t *testing.T) {
	t.Parallel()
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, errs, code := shell(t.Context(), t, "", "jobs", "--broker", "mqtt://"+addr, "--timeout", "300ms")
	if code != screen.ExitNoAnswer || !strings.Contains(errs, "no answer: the broker cannot be reached") {
		t.Errorf("got %d, %q", code, errs)
	}
}

func TestAWrongPasswordIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(users, []byte("users: []\nterminals: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := server.DefaultConfig()
	cfg.UsersFile, cfg.Listeners.TCP.Address = users, "127.0.0.1:0"
	broker := serving(t, cfg)
	_, errs, code := shell(t.Context(), t, "", "jobs", "--broker", "mqtt://"+broker.Addr("tcp").String(), "--user", "wang", "--timeout", "60s")
	if code != screen.ExitRefused || !strings.Contains(errs, "the broker refuses user wang: check --user, and --password-file or MUSTER_PASSWORD (or --cert)") {
		t.Errorf("got %d, %q", code, errs)
	}
}

func TestInterruptEndsTheWait(t *testing.T) {
	t.Parallel()
	hq := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	hq.onRun(func(store.Run) { cancel() })
	_, errs, code := shell(ctx, t, "", "run", "collect_log", "--stores", "all", "--wait", "--broker", hq.addr, "--user", "wang")
	if code != screen.ExitNoAnswer || !strings.Contains(errs, "interrupted") {
		t.Errorf("got %d, %q", code, errs)
	}
}
