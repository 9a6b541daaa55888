package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/agent/refused"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/internal/trust"
)

// grantTo is a grant for one process of the terminal.
func (b *bench) grantTo(instance, taskID string, attempt int) {
	b.t.Helper()
	b.order(protocol.Order{Order: protocol.OrderGrant, TaskID: taskID, Attempt: attempt, LeaseMs: lease.Milliseconds(),
		RunTimeoutMs: 60_000, Instance: instance, OfferSHA256: b.hashes[taskID]})
}

func (b *bench) claimed() protocol.Claim {
	b.t.Helper()
	got := drain[protocol.Claim](b.t, b.wire, protocol.KindClaim)
	if len(got) == 0 {
		b.t.Fatal("nothing is claimed")
	}
	return got[len(got)-1]
}

func held(taskID string, attempt int, instance string) protocol.SyncTask {
	return protocol.SyncTask{TaskID: taskID, Status: task.Running, Attempt: attempt, Mine: true, Instance: instance}
}

// TestAnotherMachinesGrantIsNotRun: what was granted to a machine with the same
// identity is neither run here nor answered, and is asked for again when it ended.
func TestAnotherMachinesGrantIsNotRun(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.agent.Up()
		b.offer("t1")
		hello := b.sync(pending("t1"))
		c := b.claimed()
		if c.Instance == "" || c.Instance != hello.Instance || c.Previous != "" {
			t.Fatalf("claimed by %q after %q, the hello said %q", c.Instance, c.Previous, hello.Instance)
		}
		b.grantTo("another", "t1", 1)
		sleep(time.Second)
		b.wantMarks()
		if n := b.agent.Refused()[refused.Twin]; n != 1 {
			t.Errorf("%d refused as another's", n)
		}
		b.agent.Down()
		b.connect(held("t1", 1, "another"), held("t2", 1, "another"))
		sleep(5 * time.Minute)
		if n := b.answers(); n != 0 {
			t.Errorf("%d answers to another's attempts", n)
		}
		b.grantTo(c.Instance, "t1", 2)
		sleep(11 * time.Second)
		if r := b.result(); r.Attempt != 2 || r.Outcome != protocol.AnswerSucceeded {
			t.Errorf("answered %+v", r)
		}
		b.wantMarks("t1/2")
	})
}

// TestAClaimNamesTheProcessBefore: after a restart headquarters may say a lost
// grant again to the process that took up the work.
func TestAClaimNamesTheProcessBefore(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect(pending("t1"))
		b.offer("t1")
		first := b.claimed()
		b.kill()
		b.start()
		b.agent.Up()
		b.offer("t1")
		hello := b.sync(held("t1", 1, first.Instance)) // the grant is lost on its way
		second := b.claimed()
		if second.Previous != first.Instance || second.Instance == first.Instance || second.Instance != hello.Instance {
			t.Fatalf("claimed by %q after %q, before by %q", second.Instance, second.Previous, first.Instance)
		}
		b.grantTo(second.Instance, "t1", 1)
		b.result()
		b.wantMarks("t1/1")
	})
}

// TestAHoleInTheJournalNamesNoProcessBefore: the line of the grant is lost, and one
// behind it is there. Headquarters says the grant again to whoever names the process
// that it was for.
func TestAHoleInTheJournalNamesNoProcessBefore(t *testing.T) { // I3
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect(pending("t1"))
		b.offer("t1")
		first := b.claimed()
		b.grantTo(first.Instance, "t1", 1)
		b.wantMarks("t1/1")
		b.offer("t2")
		b.kill()
		name := filepath.Join(b.folder, "journal.log")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
			return strings.Contains(line, `"t1"`) && !strings.Contains(line, `"offered"`) && !strings.Contains(line, `"claimed"`)
		})
		if err := errors.Join(os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600), os.RemoveAll(filepath.Join(b.folder, "outbox"))); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.kill() // at once: the file that it wrote anew looks whole
		b.start()
		b.agent.Up()
		b.offer("t1")
		b.sync(held("t1", 1, first.Instance))
		sleep(5 * time.Minute)
		for _, c := range drain[protocol.Claim](t, b.wire, protocol.KindClaim) {
			if c.TaskID == "t1" && c.Previous != "" {
				t.Errorf("claimed after %q", c.Previous)
			}
		}
		b.wantMarks("t1/1")
	})
}

// TestNumbersAdvanceWithEachConnection: else the machine that started first is
// not heard any more once a second one spoke, nor held to be there.
func TestNumbersAdvanceWithEachConnection(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		sleep(10 * time.Minute)
		second := time.Now().UnixMicro()
		b.agent.Down()
		sleep(time.Second)
		last := second
		for _, online := range []bool{false, true} { // the will, then the birth, as the link has them
			word := decode[protocol.Presence](t, b.agent.Presence("s", online))
			if word.Seq <= last || word.Online != online || word.SessionID != "s" {
				t.Errorf("a later connection begins with %+v, not above %d", word, last)
			}
			last = word.Seq
		}
		b.agent.Up()
		if hello := b.sync(); hello.Seq <= last {
			t.Errorf("the hello of a later connection is number %d, not above %d", hello.Seq, last)
		}
	})
}

