package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
)

// closed waits until a run's retained state says that it is closed.
func (tech *technician) closed(runID string) protocol.RunStateReport {
	tech.hq.t.Helper()
	var state protocol.RunStateReport
	tech.await("the close of run "+runID, func(m fleet.Message) bool {
		state = protocol.RunStateReport{}
		return m.Topic == tech.hq.topics.Run(runID, protocol.RunState) &&
			protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &state) == nil && state.Phase == protocol.PhaseClosed
	})
	return state
}

// TestLateAnswersFollowThePolicyUntilTheMakeupEnds lets one store answer after
// the barrier, under each policy, and another stay away until the make-up
// window ends: then the run closes, and nothing of it is left to be done.
func TestLateAnswersFollowThePolicyUntilTheMakeupEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy    job.LatePolicy
		accepted  bool
		revisions int
		final     task.Status
		recorded  int // answers stored with their attempt
		kept      int // answers kept for reading
	}{
		{job.AcceptAndRevise, true, 2, task.Succeeded, 1, 0},
		{job.RecordOnly, true, 1, task.Failed, 1, 0},
		{job.Reject, false, 1, task.Failed, 0, 1},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			t.Parallel()
			hq := setup(t, config.TransportEmbedded, []string{"AWAY", "GOOD", "SLOW"}, func(cfg *config.Config) {
				writeJob(t, cfg.JobsFolder, "probe", map[string]string{"late": string(c.policy), "attempts": "1"})
			})
			hq.terminal("GOOD", fleet.Options{Execute: value("1")})
			receipts, work := make(chan protocol.Order, 10), make(chan struct{})
			hq.terminal("SLOW", fleet.Options{
				Execute: func(protocol.Offer, int) fleet.Reply {
					<-work
					return fleet.Reply{Result: json.RawMessage(`{"value":2}`)}
				},
				Observe: func(kind string, o protocol.Order) {
					if kind == string(protocol.OrderReceipt) {
						receipts <- o
					}
				}})
			tech := hq.technician("wang")
			run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":1,"makeupSeconds":5}`)
			first := tech.summary(run.RunID, 1)
			if want := (protocol.Counts{Succeeded: 1, TimedOut: 1, Offline: 1}); first.Counts != want {
				t.Errorf("counts at the barrier %+v, want %+v", first.Counts, want)
			}
			close(work)
			if o := <-receipts; o.Accepted == nil || *o.Accepted != c.accepted || !c.accepted && o.Code != protocol.CodeLate {
				t.Errorf("the late answer's receipt is %+v", o)
			}
			state := tech.closed(run.RunID)
			if state.Revision != c.revisions || state.Tasks[task.Pending]+state.Tasks[task.Running] != 0 || state.Tasks[task.Cancelled] != 1 {
				t.Errorf("the closed run says %+v", state)
			}
			offered := atomic.Int32{}
			synced := make(chan protocol.Order, 10)
			hq.terminal("AWAY", fleet.Options{Execute: value("3"), Observe: func(kind string, o protocol.Order) {
				switch kind {
				case "offer", string(protocol.OrderGrant):
					offered.Add(1)
				case string(protocol.OrderSync):
					synced <- o
				}
			}})
			if o := <-synced; len(o.Open) != 0 || offered.Load() != 0 {
				t.Errorf("after the close %d offers came, and the sync lists %+v", offered.Load(), o.Open)
			}
			book := hq.database()
			tasks, err := book.GetTaskOf(t.Context(), run.RunID, "SLOW")
			if err != nil || len(tasks) != 1 || tasks[0].State.Status != c.final {
				t.Fatalf("the late store's tasks %+v, %v", tasks, err)
			}
			checkLate(t, book, tasks[0].TaskID, c.recorded, c.kept)
			if away, err := book.GetTaskOf(t.Context(), run.RunID, "AWAY"); err != nil || away[0].State.Status != task.Cancelled || away[0].Reason != task.ReasonExpired {
				t.Errorf("the absent store's tasks %+v, %v", away, err)
			}
		})
	}
}

func checkLate(t *testing.T, book *store.Store, taskID string, recorded, kept int) {
	t.Helper()
	attempts, err := book.ListAttempts(t.Context(), taskID)
	if err != nil {
		t.Fatal(err)
	}
	late := slices.DeleteFunc(attempts, func(a store.Attempt) bool { return !a.Late || a.Answer != protocol.AnswerSucceeded })
	rejected, err := book.ListRejected(t.Context(), taskID)
	if err != nil || len(late) != recorded || len(rejected) != kept {
		t.Errorf("%d late answers are recorded, %d kept for reading, %v; want %d and %d", len(late), len(rejected), err, recorded, kept)
	}
}

