package ordering_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// office is a desk that believes no broker, with what signs for its people.
type office struct {
	*desk
	signers map[string]*trust.Signer
}

func signedOffice(t *testing.T, tune ...func(*trigger.Config)) *office {
	t.Helper()
	wang, one := signed(t, "wang", people.Operator)
	chen, two := signed(t, "chen", people.Approver)
	tune = append(tune, func(c *trigger.Config) { c.People = listed(t, true, wang, chen) })
	return &office{desk: setup(t, tune...), signers: map[string]*trust.Signer{"wang": one, "chen": two}}
}

// sends signs a request and returns the reply that its user gets.
func (o *office) sends(user string, verb protocol.Verb, payload []byte) protocol.Reply {
	o.t.Helper()
	topic, box := "muster/v1/req/"+user+"/"+string(verb), "muster/v1/rep/"+user+"/box"
	for _, s := range o.say(user, verb, transport.Inbound{Payload: payload, Signature: o.signers[user].Sign(topic, payload), ResponseTopic: box}) {
		if s.Topic == box {
			return o.reply(s)
		}
	}
	o.t.Fatal("no reply")
	return protocol.Reply{}
}

// A broker that is not believed may keep a signed request and deliver it later.
func TestASignedRequestDoesNotLast(t *testing.T) {
	t.Parallel()
	o := signedOffice(t)
	first := o.sends("wang", protocol.VerbRun, until(`{"requestId":"r0","job":"collect_log","stores":"all"}`, o.clock().Add(15*time.Minute)))
	if !first.OK {
		t.Fatalf("15 minutes ahead: %+v", first)
	}
	for verb, payload := range map[protocol.Verb]string{
		protocol.VerbRun:     `{"requestId":"r1","job":"collect_log","stores":"all"}`,
		protocol.VerbCancel:  `{"runId":"` + first.RunID + `"}`,
		protocol.VerbApprove: `{"requestId":"a1","approvalId":"ap-1","contentHash":"` + strings.Repeat("0", 64) + `","decision":"approve"}`,
	} {
		user := "wang"
		if verb == protocol.VerbApprove {
			user = "chen"
		}
		for name, c := range map[string]struct {
			payload []byte
			code    protocol.Code
		}{
			"no deadline": {[]byte(payload), protocol.CodeSchema},
			"far ahead":   {until(payload, o.clock().Add(15*time.Minute+time.Millisecond)), protocol.CodeSchema},
			"over":        {until(payload, o.clock().Add(-time.Millisecond)), protocol.CodeExpired},
		} {
			reply := o.sends(user, verb, c.payload)
			if reply.OK || reply.Code != c.code || reply.Path != "/deadline" || reply.Hint == "" || reply.MessageZh == "" {
				t.Errorf("%s, %s: %+v", verb, name, reply)
			}
		}
	}
	if o.runs() != 1 {
		t.Errorf("%d runs", o.runs())
	}
}

func TestTheDeadlineOfASignedRequestIsNotWhatItAsksFor(t *testing.T) {
	t.Parallel()
	o := signedOffice(t)
	const payload = `{"requestId":"r1","job":"collect_log","stores":"all"}`
	first := o.sends("wang", protocol.VerbRun, until(payload, o.clock().Add(time.Minute)))
	o.pass(10 * time.Minute)
	again := o.sends("wang", protocol.VerbRun, until(payload, o.clock().Add(time.Minute)))
	if !first.OK || !again.OK || again.RunID != first.RunID || !*again.Duplicate {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// The deadline says how old a request may be that comes in, not how long
// somebody may think about it.
func TestASignedRequestWaitsForItsApproval(t *testing.T) {
	t.Parallel()
	o := signedOffice(t, careful)
	asked := o.sends("wang", protocol.VerbRun, until(order, o.clock().Add(5*time.Minute)))
	if asked.Code != protocol.CodeNeedsApproval {
		t.Fatalf("got %+v", asked)
	}
	o.pass(50 * time.Minute)
	yes := fmt.Sprintf(`{"requestId":"a1",%s`, word(asked, "approve")[1:])
	if reply := o.sends("chen", protocol.VerbApprove, until(yes, o.clock().Add(5*time.Minute))); !reply.OK || reply.RunID == "" {
		t.Errorf("got %+v", reply)
	}
}

// What was rejected is not asked for anew by whoever sends the same request
// again, whatever became of the job since.
func TestARequestThatWasGivenUpIsNotAskedAnew(t *testing.T) {
	t.Parallel()
	o := signedOffice(t, careful)
	sent := until(order, o.clock().Add(15*time.Minute))
	asked := o.sends("wang", protocol.VerbRun, sent)
	no := fmt.Sprintf(`{"requestId":"a1",%s`, word(asked, "reject")[1:])
	if reply := o.sends("chen", protocol.VerbApprove, until(no, o.clock().Add(time.Minute))); !reply.OK {
		t.Fatalf("got %+v", reply)
	}
	for range 3 {
		if reply := o.sends("wang", protocol.VerbRun, sent); reply.Code != protocol.CodeConflict || reply.Path != "/requestId" {
			t.Errorf("sent again: %+v", reply)
		}
		o.pass(time.Minute)
	}
	if all, err := o.Store.ListApprovals(t.Context(), false); err != nil || len(all) != 1 {
		t.Errorf("%d approvals, %v", len(all), err)
	}
}
