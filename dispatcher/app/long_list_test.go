package app_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
)

// manyTasks commits one run of n tasks, all of store 007, while headquarters is
// stopped.
func (hq *headquarters) manyTasks(n int) (runID string) {
	hq.t.Helper()
	st, err := store.Open(hq.t.Context(), store.Options{Path: filepath.Join(hq.cfg.DataFolder, "muster.db")})
	if err != nil {
		hq.t.Fatal(err)
	}
	now := time.Now()
	policy := job.DefaultPolicy()
	run := store.Run{RunID: "shards", Job: "probe", JobVersion: 1, RequestedBy: "wang", Input: json.RawMessage(`{}`),
		Policy: policy, Targets: n, CreatedAt: now, BarrierAt: now.Add(time.Hour), MakeupUntil: now.Add(2 * time.Hour)}
	tasks := make([]store.NewTask, n)
	for i := range tasks {
		tasks[i] = store.NewTask{TaskID: fmt.Sprintf("shard-%04d", i), StoreID: "007"}
	}
	places := []store.Place{{StoreID: "007", Name: "Store 007", TimeZone: "Asia/Shanghai"}}
	_, err = st.CreateRun(hq.t.Context(), run, places, tasks, store.Request{User: "wang", RequestID: "shards", ContentHash: "shards"}, now)
	if err != nil {
		hq.t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		hq.t.Fatal(err)
	}
	return run.RunID
}

// TestAStoreWithFiveThousandOpenTasksIsSynchronisedAndWorks: the list that does
// not fit a message is cut and says so; every offer comes all the same, and what
// the list leaves out is done like what it names.
func TestAStoreWithFiveThousandOpenTasksIsSynchronisedAndWorks(t *testing.T) {
	t.Parallel()
	const tasks = 5000
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"007"}, nil)
		hq.stop()
		runID := hq.manyTasks(tasks)
		hq.start()
		tech := hq.technician("wang")
		offers, syncs := make(chan string, 100*tasks), make(chan protocol.Order, 100)
		term := hq.terminal("007", fleet.Options{Mute: true, Execute: value("1"), Observe: func(kind string, o protocol.Order) {
			switch kind {
			case "offer":
				offers <- o.TaskID
			case string(protocol.OrderSync):
				syncs <- o
			}
		}})
		sync := receive(t, syncs)
		if !sync.Partial || len(sync.Open) != 3000 || sync.HelloID == "" {
			t.Fatalf("sync of %d tasks, partial %t", len(sync.Open), sync.Partial)
		}
		absent := map[string]bool{}
		for seen := map[string]bool{}; len(seen) < tasks; {
			id := receive(t, offers)
			seen[id], absent[id] = true, true
		}
		for _, listed := range sync.Open {
			delete(absent, listed.TaskID)
		}
		claimed := 0
		for id := range absent {
			if claimed++; claimed > 20 {
				break
			}
			if err := term.Claim(id); err != nil {
				t.Fatal(err)
			}
		}
		if err := term.Claim(sync.Open[0].TaskID); err != nil {
			t.Fatal(err)
		}
		tech.await("the end of what was claimed", func(m fleet.Message) bool {
			var state protocol.RunStateReport
			return m.Topic == hq.topics.Run(runID, protocol.RunState) &&
				protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &state) == nil && state.Tasks[task.Succeeded] == 21
		})
	})
}

// receive returns the next of what comes.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		var none T
		t.Fatalf("no %T came", none)
		return none
	}
}
