package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/edge-agent/internal/agent/refused"
	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/disk"
)

// onSmallDisk runs a test on virtual time with a work folder on a real disk of
// its own, which full fills to the last byte and room empties again.
func onSmallDisk(t *testing.T, work func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error), test func(b *bench, full, room func())) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "disk")
	disk.Small(t, folder, 2)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, work)
		b.marksFolder, b.folder = b.folder, folder
		b.start()
		defer func() { b.kill() }()
		test(b, func() { disk.Fill(t, folder) }, func() { disk.Free(t, folder) })
	})
}

// lookAgainMost is within which the agent sees that there is room.
const lookAgainMost = 6 * time.Second

// fillPage takes the room that a full disk leaves in the journal's last page, by
// notes of offers that are not to be claimed yet.
func fillPage(b *bench) {
	b.t.Helper()
	for i := range 60 {
		b.offer(fmt.Sprint("other", i), func(o *protocol.Offer) { o.NotBefore = time.Now().Add(time.Hour).UnixMilli() })
	}
}

func TestFullDiskIsRefusedAloudAndNothingStarts(t *testing.T) {
	onSmallDisk(t, count, func(b *bench, full, room func()) {
		full()
		b.connect(pending("t0"))
		fillPage(b)
		b.offer("t0", func(o *protocol.Offer) { o.Deadline = time.Now().Add(20 * time.Second).UnixMilli() })
		sleep(time.Second)
		b.claims()
		sleep(5 * time.Second)
		b.wantSomeClaims("t0") // a quarter of the time to the barrier is over
		b.grant("t0", 1)
		r := b.result()
		b.wantFailure(r, protocol.CodeRefused)
		if f := decode[protocol.Failure](b.t, r.Error); !strings.Contains(f.Message, "the work folder takes no writes") || !strings.Contains(f.Message, "no space left") {
			b.t.Errorf("refused with %q", f.Message)
		}
		b.receipt(r, true, "")
		b.grant("t0", 1) // a copy that comes late
		room()
		sleep(lookAgainMost)
		b.grant("t0", 1)
		b.wantMarks()
		b.withdraw("t0")
		b.offer("t1", func(o *protocol.Offer) { o.Deadline = time.Now().Add(time.Second).UnixMilli() })
		sleep(time.Minute)
		b.wantSomeClaims("t1")
		b.grant("t1", 1)
		if r := b.result(); r.Outcome != protocol.AnswerSucceeded {
			b.t.Errorf("answered %s", r.Error)
		}
		b.wantMarks("t1/1")
	})
}

func TestGrantedAttemptWaitsForRoomBeforeItStarts(t *testing.T) {
	onSmallDisk(t, count, func(b *bench, full, room func()) {
		b.connect(pending("t1"))
		b.offer("t1")
		b.wantClaims("t1")
		full()
		fillPage(b)
		b.grant("t1", 1)
		sleep(10 * time.Second)
		b.wantMarks()
		room()
		sleep(lookAgainMost)
		b.wantMarks("t1/1")
		if r := b.result(); r.Outcome != protocol.AnswerSucceeded || r.Attempt != 1 {
			b.t.Errorf("answered %s", r.Error)
		}
	})
}

func TestExecutedWorkOnAFullDiskIsAnsweredFromMemoryOnce(t *testing.T) {
	onSmallDisk(t, slow, func(b *bench, full, room func()) {
		b.connect(pending("t1"))
		b.offer("t1")
		b.grant("t1", 1)
		full()
		sleep(11 * time.Second)
		first := b.result()
		if first.Outcome != protocol.AnswerSucceeded || b.answers() != 0 {
			b.t.Fatalf("answered %s, %d on disk", first.Error, b.answers())
		}
		// Headquarters gave up the attempt before it heard of its end: the next
		// grant is answered with what is in memory.
		b.receipt(first, false, protocol.CodeStale)
		b.grant("t1", 2)
		second := b.result()
		if second.Outcome != protocol.AnswerSucceeded || second.Attempt != 2 || second.SHA256 != first.SHA256 {
			b.t.Errorf("answered %d %s", second.Attempt, second.Error)
		}
		room()
		sleep(lookAgainMost)
		if b.answers() != 1 {
			b.t.Errorf("%d answers on disk", b.answers())
		}
		b.kill()
		b.start()
		b.connect(mine("t1", 2))
		sleep(time.Minute)
		all := drain[protocol.Result](b.t, b.wire, protocol.KindResult)
		if len(all) == 0 || all[0].Attempt != 2 || all[0].SHA256 != first.SHA256 {
			b.t.Fatalf("%d answers after the restart", len(all))
		}
		b.receipt(all[0], true, "")
		if b.answers() != 0 {
			b.t.Errorf("%d answers on disk", b.answers())
		}
		b.wantMarks("t1/1")
	})
}

