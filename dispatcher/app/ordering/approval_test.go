package ordering_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
)

// careful makes the job one that needs a second person.
func careful(c *trigger.Config) { changed(c, func(*job.Spec) {}) }

// changed is careful with another change of the job.
func changed(c *trigger.Config, change func(*job.Spec)) {
	spec, _ := c.Jobs.Get("collect_log")
	spec.Approval, spec.Digest = true, "0a"
	change(&spec)
	c.Jobs = job.NewRegistry(spec)
}

// say sends one message as the broker hands it over and returns everything that
// was published.
func (d *desk) say(user string, verb protocol.Verb, in transport.Inbound) []steptest.Sent {
	d.t.Helper()
	d.Broker.Forget()
	if err := d.trigger.Handle(d.t.Context(), request(user, verb), in); err != nil {
		d.t.Fatalf("not acknowledged: %v", err)
	}
	return d.Broker.Sent()
}

// as asks in a user's name; told is what wang, who asked, gets beside it.
func (d *desk) as(user string, verb protocol.Verb, payload string) (reply protocol.Reply, told *protocol.Reply) {
	d.t.Helper()
	sent := d.say(user, verb, transport.Inbound{Payload: []byte(payload), ResponseTopic: "muster/v1/rep/" + user + "/box"})
	for _, s := range sent {
		switch s.Topic {
		case "muster/v1/rep/" + user + "/box":
			reply = d.reply(s)
		case "muster/v1/rep/wang/last":
			one := d.reply(s)
			told = &one
		default:
			d.t.Errorf("something on %s", s.Topic)
		}
	}
	return reply, told
}

// asked orders the careful job and returns the refusal that names the approval.
func (d *desk) asked(payload string) protocol.Reply {
	d.t.Helper()
	reply := d.ask(protocol.VerbRun, payload)
	if reply.Code != protocol.CodeNeedsApproval || reply.OK || reply.ApprovalID == "" || len(reply.ContentHash) != 64 || reply.Hint == "" {
		d.t.Fatalf("got %+v", reply)
	}
	return reply
}

func word(r protocol.Reply, decision string) string {
	return `{"approvalId":"` + r.ApprovalID + `","contentHash":"` + r.ContentHash + `","decision":"` + decision + `"}`
}

const order = `{"requestId":"r1","job":"collect_log","stores":"all","reason":"new tariff"}`

