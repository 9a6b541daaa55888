package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan is all that a seed decides before anything runs. What it does not decide
// is which of several goroutines is quicker, and what the programs draw
// themselves.
type Plan struct {
	Seed      uint64
	Stores    []string
	Terminals []Seat
	Jobs      []Job
	Limits    Budget
	Runs      []Ask
	Faults    []Fault
	Messages  Odds
}

// Seat is one terminal. Its clock is off by Clock, or stands at 1970.
type Seat struct {
	Store, Terminal string
	Clock           time.Duration
	Epoch           bool // its clock begins at 1970
	Parallel        int
}

func (s Seat) name() string { return s.Store + "/" + s.Terminal }

// Job is a kind of work, and the share of each way in which it ends, by name.
type Job struct {
	Name             string
	Attempts         int
	RunTimeout       time.Duration
	Lease            time.Duration
	Barrier          time.Duration
	Makeup           time.Duration
	Late             string
	RetryInterrupted bool
	Ends             []string // one is drawn for each execution
}

// Budget is headquarters' admission and collection.
type Budget struct {
	MaxRunning      int
	GrantsPerSecond float64
	GrantBurst      int
	InFlight        int
	BytesPerSecond  int
}

// Ask is one run that a person orders, and what the person does about it later.
type Ask struct {
	At      time.Duration
	User    string
	Job     string
	ID      string // of the request; "": none
	Stores  []string
	Barrier time.Duration   // 0: the job's
	Again   []time.Duration // the same request, so long after
	Cancels []Cancel
	Retries []time.Duration // asks again what it misses, so long after it was confirmed
}

// Cancel withdraws a run, or some of its stores, so long after it was confirmed.
type Cancel struct {
	After  time.Duration
	Stores []string
}

// Fault is one thing that goes wrong.
type Fault struct {
	At   time.Duration
	Kind Kind
	Who  int           // the terminal, unless Upon happens to one
	For  time.Duration // how long it lasts
	By   time.Duration // how far a clock jumps
	Told bool          // the far end, or this one, learns of it
	// Upon is what has to happen first, at most patience after At; "": nothing.
	Upon string
	// Loses is what becomes of the journal of a killed agent.
	Loses Loss
}

// Loss is what becomes of a journal.
type Loss string

// The losses. After all but Swapped the agent cannot know what it started.
const (
	Nothing Loss = ""
	Gone    Loss = "gone"
	Emptied Loss = "emptied"
	Garbled Loss = "garbled" // each line that tells of a start is damaged
	Swapped Loss = "swapped" // its last two lines change places
)

// Kind is what goes wrong.
type Kind string

// The kinds.
const (
	Cut           Kind = "cut"       // both ends see a reset
	HalfOpen      Kind = "half-open" // one end sees it
	BlackHole     Kind = "black hole"
	Hold          Kind = "partition" // the line comes back, and what waited with it
	Slow          Kind = "slow"
	KillAgent     Kind = "kill agent"
	KillHQ        Kind = "dispatcher" // the name that the checker knows
	Jump          Kind = "jump"       // of a terminal's clock
	Step          Kind = "step"       // of headquarters' clock
	CutEverything Kind = "cut everything"
	// Countermand has the next attempt that is granted cancelled at once. Its
	// grant and, once more, its offer come behind the cancel.
	Countermand Kind = "countermand"
)

// Odds are what happens to messages, out of a thousand each.
type Odds struct {
	Lost, Double, Late, Replay int
}

// moments are what a fault may wait for: a message as it passes, or a step of an
// execution.
var moments = []string{"claim", "progress", "ready", "result", "hello", "offer", "withdrawal",
	"grant", "deny", "send", "receipt", "cancel", "sync", "executing", "executed"}

// faultsOver is when the last fault begins at the latest.
const faultsOver = 4 * time.Minute

// nobody is a store without a terminal. A run of it alone stays before its
// barrier while clocks are set wrong: headquarters' time must not follow a clock
// on the wall while anything hangs on it.
const (
	nobody   = "GONE"
	anchored = faultsOver + patience + 45*time.Second
)

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := Plan{Seed: seed}
	for i := range 3 + r.IntN(4) {
		store := fmt.Sprintf("S%02d", i+1)
		p.Stores = append(p.Stores, store)
		for t := range 1 + min(r.IntN(3), 1) {
			seat := Seat{Store: store, Terminal: fmt.Sprintf("pos%d", t+1), Parallel: 1 + r.IntN(2)}
			switch r.IntN(6) {
			case 0:
				seat.Epoch = true
			case 1, 2:
				seat.Clock = between(r, -26*time.Hour, 26*time.Hour)
			}
			p.Terminals = append(p.Terminals, seat)
		}
	}
	p.Limits = Budget{MaxRunning: 2 + r.IntN(6), GrantsPerSecond: float64(1 + r.IntN(10)), GrantBurst: 1 + r.IntN(4),
		InFlight: 1 + r.IntN(3), BytesPerSecond: 8 << 10 << r.IntN(10)} // the bytes or the slots are scarce
	p.Messages = Odds{Lost: r.IntN(15), Double: r.IntN(80), Late: r.IntN(80), Replay: r.IntN(60)}
	for i := range 2 {
		p.Jobs = append(p.Jobs, drawJob(r, fmt.Sprintf("job%d", i+1)))
	}
	p.Runs = []Ask{{User: "wang", Job: "job1", ID: "anchor", Stores: []string{nobody}, Barrier: anchored}}
	for i := range 6 + r.IntN(7) {
		p.Runs = append(p.Runs, drawAsk(r, p, i))
	}
	for range 15 + r.IntN(25) {
		p.Faults = append(p.Faults, drawFault(r, p))
	}
	p.Faults = append(p.Faults, aimed(r, p)...)
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	for i := range p.Runs[1:] {
		for range r.IntN(3) {
			p.Runs[i+1].Retries = append(p.Runs[i+1].Retries, between(r, 0, 3*time.Minute))
		}
	}
	return p
}

