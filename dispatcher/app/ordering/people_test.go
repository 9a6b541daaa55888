package ordering_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/internal/trust"
)

func listed(t *testing.T, signed bool, persons ...people.Person) *people.People {
	t.Helper()
	p, err := people.New(people.Config{Persons: persons, RequireSigned: signed})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// another is a second headquarters over the same database, as while one
// replaces the other.
func (d *desk) another(tune ...func(*trigger.Config)) *trigger.Trigger {
	d.t.Helper()
	cfg := d.trigger.Config
	for _, f := range tune {
		f(&cfg)
	}
	second, err := trigger.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := second.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	return second
}

func payloadOf(verb protocol.Verb) string {
	switch verb {
	case protocol.VerbRun:
		return `{"job":"collect_log","stores":["007"]}`
	case protocol.VerbCancel, protocol.VerbRetry:
		return `{"runId":"nope"}`
	case protocol.VerbApprove:
		return `{"approvalId":"nope","contentHash":"` + strings.Repeat("0", 64) + `","decision":"approve"}`
	case protocol.VerbStatus, protocol.VerbJobs, protocol.VerbHelp:
	}
	return `{"approvals":true}`
}

func allVerbs() []protocol.Verb {
	return []protocol.Verb{protocol.VerbRun, protocol.VerbCancel, protocol.VerbStatus, protocol.VerbRetry, protocol.VerbApprove, protocol.VerbJobs, protocol.VerbHelp}
}

// TestARoleAsksForItsVerbsAlone tries every role with every verb, and a
// stranger.
func TestARoleAsksForItsVerbsAlone(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) {
		var persons []people.Person
		for _, role := range people.Roles() {
			persons = append(persons, people.Person{Name: string(role), Role: role, Stores: protocol.Targets{All: true}})
		}
		c.People, c.TechnicianBurst = listed(t, false, persons...), 100
	})
	for _, role := range append(people.Roles(), "stranger") {
		for _, verb := range allVerbs() {
			before := d.trigger.Refused()
			reply, _ := d.as(string(role), verb, payloadOf(verb))
			has := slices.Contains(role.Verbs(), verb)
			refused := reply.Code == protocol.CodeNotAllowed && (strings.Contains(reply.Message, "may not ask for "+string(verb)) || role == "stranger" && strings.Contains(reply.Message, "knows no user"))
			if refused == has || refused && (reply.Hint == "" || d.trigger.Refused() != before+1) {
				t.Errorf("%s, %s: has it %v, got %+v", role, verb, has, reply)
			}
		}
		if role == people.Developer {
			help, _ := d.as(string(role), protocol.VerbHelp, `{}`)
			if all := strings.Join(help.Usage, "\n"); strings.Contains(all, "/run ") || !strings.Contains(all, "/status ") {
				t.Errorf("help of %s: %s", role, all)
			}
		}
	}
	if d.runs() != 2 { // a technician's and an operator's
		t.Errorf("%d runs", d.runs())
	}
}

func TestNobodyAsksInTheNameOfAnother(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for from, topic := range map[string]string{"li": "muster/v1/rep/li/last", "Wang": "muster/v1/rep/Wang/last", "007/pos": ""} {
		sent := d.say("wang", protocol.VerbRun, transport.Inbound{Payload: []byte(order), User: from, ResponseTopic: "muster/v1/rep/wang/box"})
		switch {
		case topic == "" && len(sent) != 0:
			t.Errorf("%s: answered on %s", from, sent[0].Topic)
		case topic != "" && (len(sent) != 1 || sent[0].Topic != topic || d.reply(sent[0]).Code != protocol.CodeNotAllowed):
			t.Errorf("%s: %d messages", from, len(sent))
		}
	}
	if d.trigger.Refused() != 3 || d.runs() != 0 {
		t.Errorf("%d refused, %d runs", d.trigger.Refused(), d.runs())
	}
	sent := d.say("wang", protocol.VerbRun, transport.Inbound{Payload: []byte(order), User: "wang"})
	if len(sent) != 1 || !d.reply(sent[0]).OK {
		t.Errorf("their own: %d messages", len(sent))
	}
}