// TestCapsHoldAcrossRunsAndPriorityGoesFirst watches, from the terminals' side,
// how many of them work at once: overall, and in the run that has a cap of its
// own. Whatever becomes free goes to the run of higher priority first.
func TestCapsHoldAcrossRunsAndPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		const stores, overall, own = 24, 6, 2
		names := make([]string, stores)
		for i := range names {
			names[i] = fmt.Sprintf("S%02d", i)
		}
		hq := setup(t, transport, names, func(cfg *config.Config) { cfg.Admission.MaxRunning = overall })
		var mu sync.Mutex
		granted := map[string][]time.Time{} // run: the moments of its grants
		for _, name := range names {
			for _, terminal := range []string{"pos1", "pos2"} {
				hq.terminal(name, fleet.Options{Terminal: terminal, Delay: 100 * time.Millisecond,
					Execute: func(o protocol.Offer, _ int) fleet.Reply {
						mu.Lock()
						granted[o.ParentID] = append(granted[o.ParentID], time.Now())
						mu.Unlock()
						return fleet.Reply{Result: json.RawMessage(`{"value":1}`)}
					}})
			}
		}
		tech := hq.technician("wang")
		low := tech.run(`{"requestId":"low","job":"probe","stores":"all","priority":-1}`)
		narrow := tech.run(fmt.Sprintf(`{"requestId":"narrow","job":"probe","stores":"all","maxRunning":%d}`, own))
		high := tech.run(`{"requestId":"high","job":"probe","stores":"all","priority":5}`)
		runs := map[string]int{low.RunID: overall, narrow.RunID: own, high.RunID: overall}
		for id := range runs {
			if s := tech.summary(id, 1); s.Counts != (protocol.Counts{Succeeded: stores}) {
				t.Errorf("run %s: counts %+v", id, s.Counts)
			}
		}
		mu.Lock()
		lowEnd, highEnd := slices.MaxFunc(granted[low.RunID], time.Time.Compare), slices.MaxFunc(granted[high.RunID], time.Time.Compare)
		mu.Unlock()
		if !highEnd.Before(lowEnd) {
			t.Errorf("the run of high priority ended %v after the one of low priority, which was asked for first", highEnd.Sub(lowEnd))
		}
		book := hq.database()
		var all []store.Attempt
		for id, limit := range runs {
			var ofRun []store.Attempt
			for _, name := range names {
				tasks, err := book.GetTaskOf(t.Context(), id, name)
				if err != nil || len(tasks) != 1 {
					t.Fatalf("run %s, store %s: %d tasks, %v", id, name, len(tasks), err)
				}
				attempts, err := book.ListAttempts(t.Context(), tasks[0].TaskID)
				if err != nil || len(attempts) != 1 {
					t.Fatalf("task %s: %d attempts, %v", tasks[0].TaskID, len(attempts), err)
				}
				ofRun = append(ofRun, attempts...)
			}
			if most := runningAtOnce(ofRun); most > limit {
				t.Errorf("run %s: %d ran at once where %d may", id, most, limit)
			}
			all = append(all, ofRun...)
		}
		if most := runningAtOnce(all); most > overall || most < own {
			t.Errorf("%d ran at once where %d may", most, overall)
		}
	})
}

// runningAtOnce is the most attempts that were between their grant and their
// answer at one moment of headquarters' clock.
func runningAtOnce(attempts []store.Attempt) int {
	type step struct {
		at   time.Time
		more int
	}
	var steps []step
	for _, a := range attempts {
		steps = append(steps, step{a.GrantedAt, 1}, step{a.ReceivedAt, -1})
	}
	slices.SortFunc(steps, func(a, b step) int {
		if by := a.at.Compare(b.at); by != 0 {
			return by
		}
		return a.more - b.more
	})
	now, most := 0, 0
	for _, s := range steps {
		now += s.more
		most = max(most, now)
	}
	return most
}

// TestPresenceOfEachTerminalIsRetained: who subscribes at any time sees of each
// terminal of a store whether it is there, and the end of a session that was
// taken over says nothing.
func TestPresenceOfEachTerminalIsRetained(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A", "B"}, nil)
		leaver := hq.terminal("A", fleet.Options{Terminal: "pos1"})
		hq.terminal("A", fleet.Options{Terminal: "pos2"})
		hq.terminal("B", fleet.Options{})
		hq.terminal("B", fleet.Options{}) // takes the first one's place
		leaver.Close()
		for store, want := range map[string]map[string]bool{"A": {"pos1": false, "pos2": true}, "B": {"pos1": true}} {
			for terminal, online := range want {
				topic := hq.topics.Terminal(store, terminal, protocol.KindPresence)
				if got := hq.watchPresence(topic, online); got.SessionID == "" || got.Since.IsZero() {
					t.Errorf("%s says %+v", topic, got)
				}
			}
		}
	})
}

// watchPresence waits until a fresh subscriber is given the retained presence
// that is wanted.
func (hq *headquarters) watchPresence(topic string, online bool) protocol.Presence {
	hq.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		tech := hq.technician("watcher")
		if err := tech.conn.Subscribe(hq.t.Context(), topic); err != nil {
			hq.t.Fatal(err)
		}
		var got protocol.Presence
		m := tech.await("the presence on "+topic, func(m fleet.Message) bool {
			return m.Topic == topic && protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &got) == nil
		})
		if m.Retained && got.Online == online {
			return got
		}
		tech.conn.Close()
	}
	hq.t.Fatalf("%s never says online %v", topic, online)
	return protocol.Presence{}
}
