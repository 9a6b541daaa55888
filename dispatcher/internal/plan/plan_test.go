package plan_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/plan"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

func places() []store.Place {
	return []store.Place{
		{StoreID: "SH_2", Name: "two", TimeZone: "Asia/Shanghai", Labels: map[string]string{"region": "east", "format": "kiosk"}},
		{StoreID: "SH_1", Name: "one", TimeZone: "Asia/Shanghai", Labels: map[string]string{"region": "east", "format": "mall"}},
		{StoreID: "007", Name: "seven", TimeZone: "UTC", Labels: map[string]string{"region": "华东"}},
		{StoreID: "1E5", Name: "none", TimeZone: "UTC"},
	}
}

func now() time.Time {
	return time.Date(2026, 9, 17, 7, 30, 12, 345_678_000, time.FixedZone("", 8*3600))
}

func spec() job.Spec {
	return job.Spec{Name: "collect_log", Version: 2, Policy: job.DefaultPolicy(), Columns: []protocol.Column{{Name: "a", Pointer: "/a"}}}
}

// expand lets wang order a run at all stores.
func expand(request protocol.RunRequest) (store.Run, []store.Place, []store.NewTask, error) {
	request.Stores = protocol.Targets{All: true}
	return plan.New(rand.Reader).Expand("wang", request, spec(), places(), now())
}

func ids(places []store.Place) string {
	var list []string
	for _, place := range places {
		list = append(list, place.StoreID)
	}
	return strings.Join(list, " ")
}

func TestTargetsAreFoundInEveryForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		targets protocol.Targets
		want    string
	}{
		"all":             {protocol.Targets{All: true}, "007 1E5 SH_1 SH_2"},
		"list":            {protocol.Targets{Stores: []string{"SH_2", "007"}}, "007 SH_2"},
		"list with twins": {protocol.Targets{Stores: []string{"SH_2", "SH_1", "SH_2", "SH_1"}}, "SH_1 SH_2"},
		"label":           {protocol.Targets{Labels: "region=east"}, "SH_1 SH_2"},
		"all but":         {protocol.Targets{AllBut: []string{"SH_2", "007", "SH_2"}}, "1E5 SH_1"},
		"and":             {protocol.Targets{Labels: " region = east , format=mall"}, "SH_1"},
		"not":             {protocol.Targets{Labels: "region=east,format!=kiosk"}, "SH_1"},
		"not, absent":     {protocol.Targets{Labels: "format!=kiosk"}, "007 1E5 SH_1"},
		"Chinese value":   {protocol.Targets{Labels: "region=华东"}, "007"},
	} {
		got, err := plan.Resolve(c.targets, places())
		if err != nil || ids(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", name, ids(got), err, c.want)
		}
	}
}

func TestBadTargetsAreRefused(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 13 {
		many = append(many, fmt.Sprintf("X%02d", i))
	}
	for name, c := range map[string]struct {
		targets protocol.Targets
		places  []store.Place
		code    protocol.Code
		say     string
		hint    string
	}{
		"empty list":     {protocol.Targets{Stores: []string{}}, places(), protocol.CodeNoTargets, "the list of stores is empty", `name stores`},
		"nothing":        {protocol.Targets{}, places(), protocol.CodeNoTargets, "the list of stores is empty", `name stores`},
		"empty register": {protocol.Targets{All: true}, nil, protocol.CodeNoTargets, "the register holds no store", "add stores"},
		"no such label":  {protocol.Targets{Labels: "region=west"}, places(), protocol.CodeNoTargets, `no store has the labels "region=west"`, "operator lists them with: dispatcher stores list"},
		"unknown":        {protocol.Targets{Stores: []string{"SH_1", "SH_9", "SH_8", "SH_9"}}, places(), protocol.CodeUnknownStore, "no such store: SH_9, SH_8", "operator lists them with: dispatcher stores list"},
		"case":           {protocol.Targets{Stores: []string{"sh_1"}}, places(), protocol.CodeUnknownStore, "no such store: sh_1", "ids are compared exactly; did you mean SH_1?"},
		"number as text": {protocol.Targets{Stores: []string{"7"}}, places(), protocol.CodeUnknownStore, "no such store: 7", "compared exactly"},
		"many": {protocol.Targets{Stores: many}, places(), protocol.CodeUnknownStore,
			"no such store: X00, X01, X02, X03, X04, X05, X06, X07, X08, X09 and 3 more", "compared exactly"},
		"no comparison": {protocol.Targets{Labels: "region"}, places(), protocol.CodeSchema,
			`the label expression "region" is wrong at character 1: key=value or key!=value is expected`, "for example"},
		"second term": {protocol.Targets{Labels: "城=1, b"}, places(), protocol.CodeSchema,
			`the label expression "城=1, b" is wrong at character 1: the label's name must be of A-Z a-z 0-9 . _ -`, "for example"},
		"position counts characters": {protocol.Targets{Labels: "r=华东,  b"}, places(), protocol.CodeSchema,
			`the label expression "r=华东,  b" is wrong at character 8: key=value or key!=value is expected`, "for example"},
		"trailing comma": {protocol.Targets{Labels: "a=b,"}, places(), protocol.CodeSchema,
			`the label expression "a=b," is wrong at character 5: key=value or key!=value is expected`, "for example"},
		"two equals": {protocol.Targets{Labels: "a==b"}, places(), protocol.CodeSchema,
			`the label expression "a==b" is wrong at character 1: write = once`, "for example"},
		"no value": {protocol.Targets{Labels: "a!="}, places(), protocol.CodeSchema,
			`the label expression "a!=" is wrong at character 1: the label's value is empty or holds = or !`, "for example"},
		"long": {protocol.Targets{Labels: "a=" + strings.Repeat("b", 1000)}, places(), protocol.CodeSchema,
			`the label expression "a=bbb`, "for example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := plan.Resolve(c.targets, c.places)
			var refusal *protocol.Error
			if !errors.As(err, &refusal) {
				t.Fatalf("got %v", err)
			}
			if refusal.Code != c.code || !strings.HasPrefix(refusal.Message, c.say) || !strings.Contains(refusal.Hint, c.hint) {
				t.Errorf("got %s %q %q", refusal.Code, refusal.Message, refusal.Hint)
			}
			if refusal.MessageZh == "" || refusal.HintZh == "" || !strings.HasPrefix(refusal.Path, "/stores") {
				t.Errorf("messageZh %q, hintZh %q, path %q", refusal.MessageZh, refusal.HintZh, refusal.Path)
			}
		})
	}
}