func TestATechnicianOrdersTheirOwnStoresAndJobsAlone(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) {
		c.TechnicianBurst = 1000
		c.People = listed(t, false,
			people.Person{Name: "wang", Role: people.Technician, Stores: protocol.Targets{Labels: "region=east"}},
			people.Person{Name: "li", Role: people.Technician, Stores: protocol.Targets{Stores: []string{"007", "007", "GONE", "GONE2"}}},
			people.Person{Name: "zhao", Role: people.Technician, Stores: protocol.Targets{All: true}, Jobs: []string{"other"}},
			people.Person{Name: "sun", Role: people.Technician, Stores: protocol.Targets{All: true}, Jobs: []string{"collect_log"}},
			people.Person{Name: "none", Role: people.Technician},
			people.Person{Name: "olga", Role: people.Operator},
		)
	})
	const theirs = `{"job":"collect_log","stores":`
	for _, c := range []struct{ user, stores, path, say string }{
		{"wang", `"all"}`, "/stores", "not a store of wang: 1E5; nothing was done"},
		{"wang", `["007","SH_1"]}`, "", ""},
		{"wang", `["007","1E5"]}`, "/stores", "not a store of wang: 1E5"},
		{"wang", `{"labels":"region!=west"}}`, "", ""},
		{"li", `["007"]}`, "", ""},
		{"li", `"all"}`, "/stores", "not a store of li: 1E5, SH_1"},
		{"zhao", `["007"]}`, "/job", "zhao may not order the job collect_log"},
		{"sun", `"all"}`, "", ""},
		{"none", `["007"]}`, "/stores", "not a store of none: 007"},
		{"olga", `"all"}`, "", ""},
	} {
		before := d.runs()
		reply, _ := d.as(c.user, protocol.VerbRun, theirs+c.stores)
		if c.say == "" {
			if !reply.OK || d.runs() != before+1 {
				t.Errorf("%s, %s: %+v", c.user, c.stores, reply)
			}
			continue
		}
		if reply.Code != protocol.CodeNotAllowed || reply.Path != c.path || !strings.HasPrefix(reply.Message, c.say) || reply.Hint == "" || d.runs() != before {
			t.Errorf("%s, %s: %+v", c.user, c.stores, reply)
		}
	}
}

func TestATechnicianCancelsWhatTheyCouldHaveOrdered(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) {
		c.TechnicianBurst = 1000
		c.People = listed(t, false,
			people.Person{Name: "wang", Role: people.Technician, Stores: protocol.Targets{Labels: "region=east"}},
			people.Person{Name: "li", Role: people.Technician, Stores: protocol.Targets{Stores: []string{"007", "007", "007"}}},
			people.Person{Name: "zhao", Role: people.Technician, Stores: protocol.Targets{All: true}, Jobs: []string{"other"}},
			people.Person{Name: "olga", Role: people.Operator})
	})
	everywhere, _ := d.as("olga", protocol.VerbRun, `{"job":"collect_log","stores":"all"}`)
	east, _ := d.as("olga", protocol.VerbRun, `{"job":"collect_log","stores":["007","SH_1"]}`)
	seven, _ := d.as("olga", protocol.VerbRun, `{"job":"collect_log","stores":["007"]}`)
	for _, c := range []struct {
		user   string
		runID  string
		stores string
		ok     bool
	}{
		{"wang", everywhere.RunID, "", false},
		{"wang", everywhere.RunID, `,"stores":["007"]`, false},
		{"li", everywhere.RunID, `,"stores":["007"]`, false},
		{"li", east.RunID, "", false},
		{"zhao", seven.RunID, "", false},
		{"li", seven.RunID, "", true},
		{"wang", east.RunID, `,"stores":["007"]`, true},
		{"olga", everywhere.RunID, "", true},
	} {
		reply, _ := d.as(c.user, protocol.VerbCancel, `{"runId":"`+c.runID+`"`+c.stores+`}`)
		if reply.OK != c.ok || !c.ok && (reply.Code != protocol.CodeNotAllowed || reply.Path != "/runId") {
			t.Errorf("%s, %s: %+v", c.user, c.runID, reply)
		}
	}
	if tasks, err := d.Store.GetTaskOf(t.Context(), east.RunID, "SH_1"); err != nil || tasks[0].State.Status != task.Pending {
		t.Errorf("got %+v, %v", tasks, err)
	}
}