func TestARunThatNeedsASecondPersonBeginsWithTheirWord(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	if !asked.ExpiresAt.Equal(d.clock().Add(time.Hour)) || asked.Stores != 3 || asked.RequestID != "r1" || d.runs() != 0 {
		t.Errorf("got %+v, %d runs", asked, d.runs())
	}
	if again := d.asked(order); again.ApprovalID != asked.ApprovalID || again.ContentHash != asked.ContentHash {
		t.Errorf("asked again: %+v", again)
	}
	if other := d.ask(protocol.VerbRun, strings.Replace(order, `"all"`, `["007"]`, 1)); other.Code != protocol.CodeConflict {
		t.Errorf("other content under the same id: %+v", other)
	}
	list, _ := d.as("chen", protocol.VerbStatus, `{"approvals":true}`)
	if len(list.Approvals) != 1 || list.Approvals[0].Requester != "wang" || list.Approvals[0].Job != "collect_log" ||
		list.Approvals[0].Reason != "new tariff" || list.Approvals[0].ContentHash != asked.ContentHash {
		t.Errorf("those that wait: %+v", list.Approvals)
	}
	d.pass(59 * time.Minute)
	reply, told := d.as("chen", protocol.VerbApprove, word(asked, "approve"))
	if !reply.OK || reply.RunID == "" || *reply.Duplicate || reply.ApprovalID != asked.ApprovalID || reply.Stores != 3 {
		t.Fatalf("approved: %+v", reply)
	}
	if told == nil || !told.OK || told.RunID != reply.RunID || told.RequestID != "r1" || told.Watch == "" {
		t.Errorf("the requester is told %+v", told)
	}
	run, err := d.Store.GetRun(t.Context(), reply.RunID)
	if err != nil || run.RequestedBy != "wang" || run.ApprovedBy != "chen" || run.Reason != "new tariff" || !run.CreatedAt.Equal(d.clock()) {
		t.Errorf("got %+v, %v", run, err)
	}
	again, told := d.as("li", protocol.VerbApprove, word(asked, "approve"))
	if !again.OK || again.RunID != reply.RunID || !*again.Duplicate || told != nil {
		t.Errorf("approved again: %+v, told %+v", again, told)
	}
	if late, _ := d.as("li", protocol.VerbApprove, word(asked, "reject")); late.Code != protocol.CodeConflict || !strings.Contains(late.Message, "approved by chen") {
		t.Errorf("rejected after that: %+v", late)
	}
	if first := d.ask(protocol.VerbRun, order); !first.OK || first.RunID != reply.RunID || !*first.Duplicate {
		t.Errorf("the request again: %+v", first)
	}
	shown, _ := d.as("wang", protocol.VerbStatus, `{"approvalId":"`+asked.ApprovalID+`"}`)
	if a := shown.Approval; a == nil || a.State != "approved" || a.DecidedBy != "chen" || a.RunID != reply.RunID || !strings.Contains(string(a.Request), "new tariff") {
		t.Errorf("shown %+v", shown.Approval)
	}
	if d.runs() != 1 {
		t.Errorf("%d runs", d.runs())
	}
}

// S36, first half.
func TestNobodyApprovesTheirOwnRequest(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	for _, name := range []string{"wang", "Wang", "WANG"} {
		for _, decision := range []string{"approve", "reject"} {
			if reply, _ := d.as(name, protocol.VerbApprove, word(asked, decision)); reply.Code != protocol.CodeNotAllowed {
				t.Errorf("%s, %s: %+v", name, decision, reply)
			}
		}
	}
	if d.runs() != 0 {
		t.Errorf("%d runs", d.runs())
	}
	if reply, _ := d.as("chen", protocol.VerbApprove, word(asked, "approve")); !reply.OK {
		t.Errorf("another person: %+v", reply)
	}
}

