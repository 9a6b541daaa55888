package app_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/app"
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
// not fit a message is cut and says so, and every task is done all the same.
func TestAStoreWithFiveThousandOpenTasksIsSynchronisedAndWorks(t *testing.T) {
	t.Parallel()
	const tasks = 5000
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"007"}, func(cfg *app.Config) {
			cfg.Admission.MaxRunning, cfg.Admission.GrantsPerSecond, cfg.Admission.GrantBurst = 1000, 5000, 5000
		})
		hq.stop()
		runID := hq.manyTasks(tasks)
		hq.start()
		tech := hq.technician("wang")
		var mu sync.Mutex
		var syncs []protocol.Order
		term := hq.terminal("007", fleet.Options{Execute: value("1"), Observe: func(kind string, o protocol.Order) {
			if kind == string(protocol.OrderSync) {
				mu.Lock()
				defer mu.Unlock()
				syncs = append(syncs, o)
			}
		}})
		tech.await("the end of every task", func(m fleet.Message) bool {
			var state protocol.RunStateReport
			return m.Topic == hq.topics.Run(runID, protocol.RunState) &&
				protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &state) == nil && state.Tasks[task.Succeeded] == tasks
		})
		if got := len(term.Tasks()); got != tasks {
			t.Errorf("%d offers came", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(syncs) == 0 || !syncs[0].Partial || len(syncs[0].Open) != 3000 || syncs[0].HelloID == "" {
			t.Fatalf("%d syncs", len(syncs))
		}
	})
}