// signed is a person with a key, and what signs for them.
func signed(t *testing.T, name string, role people.Role) (people.Person, *trust.Signer) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return people.Person{Name: name, Role: role, Key: public}, trust.NewSigner(private)
}

// until puts a deadline into a request.
func until(payload string, deadline time.Time) []byte {
	return fmt.Appendf(nil, `{"deadline":%d,%s`, deadline.UnixMilli(), payload[1:])
}

// S11: over a broker that is not ours, whoever catches a request and sends it
// again gains nothing, however late and however often.
func TestACaughtRequestMakesNoSecondRun(t *testing.T) {
	t.Parallel()
	wang, signer := signed(t, "wang", people.Operator)
	li, _ := signed(t, "li", people.Operator)
	bare := people.Person{Name: "bare", Role: people.Operator}
	d := setup(t)
	reopen := func() {
		d.trigger.Stop()
		d.Close()
		d.open(func(c *trigger.Config) { c.People = listed(t, true, wang, li, bare) })
	}
	reopen()
	topic := "muster/v1/req/wang/run"
	caught := until(order, d.clock().Add(10*time.Minute))
	in := transport.Inbound{Topic: topic, Payload: caught, Signature: signer.Sign(topic, caught)}
	first := d.reply(d.say("wang", protocol.VerbRun, in)[0])
	if !first.OK || *first.Duplicate {
		t.Fatalf("got %+v", first)
	}
	for range 5 {
		d.pass(26 * time.Hour)
		reopen()
		again := d.reply(d.say("wang", protocol.VerbRun, in)[0])
		if !again.OK || again.RunID != first.RunID || !*again.Duplicate {
			t.Errorf("again: %+v", again)
		}
	}
	other := bytes.Replace(in.Payload, []byte("r1"), []byte("r2"), 1)
	anonymous := []byte(`{"job":"collect_log","stores":"all"}`)
	for name, c := range map[string]struct {
		user      string
		verb      protocol.Verb
		payload   []byte
		signature trust.Signature
		code      protocol.Code
	}{
		"another id":         {"wang", protocol.VerbRun, other, in.Signature, protocol.CodeNotAllowed},
		"unsigned":           {"wang", protocol.VerbRun, other, trust.Signature{}, protocol.CodeNotAllowed},
		"another user":       {"li", protocol.VerbRun, in.Payload, in.Signature, protocol.CodeNotAllowed},
		"no key":             {"bare", protocol.VerbRun, in.Payload, in.Signature, protocol.CodeNotAllowed},
		"nobody":             {"nobody", protocol.VerbRun, in.Payload, in.Signature, protocol.CodeNotAllowed},
		"as another verb":    {"wang", protocol.VerbCancel, in.Payload, in.Signature, protocol.CodeNotAllowed},
		"unsigned cancel":    {"wang", protocol.VerbCancel, []byte(`{"runId":"` + first.RunID + `"}`), trust.Signature{}, protocol.CodeNotAllowed},
		"unsigned approve":   {"wang", protocol.VerbApprove, []byte(payloadOf(protocol.VerbApprove)), trust.Signature{}, protocol.CodeNotAllowed},
		"signed, without id": {"wang", protocol.VerbRun, anonymous, signer.Sign(topic, anonymous), protocol.CodeSchema},
	} {
		reply := d.reply(d.say(c.user, c.verb, transport.Inbound{Payload: c.payload, Signature: c.signature})[0])
		if reply.OK || reply.Code != c.code || reply.Hint == "" {
			t.Errorf("%s: %+v", name, reply)
		}
	}
	if reply := d.reply(d.say("wang", protocol.VerbStatus, transport.Inbound{Payload: []byte(`{"runId":"` + first.RunID + `"}`)})[0]); !reply.OK {
		t.Errorf("a question needs no signature: %+v", reply)
	}
	cancel := until(`{"runId":"`+first.RunID+`"}`, d.clock().Add(time.Minute))
	if reply := d.reply(d.say("wang", protocol.VerbCancel, transport.Inbound{Payload: cancel, Signature: signer.Sign("muster/v1/req/wang/cancel", cancel)})[0]); !reply.OK {
		t.Errorf("a signed cancel: %+v", reply)
	}
	if d.runs() > 1 {
		t.Errorf("%d runs", d.runs())
	}
}