// S36, second half: what is approved is what was asked for, or nothing.
func TestAChangeAfterTheAskingMakesTheApprovalVoid(t *testing.T) {
	t.Parallel()
	east := []store.Place{{StoreID: "007", Name: "seven", TimeZone: "UTC"}, {StoreID: "1E5", Name: "exp", TimeZone: "UTC"}}
	same := func(*job.Spec) {}
	for name, c := range map[string]struct {
		job    func(*job.Spec)
		people *people.People
		places []store.Place
		say    string
	}{
		"nothing":               {job: same},
		"the job's file":        {job: func(s *job.Spec) { s.Digest = "0b" }, say: "not those that were asked for"},
		"the job's version":     {job: func(s *job.Spec) { s.Version = 2 }, say: "not those that were asked for"},
		"the policy":            {job: func(s *job.Spec) { s.Policy.Attempts = 9 }, say: "not those that were asked for"},
		"the job is gone":       {job: func(s *job.Spec) { s.Name = "other" }, say: "no such job"},
		"a store is retired":    {job: same, places: east, say: "not those that were asked for"},
		"every store's gone":    {job: same, places: []store.Place{}, say: "holds no store"},
		"the requester's role":  {job: same, people: listed(t, false, people.Person{Name: "chen", Role: people.Approver}, people.Person{Name: "wang", Role: people.Developer}), say: "may not ask for run"},
		"the requester is gone": {job: same, people: listed(t, false, people.Person{Name: "chen", Role: people.Approver}), say: "knows no user wang"},
		"the requester's stores": {job: same, people: listed(t, false, people.Person{Name: "chen", Role: people.Approver},
			people.Person{Name: "wang", Role: people.Technician, Stores: protocol.Targets{Stores: []string{"007"}}}), say: "not a store of wang"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t, careful)
			asked := d.asked(order)
			d.trigger.Stop()
			d.Close()
			d.open(func(cfg *trigger.Config) { changed(cfg, c.job); cfg.People = c.people })
			if c.places != nil {
				if _, _, _, err := d.Store.ReplacePlaces(t.Context(), "", c.places, d.clock()); err != nil {
					t.Fatal(err)
				}
			}
			reply, told := d.as("chen", protocol.VerbApprove, word(asked, "approve"))
			if c.say == "" {
				if !reply.OK || d.runs() != 1 {
					t.Errorf("got %+v, %d runs", reply, d.runs())
				}
				return
			}
			if reply.Code != protocol.CodeConflict || !strings.Contains(reply.Message, c.say) || d.runs() != 0 {
				t.Errorf("got %s %q, %d runs", reply.Code, reply.Message, d.runs())
			}
			if told == nil || told.Code != protocol.CodeConflict || told.ApprovalID != asked.ApprovalID || told.RequestID != "r1" {
				t.Errorf("the requester is told %+v", told)
			}
			if reply, _ = d.as("chen", protocol.VerbApprove, word(asked, "approve")); reply.Code != protocol.CodeConflict || d.runs() != 0 {
				t.Errorf("approved again: %+v", reply)
			}
			if a, err := d.Store.GetApproval(t.Context(), asked.ApprovalID); err != nil || a.State != store.ApprovalVoid || a.DecidedBy != "chen" {
				t.Errorf("it is %+v, %v", a, err)
			}
		})
	}
}

func TestWhoApprovesSaysWhat(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	other := asked
	other.ContentHash = strings.Repeat("0", 64)
	if reply, _ := d.as("chen", protocol.VerbApprove, word(other, "approve")); reply.Code != protocol.CodeConflict || reply.Path != "/contentHash" || d.runs() != 0 {
		t.Errorf("got %+v", reply)
	}
	if reply, _ := d.as("chen", protocol.VerbApprove, word(asked, "approve")); !reply.OK {
		t.Errorf("then the right one: %+v", reply)
	}
}

func TestARejectedRequestMakesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	payload := strings.Replace(word(asked, "reject"), "}", `,"reason":"not today"}`, 1)
	reply, told := d.as("chen", protocol.VerbApprove, payload)
	if !reply.OK || reply.RunID != "" || *reply.Duplicate {
		t.Errorf("got %+v", reply)
	}
	if told == nil || told.OK || told.Code != protocol.CodeNotAllowed || !strings.Contains(told.Message, "chen rejected it: not today") {
		t.Errorf("the requester is told %+v", told)
	}
	if reply, told = d.as("li", protocol.VerbApprove, payload); !reply.OK || !*reply.Duplicate || told != nil {
		t.Errorf("rejected again: %+v", reply)
	}
	if reply, _ = d.as("li", protocol.VerbApprove, word(asked, "approve")); reply.Code != protocol.CodeConflict {
		t.Errorf("approved after that: %+v", reply)
	}
	if same := d.ask(protocol.VerbRun, order); same.Code != protocol.CodeConflict || same.Path != "/requestId" || !strings.Contains(same.Message, "rejected: not today") {
		t.Errorf("sent again: %+v", same)
	}
	if again := d.asked(strings.Replace(order, "r1", "r2", 1)); again.ApprovalID == asked.ApprovalID || d.runs() != 0 {
		t.Errorf("asked anew: %+v, %d runs", again, d.runs())
	}
}