func TestExpandFreezesTheRun(t *testing.T) {
	t.Parallel()
	barrier, attempts := 30, 4
	run, targets, tasks, err := expand(protocol.RunRequest{Reason: "why", Input: json.RawMessage(`{"date":"yesterday"}`),
		BarrierSeconds: &barrier, Attempts: &attempts})
	if err != nil {
		t.Fatal(err)
	}
	at := now().Truncate(time.Millisecond)
	policy := job.DefaultPolicy()
	policy.Barrier, policy.Attempts = 30*time.Second, 4
	want := store.Run{RunID: run.RunID, Job: "collect_log", JobVersion: 2, RequestedBy: "wang", Reason: "why",
		Input: json.RawMessage(`{"date":"yesterday"}`), Policy: policy, Columns: spec().Columns, Targets: 4,
		CreatedAt: at, BarrierAt: at.Add(30 * time.Second), MakeupUntil: at.Add(30*time.Second + 24*time.Hour)}
	if !reflect.DeepEqual(run, want) {
		t.Errorf("got  %+v\nwant %+v", run, want)
	}
	if ids(targets) != "007 1E5 SH_1 SH_2" || len(tasks) != 4 {
		t.Errorf("targets %s, %d tasks", ids(targets), len(tasks))
	}
	for i, task := range tasks {
		if task.StoreID != targets[i].StoreID || !protocol.ValidID(task.TaskID) || (i > 0 && task.TaskID <= tasks[i-1].TaskID) {
			t.Errorf("task %d: %+v", i, task)
		}
	}
	if !strings.HasPrefix(run.RunID, "20260916-233012-") || len(run.RunID) != 22 || !protocol.ValidID(run.RunID) {
		t.Errorf("run id %s", run.RunID)
	}
}

func TestAnAbsentInputIsAnEmptyObject(t *testing.T) {
	t.Parallel()
	run, _, _, err := expand(protocol.RunRequest{})
	if err != nil || string(run.Input) != "{}" {
		t.Errorf("got %s, %v", run.Input, err)
	}
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		request protocol.RunRequest
		path    string
	}{
		"attempts 0":       {protocol.RunRequest{Attempts: n(0)}, "/attempts"},
		"attempts 11":      {protocol.RunRequest{Attempts: n(11)}, "/attempts"},
		"barrier 0":        {protocol.RunRequest{BarrierSeconds: n(0)}, "/barrierSeconds"},
		"barrier too long": {protocol.RunRequest{BarrierSeconds: n(86_401)}, "/barrierSeconds"},
		"makeup":           {protocol.RunRequest{MakeupSeconds: n(-1)}, "/makeupSeconds"},
		"running":          {protocol.RunRequest{MaxRunning: n(-1)}, "/maxRunning"},
		"priority":         {protocol.RunRequest{Priority: n(101)}, "/priority"},
	} {
		_, _, _, err := expand(c.request)
		var refusal *protocol.Error
		if !errors.As(err, &refusal) || refusal.Code != protocol.CodeSchema || refusal.Path != c.path {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, request := range map[string]protocol.RunRequest{
		"least": {Attempts: n(1), BarrierSeconds: n(1), MakeupSeconds: n(0), MaxRunning: n(0), Priority: n(-100)},
		"most":  {Attempts: n(10), BarrierSeconds: n(86_400), MakeupSeconds: n(31 * 86_400), MaxRunning: n(100_000), Priority: n(100)},
	} {
		if _, _, _, err := expand(request); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdsAreUniqueAndGrow(t *testing.T) {
	t.Parallel()
	var many []store.Place
	for i := range 50_000 {
		many = append(many, store.Place{StoreID: fmt.Sprintf("S%06d", i)})
	}
	all := protocol.RunRequest{Stores: protocol.Targets{All: true}}
	run, _, tasks, err := plan.New(rand.Reader).Expand("wang", all, spec(), many, now())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(tasks, func(a, b store.NewTask) int { return strings.Compare(a.TaskID, b.TaskID) }) {
		t.Error("task ids do not grow")
	}
	seen := map[string]bool{}
	for _, task := range tasks {
		seen[task.TaskID] = true
	}
	if len(seen) != 50_000 {
		t.Errorf("%d ids of 50000", len(seen))
	}
	later, _, _, err := plan.New(rand.Reader).Expand("wang", all, spec(), places(), now().Add(time.Millisecond))
	if err != nil || later.RunID <= run.RunID {
		t.Errorf("%s after %s, %v", later.RunID, run.RunID, err)
	}
}

func TestLostEntropyIsAnError(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 4} {
		planner := plan.New(bytes.NewReader(make([]byte, n)))
		if _, _, _, err := planner.Expand("wang", protocol.RunRequest{Stores: protocol.Targets{All: true}}, spec(), places(), now()); err == nil {
			t.Errorf("%d bytes of entropy made a plan", n)
		}
	}
}
