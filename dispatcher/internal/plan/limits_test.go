package plan_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/dispatcher/internal/plan"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

func TestARunHasNoMoreStoresThanItMay(t *testing.T) {
	t.Parallel()
	many := make([]store.Place, plan.MaxTargets+1)
	for i := range many {
		many[i].StoreID = fmt.Sprintf("S%06d", i)
	}
	all := protocol.Targets{All: true}
	if got, err := plan.Resolve(all, many[1:]); err != nil || len(got) != plan.MaxTargets {
		t.Errorf("%d stores, %v", len(got), err)
	}
	_, err := plan.Resolve(all, many)
	var refusal *protocol.Error
	if !errors.As(err, &refusal) || refusal.Code != protocol.CodeTooLarge || refusal.Path != "/stores" ||
		refusal.Message != "the run would have 100001 stores; at most 100000 are taken" || refusal.Hint == "" || refusal.MessageZh == "" {
		t.Errorf("got %+v", err)
	}
}

// TestTheRegisterIsNotTouched: others read it meanwhile.
func TestTheRegisterIsNotTouched(t *testing.T) {
	t.Parallel()
	register := places()
	for _, targets := range []protocol.Targets{{All: true}, {Labels: "region=east"}, {Stores: []string{"SH_2", "007"}}} {
		if _, err := plan.Resolve(targets, register); err != nil {
			t.Fatal(err)
		}
		if got := ids(register); got != ids(places()) {
			t.Errorf("after %+v the register is %s", targets, got)
		}
	}
}

func TestARefusalNamesNoMoreThanALineOfWhatItWasGiven(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("店", 500)
	for _, targets := range []protocol.Targets{{Stores: []string{long}}, {Labels: "region=" + long[:300]}} {
		_, err := plan.Resolve(targets, places())
		var refusal *protocol.Error
		if !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		if said := refusal.Message + refusal.MessageZh; len(said) > 400 || !utf8.ValidString(said) || !strings.Contains(said, "店…") {
			t.Errorf("%d bytes: %q", len(said), said)
		}
	}
}

// TestOnlyWhatIsAskedForChangesThePolicy: a barrier that is no whole number of
// seconds stays, the make-up window is taken.
func TestOnlyWhatIsAskedForChangesThePolicy(t *testing.T) {
	t.Parallel()
	job := spec()
	job.Policy.Barrier, job.Policy.Makeup = 1500*time.Millisecond, 2500*time.Millisecond
	expand := func(request protocol.RunRequest) store.Run {
		request.Stores = protocol.Targets{All: true}
		run, _, _, err := plan.New(rand.Reader).Expand("wang", request, job, places(), now())
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	priority, makeup := 7, 40
	run := expand(protocol.RunRequest{Priority: &priority})
	want := job.Policy
	want.Priority = 7
	if fmt.Sprintf("%+v", run.Policy) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", run.Policy, want)
	}
	run = expand(protocol.RunRequest{MakeupSeconds: &makeup})
	if run.Policy.Makeup != 40*time.Second || run.Policy.Barrier != job.Policy.Barrier || !run.MakeupUntil.Equal(run.BarrierAt.Add(40*time.Second)) {
		t.Errorf("asked for a make-up window of 40 s: %+v, open until %v after %v", run.Policy, run.MakeupUntil, run.BarrierAt)
	}
}