func TestAnApprovalWaitsForAnHour(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	d.pass(time.Hour)
	if list, _ := d.as("chen", protocol.VerbStatus, `{"approvals":true}`); len(list.Approvals) != 0 || list.Message == "" {
		t.Errorf("it still waits: %+v", list)
	}
	if shown, _ := d.as("chen", protocol.VerbStatus, `{"approvalId":"`+asked.ApprovalID+`"}`); shown.Approval.State != "expired" {
		t.Errorf("it is %s", shown.Approval.State)
	}
	reply, told := d.as("chen", protocol.VerbApprove, word(asked, "approve"))
	if reply.Code != protocol.CodeExpired || told == nil || told.Code != protocol.CodeExpired || d.runs() != 0 {
		t.Errorf("got %+v, told %+v", reply, told)
	}
	if same := d.ask(protocol.VerbRun, order); same.Code != protocol.CodeConflict || !strings.Contains(same.Message, "which is expired") {
		t.Errorf("sent again: %+v", same)
	}
	if again := d.asked(strings.Replace(order, "r1", "r2", 1)); again.ApprovalID == asked.ApprovalID {
		t.Error("what expired is asked for again under the same approval")
	}
	if reply, _ = d.as("chen", protocol.VerbApprove, word(asked, "approve")); reply.Code != protocol.CodeExpired {
		t.Errorf("the old one again: %+v", reply)
	}
}

func TestARequestWithoutIdWaitsOnce(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	const bare = `{"job":"collect_log","stores":"all"}`
	asked := d.asked(bare)
	d.pass(50 * time.Minute)
	if again := d.asked(bare); again.ApprovalID != asked.ApprovalID {
		t.Errorf("got %+v", again)
	}
	reply, told := d.as("chen", protocol.VerbApprove, word(asked, "approve"))
	if !reply.OK || told == nil || told.RequestID != "" {
		t.Errorf("got %+v, told %+v", reply, told)
	}
	if again := d.asked(bare); again.ApprovalID == asked.ApprovalID {
		t.Errorf("after it was decided: %+v", again)
	}
}

