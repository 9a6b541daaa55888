package watch_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/watch"
	"muster/internal/protocol"
	"muster/internal/task"
)

// poisoned panics over what is said of R1, while on.
type poisoned struct {
	*steptest.Broker
	on atomic.Bool
}

func (p *poisoned) Publish(ctx context.Context, out transport.Outbound) error {
	if p.on.Load() && strings.Contains(out.Topic, "/R1/") {
		panic("nobody can say that")
	}
	return p.Broker.Publish(ctx, out)
}

// A run, and an event, that makes headquarters panic is told and left out; the
// others are followed, and the next state says it all.
func TestWhatPanicsOverOneRunIsToldAndTheOthersAreFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		d.Bench = steptest.New(t, func(changes []store.Change) { d.Watch.Changed(changes) })
		p := &poisoned{Broker: d.Broker}
		p.on.Store(true)
		var mu sync.Mutex
		told := map[string]int{}
		ward := &quarantine.Ward{Logger: d.Logger, Now: time.Now, Alarm: func(kind, subject string, trouble error) {
			mu.Lock()
			defer mu.Unlock()
			told[kind+" "+subject+": "+trouble.Error()]++
		}}
		d.Watch = watch.New(d.Store, transport.NewSender(p, d.Sender.Topics(), time.Now), func(string) int { return 7 }, ward, d.Logger)
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Stop()
		for _, run := range []string{"R1", "R2"} {
			d.Create(run, 3, steptest.Policy())
			if _, _, err := d.Store.Cancel(t.Context(), run, []string{"S001"}, task.ReasonByUser, "wang", time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		if s := state(t, d, "R2"); s.Tasks[task.Cancelled] != 1 {
			t.Errorf("the other run: %+v", s)
		}
		events := 0
		for _, s := range d.Broker.Sent() {
			if s.Topic == d.Sender.Topics().RunStore("R2", "S001") {
				events++
			}
		}
		mu.Lock()
		for _, topic := range []string{d.Sender.Topics().Run("R1", protocol.RunState), d.Sender.Topics().Run("R1", protocol.RunText), d.Sender.Topics().RunStore("R1", "S001")} {
			if n := told["step_panicked "+topic+": headquarters panicked: nobody can say that"]; n != 1 {
				t.Errorf("%s is told of %d times", topic, n)
			}
		}
		if events != 1 || len(told) != 3 {
			t.Errorf("%d events of the other run, alarms %v", events, told)
		}
		mu.Unlock()
		p.on.Store(false)
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if s := state(t, d, "R1"); s.Tasks[task.Cancelled] != 1 || s.Tasks[task.Pending] != 2 {
			t.Errorf("once the fault is mended: %+v", s)
		}
	})
}