func TestCrashWithAnAnswerInMemoryIsInterrupted(t *testing.T) {
	onSmallDisk(t, slow, func(b *bench, full, room func()) {
		b.connect(pending("t1"))
		b.offer("t1")
		b.grant("t1", 1)
		full()
		sleep(11 * time.Second)
		b.result()
		b.kill()
		b.start() // the disk is still full
		b.connect(mine("t1", 1))
		b.wantFailure(b.result(), protocol.CodeInterrupted)
		b.grant("t1", 1)
		b.wantMarks("t1/1")
		room()
	})
}

func TestReceiptForAReadOnlyOutboxIsObeyedWhenItIsWritable(t *testing.T) {
	onSmallDisk(t, count, func(b *bench, full, room func()) {
		b.connect(pending("t1"))
		b.offer("t1")
		b.grant("t1", 1)
		r := b.result()
		if b.answers() != 1 {
			b.t.Fatal("no answer on disk")
		}
		disk.Freeze(t, filepath.Join(b.folder, "outbox"), true)
		b.receipt(r, true, "")
		if b.answers() != 1 {
			b.t.Fatal("deleted from a read-only folder")
		}
		b.offer("t2", func(o *protocol.Offer) { o.Deadline = time.Now().Add(4 * time.Second).UnixMilli() })
		b.claims()
		sleep(5 * time.Second)
		b.wantSomeClaims("t2")
		b.grant("t2", 1)
		refused := last(b)
		b.wantFailure(refused, protocol.CodeRefused)
		b.receipt(refused, true, "")
		disk.Freeze(t, filepath.Join(b.folder, "outbox"), false)
		sleep(time.Minute)
		again := drain[protocol.Result](b.t, b.wire, protocol.KindResult)
		if len(again) == 0 {
			b.t.Fatal("the answer was not sent again")
		}
		for _, r := range again {
			b.receipt(r, true, "")
		}
		if b.answers() != 0 {
			b.t.Errorf("%d answers on disk", b.answers())
		}
		b.offer("t3")
		sleep(time.Minute)
		b.wantSomeClaims("t3")
		b.grant("t3", 1)
		b.wantMarks("t1/1", "t3/1")
	})
}

func TestRemovedWorkFolderIsMadeAgain(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.marksFolder = t.TempDir()
		b.connect(pending("t1"))
		b.offer("t1")
		b.grant("t1", 1)
		sleep(time.Second)
		if err := os.RemoveAll(b.folder); err != nil {
			t.Fatal(err)
		}
		sleep(10 * time.Second)
		if r := b.result(); r.Outcome != protocol.AnswerSucceeded || b.answers() != 1 {
			t.Errorf("answered %s, %d on disk", r.Error, b.answers())
		}
		b.kill()
		b.start()
		b.connect(mine("t1", 1))
		if r := b.result(); r.Outcome != protocol.AnswerSucceeded {
			t.Errorf("answered %s after a restart", r.Error)
		}
		b.grant("t1", 1)
		b.wantMarks("t1/1")
	})
}

// TestAListOfKeysThatTheDiskRefusedIsTakenWhenThereIsRoom: headquarters says it once
// a connection, and that may live for weeks.
func TestAListOfKeysThatTheDiskRefusedIsTakenWhenThereIsRoom(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "identity")
	disk.Small(t, folder, 1)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, count)
		hq := hqtest.New(t)
		if _, err := identity.Create(folder, hq.Parts(storeID, terminalID), time.Now()); err != nil {
			t.Fatal(err)
		}
		b.identity, b.signer = folder, hq.Key
		b.start()
		defer func() { b.kill() }()
		b.connect()
		disk.Fill(t, folder)
		next, listed := hq.NewKey(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		for _, list := range []trust.Sealed{hq.Seal(2, listed), hqtest.New(t).Seal(3, listed), hq.Seal(1, hq.Listed)} {
			b.agent.Message(topics(t).Trust(), encode(t, list), trust.Signature{})
		}
		sleep(time.Minute)
		b.wantRefused(refused.Unkept, 1)
		b.wantRefused(refused.Keys, 1)
		b.as(next, func() { b.offer("t1") })
		b.wantRefused(refused.UnknownKey, 1)
		drain[protocol.Hello](t, b.wire, protocol.KindHello)
		disk.Free(t, folder)
		sleep(lookAgainMost + 2*time.Second)
		b.as(next, func() {
			b.sync(pending("t1")) // it asked for what was refused
			b.offer("t1")
			b.wantClaims("t1")
			b.grant("t1", 1)
			b.result()
			b.kill()
			b.start()
			b.connect()
			b.offer("t2")
			b.grant("t2", 1)
		})
		b.wantMarks("t1/1", "t2/1")
	})
}