// S13: a thousand triggers in a minute.
func TestAThousandTriggersAMinuteAreMostlyRefused(t *testing.T) {
	t.Parallel()
	for role, most := range map[people.Role]int{people.Technician: 10 + 60, people.Operator: 20 + 300, people.Approver: 20 + 300, "stranger": 0} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			d := setup(t, func(c *trigger.Config) {
				c.Rate, c.Burst = 0, 0
				persons := []people.Person{{Name: "sun", Role: people.Technician}}
				if role != "stranger" {
					persons = append(persons, people.Person{Name: "wang", Role: role, Stores: protocol.Targets{All: true}})
				}
				c.People = listed(t, false, persons...)
			})
			verb, payload := protocol.VerbRun, `{"job":"collect_log","stores":["007"]}`
			if role == people.Approver {
				verb, payload = protocol.VerbApprove, payloadOf(protocol.VerbApprove)
			}
			limited, passed := 0, 0
			for range 1000 {
				d.pass(60 * time.Millisecond)
				switch reply := d.ask(verb, payload); {
				case reply.Code == protocol.CodeRateLimited:
					limited++
				case reply.OK || reply.Code == protocol.CodeNotFound:
					passed++
				case reply.Code != protocol.CodeNotAllowed:
					t.Fatalf("got %+v", reply)
				}
			}
			if passed > most || limited < 600 || d.trigger.Refused() < int64(limited) || d.runs() > 2 {
				t.Errorf("passed %d, at most %d; limited %d; %d runs", passed, most, limited, d.runs())
			}
			if role == people.Technician && limited < 900 {
				t.Errorf("only %d of a technician were held back", limited)
			}
			if reply, _ := d.as("sun", protocol.VerbJobs, `{}`); !reply.OK {
				t.Errorf("another user: %+v", reply)
			}
		})
	}
}

// TestARestartChangesNoApproval: what waits lies in the database.
func TestARestartChangesNoApproval(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	for range 2 {
		d.trigger.Stop()
		d.Close()
		d.pass(time.Minute)
		d.open(careful)
		if again := d.asked(order); again.ApprovalID != asked.ApprovalID {
			t.Errorf("asked again: %+v", again)
		}
	}
	reply, _ := d.as("chen", protocol.VerbApprove, word(asked, "approve"))
	if !reply.OK {
		t.Fatalf("got %+v", reply)
	}
	d.trigger.Stop()
	d.Close()
	d.open(careful)
	if again, _ := d.as("chen", protocol.VerbApprove, word(asked, "approve")); again.RunID != reply.RunID {
		t.Errorf("approved again: %+v", again)
	}
	if a, err := d.Store.GetApproval(t.Context(), asked.ApprovalID); err != nil || a.State != store.ApprovalApproved || a.RunID != reply.RunID {
		t.Errorf("it is %+v, %v", a, err)
	}
}

func TestOnlyWhoMayDecideSeesAllThatWaits(t *testing.T) {
	t.Parallel()
	d := setup(t, careful, func(c *trigger.Config) {
		c.People = listed(t, false, people.Person{Name: "wang", Role: people.Operator}, people.Person{Name: "li", Role: people.Operator},
			people.Person{Name: "chen", Role: people.Approver})
	})
	d.asked(order)
	for user, want := range map[string]int{"wang": 1, "li": 0, "chen": 1} {
		if list, _ := d.as(user, protocol.VerbStatus, `{"approvals":true}`); len(list.Approvals) != want {
			t.Errorf("%s sees %+v", user, list.Approvals)
		}
	}
}
