package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// fault is one kind of what is done to the programs.
type fault string

// The faults, and their ends where they last.
const (
	killHeadquarters fault = "headquarters killed"
	killAgent        fault = "agent killed"
	fillDisk         fault = "disk full"
	emptyDisk        fault = "disk has room"
	backUp           fault = "backup"
	restoreBackup    fault = "restored"
	jumpClock        fault = "clock jumped"
	jumpBack         fault = "clock is back"
	storm            fault = "reconnect storm"
)

// deed is a fault at its time, from the start of the attack.
type deed struct {
	at   time.Duration
	what fault
	n    int // which agent is killed, how many milliseconds headquarters stays away
	by   time.Duration
}

// plan is everything that a seed decides about a soak, before it begins.
type plan struct {
	attack  time.Duration // faults and orders
	quiet   time.Duration // after it: everything has to settle
	barrier time.Duration
	makeup  time.Duration
	settle  time.Duration
	deeds   []deed
}

// The hour's amounts; a shorter soak has its share, and at least one of each.
const (
	diskWindows = 6
	restores    = 4
	clockJumps  = 20
	stormEvery  = 5 * time.Minute
	killFrom    = 5 * time.Second
	killSpread  = 25 * time.Second
)

func share(whole int, d time.Duration) int {
	return max(1, int(math.Round(float64(whole)*d.Hours())))
}

// span is a stretch of the attack in which something lasts.
type span struct{ from, to time.Duration }

func (s span) holds(at time.Duration) bool { return at >= s.from && at < s.to }

func within(all []span, at time.Duration) bool {
	return slices.ContainsFunc(all, func(s span) bool { return s.holds(at) })
}

// newPlan spreads the faults over the time. The same arguments give the same
// plan.
func newPlan(d time.Duration, agents int, seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := plan{barrier: clamp(d/60, 15*time.Second, time.Minute)}
	p.settle, p.makeup = clamp(p.barrier, 20*time.Second, time.Minute), 3*p.barrier
	p.quiet = p.barrier + p.settle + 15*time.Second
	p.attack = d - p.quiet

	turns := share(restores, d)
	var busy, alone []span // busy: nothing else that lasts; alone: headquarters is not killed
	for i := range turns {
		at := p.attack * time.Duration(i+1) / time.Duration(turns+1)
		before := min(45*time.Second, p.attack/time.Duration(4*(turns+1)))
		p.add(deed{at: at - before, what: backUp}, deed{at: at, what: restoreBackup})
		busy = append(busy, span{at - before - 5*time.Second, at + 10*time.Second})
		alone = append(alone, span{at - before - 3*time.Second, at - before + 3*time.Second}, span{at - 4*time.Second, at + 8*time.Second})
	}
	if epoch := p.attack / time.Duration(turns+1); epoch >= 4*time.Minute {
		for i := range turns + 1 { // a life that is long enough to tell whether it grows
			end := epoch * time.Duration(i+1)
			alone = append(alone, span{end - epoch*35/100, end})
		}
	}
	lasting := func(n int, phase float64, begin, end fault, long func() time.Duration, how func(*deed)) {
		for i := range n {
			length := long()
			at := free(busy, time.Duration((float64(i)+phase)*float64(p.attack)/float64(n)), length, p.attack)
			one := deed{at: at, what: begin}
			how(&one)
			p.add(one, deed{at: at + length, what: end})
			busy = append(busy, span{at - time.Second, at + length + time.Second})
			if begin == jumpClock { // a headquarters that starts believes the wall
				alone = append(alone, span{at - 3*time.Second, at + length + time.Second})
			}
		}
	}
	lasting(share(diskWindows, d), 0.3, fillDisk, emptyDisk, func() time.Duration { return 6*time.Second + some(rng, 6*time.Second) }, func(*deed) {})
	lasting(share(clockJumps, d), 0.55, jumpClock, jumpBack, func() time.Duration { return 5*time.Second + some(rng, 5*time.Second) },
		func(one *deed) { one.by = jump(rng) })
	for at := stormEvery; at < p.attack || at == stormEvery; at += stormEvery {
		p.add(deed{at: min(at, p.attack*4/5), what: storm})
	}
	p.kills(rng, agents, alone)
	slices.SortStableFunc(p.deeds, func(a, b deed) int { return cmp.Compare(a.at, b.at) })
	return p
}

func (p *plan) add(deeds ...deed) { p.deeds = append(p.deeds, deeds...) }

// kills are 5 to 30 s apart. The first that may hit headquarters does.
func (p *plan) kills(rng *rand.Rand, agents int, alone []span) {
	first := true
	for at := killFrom + some(rng, killSpread); at < p.attack; at += killFrom + some(rng, killSpread) {
		if !within(alone, at) && (first || rng.IntN(5) < 2) {
			first = false
			p.add(deed{at: at, what: killHeadquarters, n: rng.IntN(3000)})
			continue
		}
		p.add(deed{at: at, what: killAgent, n: rng.IntN(agents)})
	}
	for at := killFrom; first && at < p.attack; at += time.Second {
		if !within(alone, at) {
			first = false
			p.add(deed{at: at, what: killHeadquarters, n: rng.IntN(3000)})
		}
	}
}

// jump is by how far the wall is set: from seconds to more than a day, either
// way.
func jump(rng *rand.Rand) time.Duration {
	by := time.Duration(math.Exp(rng.Float64()*math.Log(26*3600/2))*2) * time.Second
	if rng.IntN(2) == 0 {
		return -by
	}
	return by
}

// free is the first moment from at on where length fits between the spans; at
// itself when there is none.
func free(busy []span, at, length, end time.Duration) time.Duration {
	for step := time.Duration(0); step < end; step += time.Second {
		for _, try := range []time.Duration{at + step, at - step} {
			if try >= killFrom && try+length < end-time.Second && !within(busy, try) && !within(busy, try+length) &&
				!slices.ContainsFunc(busy, func(s span) bool { return s.from >= try && s.to <= try+length }) {
				return try
			}
		}
	}
	return at
}

func clamp(d, least, most time.Duration) time.Duration { return min(max(d, least), most) }

// amount counts the deeds of a kind.
func (p *plan) amount(what fault) (n int) {
	for _, d := range p.deeds {
		if d.what == what {
			n++
		}
	}
	return n
}

func some(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
