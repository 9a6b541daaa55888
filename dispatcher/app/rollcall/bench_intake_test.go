//go:build unix

package rollcall_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// BenchmarkIntakeBesideAReport says how long a commit of the writer takes while the
// report of 100,000 stores is made, and how long while nothing else is done.
func BenchmarkIntakeBesideAReport(b *testing.B) {
	const others = 4000
	for b.Loop() {
		b.StopTimer()
		o := setup(b)
		o.barrier.Stop()
		o.columns = collects(b)
		ids := manyIDs()
		o.create(ids, []string{"上海虹桥店"})
		judged(b, o.store)
		o.run2(ids[:others])
		b.StartTimer()
		left, alone := o.commits(b, ids[:others], time.After(2*time.Second))
		made := make(chan time.Time)
		go func() {
			o.published(b)
			close(made)
		}()
		_, beside := o.commits(b, left, made)
		<-made
		b.StopTimer()
		ms := func(list []time.Duration, percent int) float64 {
			return list[len(list)*percent/100].Seconds() * 1000
		}
		b.ReportMetric(float64(len(beside)), "commits")
		b.ReportMetric(ms(alone, 99), "alone-p99-ms")
		b.ReportMetric(ms(beside, 99), "beside-p99-ms")
		b.ReportMetric(beside[len(beside)-1].Seconds()*1000, "beside-max-ms")
		b.StartTimer()
	}
}

const besideID = "20260917-233100-beside"

// run2 makes another run over the stores.
func (o *office) run2(ids []string) {
	o.t.Helper()
	now := time.Now()
	run := store.Run{RunID: besideID, Job: "price_check", JobVersion: 1, RequestedBy: "ada", Input: json.RawMessage("{}"), Policy: job.Policy{Attempts: 1, Lease: 30 * time.Second, Late: job.AcceptAndRevise},
		CreatedAt: now, BarrierAt: now.Add(time.Hour), MakeupUntil: now.Add(2 * time.Hour)}
	var places []store.Place
	var tasks []store.NewTask
	for _, id := range ids {
		places = append(places, store.Place{StoreID: id, TimeZone: "Asia/Shanghai"})
		tasks = append(tasks, store.NewTask{TaskID: "B-" + id, StoreID: id})
	}
	if _, err := o.store.CreateRun(context.Background(), run, places, tasks, store.Request{}, now); err != nil {
		o.t.Fatal(err)
	}
}

// commits settles a store of the other run every 10 ms until it is to end, and returns the
// stores that are left, and how long the commits took, in order of size.
func (o *office) commits(b *testing.B, ids []string, end <-chan time.Time) (left []string, took []time.Duration) {
	b.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(ids) > 1 {
		began := time.Now()
		if _, _, err := o.store.Cancel(b.Context(), besideID, ids[:1], task.ReasonByUser, "ada", time.Now()); err != nil {
			b.Fatal(err)
		}
		took, ids = append(took, time.Since(began)), ids[1:]
		select {
		case <-end:
			slices.Sort(took)
			return ids, took
		case <-tick.C:
		}
	}
	b.Fatal("there are no stores left")
	return nil, nil
}
