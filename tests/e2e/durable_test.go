package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/disk"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// TestReceiptFollowsTheFsync looks, when a receipt has come, whether the
// database is on the disk, and when a revision is published, whether its files
// are.
func TestReceiptFollowsTheFsync(t *testing.T) { // I1
	t.Parallel()
	disk.NeedsTelling(t)
	s := newSite(t, []string{"A"}, "")
	s.serve()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	receipts := make(chan protocol.Order, 10)
	term, err := fleet.Start(t.Context(), fleet.Options{Addr: s.addr, Topics: topics, Store: "A", Terminal: "pos1",
		Execute: func(protocol.Offer, int) fleet.Reply { return fleet.Reply{Result: json.RawMessage(`{"marker":"x"}`)} },
		Observe: func(kind string, o protocol.Order) {
			if kind == string(protocol.OrderReceipt) {
				receipts <- o
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	for round := range 3 {
		reply := s.ask("run", fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":"all"}`, round))
		if !reply.OK {
			t.Fatalf("reply %+v", reply)
		}
		select {
		case <-receipts:
		case <-time.After(programs.Patience):
			t.Fatal("no receipt")
		}
		disk.Want(t, "the answer that a receipt names", filepath.Join(s.dir, "data", "muster.db-wal"))
		_, path := s.report(reply.RunID, 1)
		base := strings.TrimSuffix(path, ".json")
		disk.Want(t, "a published revision", path, base+".csv", base+".html", base+".xlsx", base+"_manifest.json")
	}
}

// TestAnswerIsOnDiskWhileItIsKept: what a terminal keeps survives a power cut.
func TestAnswerIsOnDiskWhileItIsKept(t *testing.T) { // I1
	t.Parallel()
	disk.NeedsTelling(t)
	s := newSite(t, []string{"A"}, "")
	s.serve()
	settings, markers, gate := markingExecutor(s, "A")
	s.agent("A", settings)
	if reply := s.ask("run", `{"job":"probe","stores":"all"}`); !reply.OK {
		t.Fatalf("reply %+v", reply)
	}
	programs.Eventually(t, "the execution", func() bool { return len(lines(t, markers)) == 1 })
	s.hq.Kill() // so that the answer is kept
	touch(t, gate)
	programs.Eventually(t, "the answer on disk", func() bool { return s.answers("A") == 1 })
	kept, err := filepath.Glob(filepath.Join(s.dir, "agents", "A", "kept", "outbox", "*.answer"))
	if err != nil {
		t.Fatal(err)
	}
	disk.Want(t, "the answer that is kept", kept...)
}
