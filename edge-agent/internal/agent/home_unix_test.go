//go:build !windows

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/journal"
	"muster/internal/protocol"
)

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsStartedWhileTheWorkFolderIsAway, nor taken for lost; another folder in its
// place is not written to. What ended meanwhile is answered from memory, and all of it
// is on the disk once the folder is back.
func TestNothingIsStartedWhileTheWorkFolderIsAway(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.marksFolder = t.TempDir()
		away := filepath.Join(t.TempDir(), "away")
		b.connect(pending("t0"), pending("t1"))
		b.offer("t0")
		b.grant("t0", 1)
		sleep(11 * time.Second)
		kept := b.result() // and no receipt
		b.offer("t1")
		b.grant("t1", 1)
		sleep(time.Second)

		rename(t, b.folder, away)
		sleep(15 * time.Second)
		ended := b.result()
		if ended.TaskID != "t1" || ended.Outcome != protocol.AnswerSucceeded {
			t.Fatalf("answered %s: %s", ended.TaskID, ended.Error)
		}
		b.receipt(kept, true, "")
		b.receipt(ended, true, "")
		for _, say := range []string{"was moved away: put it back", "put back the one that was there, or start the agent again"} {
			id := "u" + say[:2]
			b.claims()
			b.offer(id, func(o *protocol.Offer) { o.Deadline = time.Now().Add(4 * time.Second).UnixMilli() })
			sleep(5 * time.Second)
			b.wantSomeClaims(id)
			b.grant(id, 1)
			refused := last(b)
			b.wantFailure(refused, protocol.CodeRefused)
			if f := decode[protocol.Failure](t, refused.Error); !strings.Contains(f.Message, say) {
				t.Errorf("refused with %q", f.Message)
			}
			b.receipt(refused, true, "")
			if err := os.MkdirAll(b.folder, 0o700); err != nil { // as a place where nothing is mounted
				t.Fatal(err)
			}
		}
		sleep(time.Minute)
		if found, err := os.ReadDir(b.folder); err != nil || len(found) > 0 {
			t.Errorf("the folder in the place holds %v, %v", found, err)
		}
		for _, r := range drain[protocol.Result](t, b.wire, protocol.KindResult) {
			t.Errorf("answered %s with %s", r.TaskID, r.Error)
		}

		if err := os.Remove(b.folder); err != nil {
			t.Fatal(err)
		}
		rename(t, away, b.folder)
		sleep(time.Minute)
		for _, r := range drain[protocol.Result](t, b.wire, protocol.KindResult) {
			if r.TaskID != "t0" || r.SHA256 != kept.SHA256 {
				t.Errorf("answered %s with %s", r.TaskID, r.Error)
			}
		}
		b.receipt(kept, true, "")
		if b.answers() != 0 {
			t.Errorf("%d answers on disk", b.answers())
		}
		b.offer("t2")
		sleep(time.Minute)
		b.claims()
		b.grant("t2", 1)
		sleep(11 * time.Second)
		b.result()
		b.kill()
		b.start()
		b.connect(mine("t1", 1))
		b.grant("t1", 1)
		sleep(time.Minute)
		b.wantMarks("t0/1", "t1/1", "t2/1")
	})
}

// TestAFolderThatWasRemovedIsLockedAnew, and one that others put in its place is left to them.
func TestAFolderThatWasRemovedIsLockedAnew(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.marksFolder = t.TempDir()
		b.connect(pending("t1"))
		if err := os.RemoveAll(b.folder); err != nil {
			t.Fatal(err)
		}
		b.offer("t1")
		b.grant("t1", 1)
		b.wantMarks("t1/1")
		if who, err := journal.Held(b.folder); err != nil || !strings.HasPrefix(who, "pid ") {
			t.Errorf("the new folder is held by %q, %v", who, err)
		}
		if err := os.RemoveAll(b.folder); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(b.folder, "outbox"), 0o700); err != nil {
			t.Fatal(err)
		}
		b.offer("t2", func(o *protocol.Offer) { o.Deadline = time.Now().Add(4 * time.Second).UnixMilli() })
		sleep(5 * time.Second)
		b.grant("t2", 1)
		r := last(b)
		b.wantFailure(r, protocol.CodeRefused)
		if f := decode[protocol.Failure](t, r.Error); !strings.Contains(f.Message, "another one put there: start the agent again") {
			t.Errorf("refused with %q", f.Message)
		}
	})
}