// TestAMachineIsHeardAgainThoughACopyRanAhead: numbers of a machine with the same
// identity were ahead of the clock when this one connected. It says hello until it is
// answered, and needs no other connection.
func TestAMachineIsHeardAgainThoughACopyRanAhead(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		const ran = 10 * time.Minute
		heard := trust.NewWindow(1024, 0) // at headquarters
		if err := heard.Take(time.Now().Add(ran).UnixMicro()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b.agent.Up()
		for time.Since(began) < 2*ran {
			sleep(time.Second)
			for _, hello := range drain[protocol.Hello](t, b.wire, protocol.KindHello) {
				if heard.Take(hello.Seq) == nil {
					if took := time.Since(began); took < ran || took > ran+31*time.Second {
						t.Errorf("heard after %s", took)
					}
					return
				}
			}
		}
		t.Error("it is not heard any more")
	})
}

// TestOtherContentUnderAKnownTaskRunsNever: an offer with another input, put in
// the place of the one that headquarters made, at each moment of a task's life.
func TestOtherContentUnderAKnownTaskRunsNever(t *testing.T) {
	const lie = 666
	for _, signed := range []bool{false, true} {
		in := func(t *testing.T, name string, test func(t *testing.T, b *bench, offer func(n int))) {
			t.Run(map[bool]string{false: "unsigned ", true: "signed "}[signed]+name, func(t *testing.T) {
				inBubble(t, slow, func(t *testing.T, b *bench) {
					if signed {
						b.kill()
						b.identify()
						b.start()
					}
					b.connect()
					ordered := protocol.At(time.Now())
					test(t, b, func(n int) {
						was := b.hashes["t1"]
						b.offer("t1", func(o *protocol.Offer) { o.Input, o.ScheduledFor = fmt.Appendf(nil, `{"n":%d}`, n), ordered })
						if n == lie {
							b.hashes["t1"] = was // headquarters grants what it made
						}
					})
				})
			})
		}
		in(t, "before the claim", func(t *testing.T, b *bench, offer func(n int)) {
			offer(1)
			offer(lie)
			b.grantTo("", "t1", 1)
			sleep(11 * time.Second)
			r := b.result()
			b.wantFailure(r, protocol.CodeRefused)
			if r.OfferSHA256 == b.hashes["t1"] || r.Executed || b.agent.Refused()[refused.Conflict] != 1 {
				t.Errorf("refused with %+v, counted %v", r, b.agent.Refused())
			}
			b.receipt(r, false, protocol.CodeWrongOffer)
			sleep(2 * lease)
			b.wantMarks()
			offer(1)
			b.grantTo("", "t1", 2)
			sleep(11 * time.Second)
			if r := b.result(); r.OfferSHA256 != b.hashes["t1"] {
				t.Errorf("answers %s", r.OfferSHA256)
			}
			b.wantMarks("t1/2")
		})
		in(t, "after the claim, the true one comes again", func(t *testing.T, b *bench, offer func(n int)) {
			offer(1)
			b.claimed()
			offer(lie)
			b.grantTo("", "t1", 1)
			sleep(time.Second)
			b.wantMarks()
			offer(1)
			sleep(11 * time.Second)
			if r := b.result(); r.Attempt != 1 || r.OfferSHA256 != b.hashes["t1"] {
				t.Errorf("answered %d of %s", r.Attempt, r.OfferSHA256)
			}
			b.wantMarks("t1/1")
		})
		in(t, "while it runs", func(t *testing.T, b *bench, offer func(n int)) {
			offer(1)
			b.grantTo("", "t1", 1)
			sleep(time.Second)
			offer(lie)
			sleep(11 * time.Second)
			if r := b.result(); r.Attempt != 1 || r.OfferSHA256 != b.hashes["t1"] || r.Outcome != protocol.AnswerSucceeded {
				t.Errorf("answered %+v", r)
			}
			b.wantMarks("t1/1")
		})
		in(t, "after it was done", func(t *testing.T, b *bench, offer func(n int)) {
			offer(1)
			b.grantTo("", "t1", 1)
			sleep(11 * time.Second)
			r := b.result()
			b.receipt(r, true, "")
			offer(lie)
			b.grantTo("", "t1", 1)
			sleep(2 * lease)
			b.grantTo("", "t1", 2) // and headquarters grants what it made, once more
			sleep(2 * lease)
			b.wantMarks("t1/1")
		})
	}
}