func TestOnlyManyStoresNeedASecondPerson(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) { c.Bounds.ApprovalOver = 2 })
	if reply := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["007","1E5"]}`); !reply.OK {
		t.Errorf("two stores: %+v", reply)
	}
	d.asked(`{"job":"collect_log","stores":["007","1E5","SH_1"]}`)
	if d.runs() != 1 {
		t.Errorf("%d runs", d.runs())
	}
}

func TestNobodyFillsTheListOfThoseThatWait(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) { c.Bounds.ApprovalOver = 2 })
	for i := range 20 {
		d.asked(`{"job":"collect_log","stores":"all","priority":` + string(rune('0'+i%10)) + `,"attempts":` + string(rune('1'+i/10)) + `}`)
	}
	if reply := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all","priority":50}`); reply.Code != protocol.CodeRateLimited {
		t.Errorf("got %+v", reply)
	}
	if reply := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["007"]}`); !reply.OK {
		t.Errorf("what needs no approval: %+v", reply)
	}
	d.pass(time.Hour)
	d.asked(`{"job":"collect_log","stores":"all","priority":50}`)
}

// TestTwoApproversMakeOneRun lets them speak at once, through one headquarters
// and through two over the same database.
func TestTwoApproversMakeOneRun(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	second := d.another(careful)
	for i := range 10 {
		asked := d.asked(strings.Replace(order, "r1", "r"+string(rune('a'+i)), 1))
		d.Broker.Forget()
		var wg sync.WaitGroup
		for j, who := range []string{"chen", "li", "zhao", "sun"} {
			desk := []*trigger.Trigger{d.trigger, second}[j%2]
			wg.Go(func() {
				in := transport.Inbound{Payload: []byte(word(asked, "approve")), ResponseTopic: "muster/v1/rep/" + who + "/box"}
				if err := desk.Handle(t.Context(), request(who, protocol.VerbApprove), in); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		runs, made := map[string]bool{}, 0
		for _, s := range d.Broker.Sent() {
			reply := d.reply(s)
			runs[reply.RunID] = true
			if strings.HasSuffix(s.Topic, "/box") && !*reply.Duplicate {
				made++
			}
			if !reply.OK {
				t.Errorf("got %+v", reply)
			}
		}
		if len(runs) != 1 || made != 1 || d.runs() != i+1 {
			t.Fatalf("%v, made %d times, %d runs", runs, made, d.runs())
		}
	}
}

// TestAnApprovalIsApprovedOrExpired lets both happen at once.
func TestAnApprovalIsApprovedOrExpired(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	seen := map[bool]int{}
	for i := range 30 {
		asked := d.asked(strings.Replace(order, "r1", "e"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1))
		end, before := asked.ExpiresAt.Time, d.runs()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := d.Store.DecideApproval(context.WithoutCancel(t.Context()), asked.ApprovalID, "headquarters", store.ApprovalExpired, "late", end)
			if err != nil && !errors.Is(err, store.ErrDecided) {
				t.Error(err)
			}
		})
		reply, _ := d.as("chen", protocol.VerbApprove, word(asked, "approve"))
		wg.Wait()
		a, err := d.Store.GetApproval(t.Context(), asked.ApprovalID)
		if err != nil {
			t.Fatal(err)
		}
		made := d.runs() - before
		if reply.OK != (a.State == store.ApprovalApproved) || reply.OK != (made == 1) || !reply.OK && (reply.Code != protocol.CodeExpired || made != 0) {
			t.Fatalf("replied %+v, it is %s, %d runs", reply, a.State, made)
		}
		seen[reply.OK]++
	}
	t.Logf("approved %d, expired %d", seen[true], seen[false])
}

func TestKeysAreRotatedByTwoPersons(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var rotated []store.Approval
	d := setup(t, func(c *trigger.Config) {
		c.Approved = func(_ context.Context, a store.Approval) error {
			mu.Lock()
			defer mu.Unlock()
			rotated = append(rotated, a)
			return nil
		}
	})
	id, hash, err := d.trigger.AskKeys(t.Context(), "host:chen", false)
	if err != nil {
		t.Fatal(err)
	}
	if again, sum, err := d.trigger.AskKeys(t.Context(), "host:chen", false); err != nil || again != id || sum != hash {
		t.Errorf("asked again: %s, %v", again, err)
	}
	asked := protocol.Reply{ApprovalID: id, ContentHash: hash}
	for _, self := range []string{"chen", "Chen"} {
		if reply, _ := d.as(self, protocol.VerbApprove, word(asked, "approve")); reply.Code != protocol.CodeNotAllowed {
			t.Errorf("%s approves for host:chen: %+v", self, reply)
		}
	}
	var wg sync.WaitGroup
	for _, who := range []string{"li", "zhao"} {
		wg.Go(func() {
			in := transport.Inbound{Payload: []byte(word(asked, "approve"))}
			if err := d.trigger.Handle(t.Context(), request(who, protocol.VerbApprove), in); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(rotated) != 1 || rotated[0].ApprovalID != id || rotated[0].Requester != "host:chen" || rotated[0].Kind != store.ApprovalKeys {
		t.Errorf("rotated %+v", rotated)
	}
	if shown, _ := d.as("li", protocol.VerbStatus, `{"approvalId":"`+id+`"}`); shown.Approval.State != "approved" || shown.Approval.Kind != "keys" {
		t.Errorf("shown %+v", shown.Approval)
	}
	if next, _, err := d.trigger.AskKeys(t.Context(), "host:chen", false); err != nil || next == id {
		t.Errorf("asked after that: %s, %v", next, err)
	}
}

func TestKeysThatCannotBeRotatedAreNotAskedFor(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if _, _, err := d.trigger.AskKeys(t.Context(), "host:chen", false); err == nil {
		t.Error("it was asked for")
	}
	d.trigger.Stop()
	if list, err := d.Store.ListApprovals(t.Context(), false); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
