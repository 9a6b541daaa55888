package intake_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/configs"
	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/schemas"
)

// nobody takes every order and keeps none.
type nobody struct{}

func (nobody) Publish(context.Context, transport.Outbound) error { return nil }

// counter is an intake over a real store that takes in answers by the hundred.
type counter struct {
	*steptest.Bench
	*intake.Intake
	b    testing.TB
	jobs *job.Registry
	runs int
}

func openCounter(b testing.TB) *counter {
	b.Helper()
	folder, err := fs.Sub(configs.FS, "jobs")
	if err != nil {
		b.Fatal(err)
	}
	c := &counter{b: b}
	if c.jobs, err = job.Load("jobs", folder, schemas.FS); err != nil {
		b.Fatal(err)
	}
	c.Bench = steptest.New(b, func(changes []store.Change) { c.Changed(changes) })
	c.Intake = intake.New(intake.Config{Tasks: c.Store, Attempts: c.Store, Jobs: c.jobs, Leases: &leases{},
		Orders: transport.NewSender(nobody{}, c.Sender.Topics(), time.Now), Now: time.Now, Logger: c.Logger, InFlight: 8, BurstBytes: 1})
	if err := c.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Intake.Stop)
	return c
}

// answers makes a run of n stores, grants every task, and returns its answers, which
// have about 1 KiB and name their offers.
func (c *counter) answers(n int) []transport.Inbound {
	c.b.Helper()
	c.runs++
	spec, _ := c.jobs.Get(steptest.Job)
	name, now := fmt.Sprintf("r%d", c.runs), time.Now()
	run := store.Run{RunID: name, Job: steptest.Job, JobVersion: 1, RequestedBy: "tech", Input: []byte(`{"date":"2026-09-17"}`),
		Policy: steptest.Policy(), Columns: spec.Columns, Targets: n, CreatedAt: now, BarrierAt: now.Add(time.Hour), MakeupUntil: now.Add(2 * time.Hour)}
	places, tasks := make([]store.Place, n), make([]store.NewTask, n)
	for i := range n {
		places[i] = store.Place{StoreID: steptest.StoreID(i), Name: steptest.StoreID(i), TimeZone: "UTC"}
		tasks[i] = store.NewTask{TaskID: steptest.TaskID(name, i), StoreID: steptest.StoreID(i)}
	}
	if _, _, _, err := c.Store.ReplacePlaces(c.b.Context(), "", places, now); err != nil {
		c.b.Fatal(err)
	}
	created, err := c.Store.CreateRun(c.b.Context(), run, places, tasks, store.Request{User: "tech", RequestID: name, ContentHash: name}, now)
	if err != nil {
		c.b.Fatal(err)
	}
	out := make([]transport.Inbound, n)
	for i := range out {
		g, err := c.Store.Grant(c.b.Context(), store.Grant{TaskID: tasks[i].TaskID, StoreID: tasks[i].StoreID, TerminalID: "pos",
			LeaseUntil: now.Add(time.Hour)}, now)
		if err != nil || g.Refusal != "" {
			c.b.Fatalf("cannot grant: %v %s", err, g.Refusal)
		}
		doc := nothingFound(i)
		out[i] = steptest.Message(protocol.Result{Meta: protocol.Meta{ID: "01K5BXJ3Z8A1B2C3D4E5F6G7H8", At: protocol.At(now), Seq: int64(i + 1)},
			TaskID: tasks[i].TaskID, Attempt: 1, Outcome: protocol.AnswerSucceeded, Executed: true, StartedAt: now.UnixMilli(), FinishedAt: now.UnixMilli(),
			DurationMs: 125, Result: doc, SHA256: digest(string(doc)), OfferSHA256: transport.OfferOf(g.Task, created.Run).Hash()})
	}
	return out
}

// nothingFound is an answer of collect_log, of about 1 KiB.
func nothingFound(i int) []byte {
	const at = `"2026-09-17T00:00:00.000+08:00"`
	counts := func(names string) string {
		var b strings.Builder
		for name := range strings.FieldsSeq(names) {
			fmt.Fprintf(&b, `%q:%d,`, name, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	return []byte(`{"schemaVersion":1,"date":"2026-09-17","timeZone":"Asia/Shanghai","rangeStart":` + at + `,"rangeStartMs":1789574400000,"rangeEnd":` + at +
		`,"rangeEndMs":1789660800000,"asOf":` + at + `,"asOfMs":1789660800000,"totals":{` +
		counts("files bytes lines linesInRange errors warnings undecodableBytes errorGroups configFiles problems") +
		`},"logs":[],"topErrors":[{"message":"printer # is out of paper","example":"printer 3 is out of paper","level":"error","count":4,"cut":false,"firstAt":` + at +
		`,"firstAtMs":1789574400000,"lastAt":` + at + `,"lastAtMs":1789574400000}],"excerpt":[],"config":[],"problems":[],"truncated":{"any":false,` +
		counts("excerptLines configContents messages errorGroups ungroupedLines problems logs config unreadFiles") + `}}`)
}

// take takes in answers of the first stores, at most so many at once.
func (c *counter) take(answers []transport.Inbound, atOnce int) {
	var all sync.WaitGroup
	for first := range atOnce {
		all.Go(func() {
			for i := first; i < len(answers); i += atOnce {
				if err := c.HandleResult(c.b.Context(), steptest.From(i, protocol.KindResult), answers[i]); err != nil {
					c.b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkHandleResult takes in answers, schema-checked and durable, with as many
// terminals at once. One op is a thousand answers.
func BenchmarkHandleResult(b *testing.B) {
	const answers = 1000
	for _, atOnce := range []int{1, 64} {
		b.Run(fmt.Sprint(atOnce), func(b *testing.B) {
			c := openCounter(b)
			var taken time.Duration
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				batch := c.answers(answers)
				b.StartTimer()
				begun := time.Now()
				c.take(batch, atOnce)
				taken += time.Since(begun)
			}
			if got := c.Stats(); got.Accepted != int64(c.runs*answers) {
				b.Fatalf("not all were accepted: %+v", got)
			}
			b.ReportMetric(float64(c.runs*answers)/taken.Seconds(), "answers/s")
		})
	}
}