// aimed are faults at the fences of an agent, which hardly meet by chance: a kill in
// the middle of an execution, another one that loses the journal, and cancels that
// overtake their grants.
func aimed(r *rand.Rand, p Plan) (list []Fault) {
	for range 2 {
		list = append(list, Fault{Kind: KillAgent, Upon: "executing"}, Fault{Kind: Countermand})
	}
	list = append(list, Fault{Kind: KillAgent, Upon: "executing", Loses: []Loss{Gone, Emptied, Garbled}[r.IntN(3)]})
	for i := range list {
		list[i].At, list[i].Who = between(r, 5*time.Second, faultsOver-30*time.Second), r.IntN(len(p.Terminals))
		list[i].For, list[i].Told = between(r, 0, 12*time.Second), r.IntN(2) == 0
	}
	return list
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

func drawJob(r *rand.Rand, name string) Job {
	j := Job{Name: name, Attempts: 1 + r.IntN(3), RunTimeout: between(r, 8*time.Second, 40*time.Second), Lease: between(r, 4*time.Second, 14*time.Second),
		Barrier: between(r, 15*time.Second, 80*time.Second), Makeup: between(r, 20*time.Second, 3*time.Minute),
		Late: []string{"accept_and_revise", "accept_and_revise", "record_only", "reject"}[r.IntN(4)], RetryInterrupted: r.IntN(2) == 0}
	all := []string{"quick", "quick", "slow", "slow", "slow", "large", "large", "large", "large", "fail", "panic", "stubborn", "endless", "invalid"}
	for range 6 {
		j.Ends = append(j.Ends, all[r.IntN(len(all))])
	}
	return j
}

func drawAsk(r *rand.Rand, p Plan, i int) Ask {
	a := Ask{At: between(r, 0, faultsOver-30*time.Second), User: []string{"wang", "li"}[r.IntN(2)], Job: p.Jobs[r.IntN(len(p.Jobs))].Name,
		ID: fmt.Sprintf("r%d", i)}
	if r.IntN(3) == 0 {
		a.Stores = some(r, p.Stores)
	}
	for range r.IntN(3) {
		a.Again = append(a.Again, between(r, 0, 90*time.Second))
	}
	for range r.IntN(3) {
		c := Cancel{After: between(r, 0, 100*time.Second)}
		if r.IntN(2) == 0 {
			c.Stores = some(r, a.targets(p))
		}
		if r.IntN(3) > 0 {
			a.Cancels = append(a.Cancels, c)
		}
	}
	return a
}

// targets are the stores of the run.
func (a Ask) targets(p Plan) []string {
	if len(a.Stores) > 0 {
		return a.Stores
	}
	return append([]string{nobody}, p.Stores...)
}

// some are one or more of the names.
func some(r *rand.Rand, names []string) []string {
	names = slices.Clone(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+r.IntN(len(names))]
	slices.Sort(names)
	return names
}

func drawFault(r *rand.Rand, p Plan) Fault {
	kinds := []Kind{Cut, HalfOpen, HalfOpen, BlackHole, Hold, Hold, Hold, Slow, KillAgent, KillAgent, KillAgent, KillAgent,
		KillHQ, KillHQ, KillHQ, Jump, Step, Step, CutEverything}
	f := Fault{At: between(r, 5*time.Second, faultsOver), Kind: kinds[r.IntN(len(kinds))], Who: r.IntN(len(p.Terminals)), Told: r.IntN(2) == 0}
	switch f.Kind {
	case Hold, Slow:
		f.For = between(r, 5*time.Second, time.Minute)
	case KillAgent:
		f.For = between(r, 0, 12*time.Second)
	case KillHQ:
		f.For = between(r, 0, 15*time.Second)
	case Jump:
		f.By = between(r, -26*time.Hour, 26*time.Hour)
	case Step:
		f.For, f.By = between(r, time.Second, 30*time.Second), between(r, -26*time.Hour, 26*time.Hour)
	case Cut, HalfOpen, BlackHole, CutEverything, Countermand:
	}
	f.Upon = drawMoment(r, f.Kind)
	return f
}

// drawMoment prefers the moments at which a fault of its kind hurts.
func drawMoment(r *rand.Rand, kind Kind) string {
	var most []string
	switch kind {
	case Hold, BlackHole, HalfOpen, Cut, CutEverything:
		most = []string{"executing", "executing", "executed", "grant", "result", "cancel"}
	case KillAgent:
		most = []string{"executing", "executing", "executed", "grant", "result", "receipt", "offer"}
	case KillHQ:
		most = []string{"result", "result", "claim", "receipt", "ready", "progress", "grant", "cancel"}
	case Slow, Jump, Step, Countermand:
	}
	switch n := r.IntN(10); {
	case n < 6 && len(most) > 0:
		return most[r.IntN(len(most))]
	case n < 8:
		return moments[r.IntN(len(moments))]
	}
	return ""
}

// String tells what the plan is on a few lines.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d stores, %d terminals, budget %+v, messages %+v\n", p.Seed, len(p.Stores), len(p.Terminals), p.Limits, p.Messages)
	for _, j := range p.Jobs {
		fmt.Fprintf(&b, "  %+v\n", j)
	}
	for _, a := range p.Runs {
		fmt.Fprintf(&b, "  %+v\n", a)
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %+v\n", f)
	}
	return b.String()
}
