// Command soak attacks Muster for an hour and judges what it kept: a real
// headquarters, real agents behind taps, and simulated terminals that speak the
// whole protocol over real connections, while a seed decides what is killed, cut,
// filled, restored and set.
//
//	go run ./tests/chaos/soak -duration 1h -seed 7 -report docs/reliability.md
//
// A shorter soak has its share of every fault, and at least one of each. What a soak
// kept is judged again, without an attack, by
//
//	go run ./tests/chaos/soak -judge FOLDER
//
// # What a restore may take back
//
// A restored headquarters has forgotten what happened after its backup began, so
// the rules of the checker do not hold across it. The soak is therefore parted
// into epochs, from restore to restore, and each is judged by its own evidence:
// the database and the reports as they were when headquarters was killed for the
// restore, and the history of
//
//   - everybody, from the restore before to that moment;
//   - before that: whatever was said until the backup began about a run that was
//     still open then. What came after it is taken back: headquarters' replies
//     are unknown, its grants, receipts and events never came, and the mark of an
//     attempt that was granted then is not looked for in the database. What
//     terminals sent is not taken back, because they may be answered by it later.
//     Headquarters counts as away from the beginning of the backup to its return.
//
// Runs that were closed and wholly published in the backup are judged in its
// epoch and left out of the next, which bounds the memory of the judge. That they,
// and everything else that the backup holds as settled, answered, judged,
// published or ordered, are in the database of the next epoch unchanged is
// compared row by row. Over all epochs together no task and attempt may have two
// marks of execution, whatever a restore took back.
//
// # What is left out
//
// Headquarters is not killed while its clock is set, since one that starts believes
// the wall and the judge goes by this machine's; and while the clock is set, a run
// is before its barrier, so that headquarters' time must not follow. Simulated
// terminals keep what they know in memory and are not killed; the real agents are.
// A headquarters that is killed on a full disk may refuse to start, and is started
// again when there is room.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

type options struct {
	duration  time.Duration
	seed      uint64
	report    string
	bin       string
	folder    string
	terminals int
	agents    int
	keep      bool
	judge     string
}

// leastDuration is what one of each fault and the end of everything need.
const leastDuration = 2 * time.Minute

func main() {
	var o options
	flag.DurationVar(&o.duration, "duration", time.Hour, "of the attack and the quiet after it; the judge comes on top")
	flag.Uint64Var(&o.seed, "seed", 0, "decides what happens when; 0: any")
	flag.StringVar(&o.report, "report", "", "file that is written anew")
	flag.StringVar(&o.bin, "bin", "bin", "folder of dispatcher and edge-agent")
	flag.StringVar(&o.folder, "folder", "", "where everything is kept, a new one; empty: a temporary one")
	flag.IntVar(&o.terminals, "terminals", 2000, "simulated terminals")
	flag.IntVar(&o.agents, "agents", 20, "real agents")
	flag.BoolVar(&o.keep, "keep", false, "leave the folder, which stays anyway when something is found")
	flag.StringVar(&o.judge, "judge", "", "a folder that a soak has kept: judge it again, and attack nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // who asks twice is not kept waiting
	var err error
	if o.judge != "" {
		err = judgeAgain(ctx, o.judge)
	} else {
		err = attackAndJudge(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// errFound: promises were broken; they have been said.
var errFound = errors.New("promises were broken")

func attackAndJudge(ctx context.Context, o options) (err error) {
	if o.duration < leastDuration || o.terminals < 1 || o.agents < 1 {
		return fmt.Errorf("a soak takes %v at least, with a terminal and an agent", leastDuration)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	s, err := newSoak(o)
	if err != nil {
		return err
	}
	defer func() {
		s.tearDown()
		if err == nil && !o.keep {
			err = os.RemoveAll(s.dir)
		} else {
			fmt.Fprintf(os.Stderr, "soak: everything is in %s\n", s.dir)
		}
	}()
	if err := s.setUp(ctx); err != nil {
		return err
	}
	if err := s.live(ctx); err != nil {
		return err
	}
	s.tearDown()
	if err := s.record(true); err != nil {
		return err
	}
	found, sum, err := s.verdict(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.report(ctx, found, sum), broken(len(found)))
}

// verdict says and returns everything that is wrong, what the soak itself found first.
func (s *soak) verdict(ctx context.Context) (found []string, sum figures, err error) {
	done := bounded()
	all, sum, err := s.judge(ctx)
	done()
	if err != nil {
		return nil, sum, err
	}
	found = slices.Concat(s.findings, all)
	for _, one := range found {
		fmt.Println(one)
	}
	return found, sum, nil
}

func broken(found int) error {
	if found == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d findings", errFound, found)
}

// judgeBytes bounds the memory of the judge: beyond it something is wrong with
// the judge, and the machine is not to suffer.
const judgeBytes = 8 << 30

func bounded() (done func()) {
	over := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				if now, ok := history.Measure(os.Getpid()); ok && now.RSSBytes > judgeBytes {
					panic("the judge needs more memory than it may have")
				}
			}
		}
	}()
	return func() { close(over) }
}

func newSoak(o options) (*soak, error) {
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return nil, err
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return nil, err
	}
	dir := o.folder
	if dir == "" {
		dir, err = os.MkdirTemp("", "muster-soak-")
	} else if dir, err = filepath.Abs(dir); err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	return &soak{opts: o, plan: newPlan(o.duration, o.agents, o.seed), dir: dir, topics: topics, begin: time.Now()}, nil
}

// live is the attack, and the quiet after it.
func (s *soak) live(ctx context.Context) error {
	p := s.plan
	s.say("seed %d, %v of attack, %v of quiet, %d terminals, %d agents, barrier %v", s.opts.seed, p.attack, p.quiet, s.opts.terminals, s.opts.agents, p.barrier)
	if err := s.clock(ctx); err != nil {
		return err
	}
	first, err := s.eye.fault("dispatcher", true)
	if err != nil {
		return err
	}
	s.current().FromUs, s.current().FromMs = first.MonoUs, first.AtMs
	if err := s.back(); err != nil {
		return err
	}
	for i := range s.opts.agents {
		a, err := s.newAgent(ctx, fmt.Sprintf("R%03d", i))
		if err != nil {
			return err
		}
		s.agents = append(s.agents, a)
	}
	s.crowd = s.newCrowd(ctx)
	watching, unwatch := context.WithCancel(ctx)
	attacking, over := context.WithCancel(ctx)
	var watchers, people sync.WaitGroup
	defer func() { over(); people.Wait(); unwatch(); watchers.Wait() }()
	for _, watch := range []func(context.Context){s.watchRuns, s.lookOn, s.tell} {
		watchers.Go(func() { watch(watching) })
	}
	s.begin = time.Now()
	if _, err := s.eye.fault("terminals away", true); err != nil {
		return err
	}
	people.Go(func() { s.crowd.roll(attacking) })
	people.Go(func() { s.sample(attacking) }) // in the quiet all terminals are there
	people.Go(func() { s.newPerson("wang", 1).work(attacking, 40*time.Second, 70) })
	people.Go(func() { s.newPerson("li", 2).work(attacking, 25*time.Second, 5) })
	people.Go(func() { s.newPerson("chen", 3).work(attacking, 20*time.Second, 0) })
	if err := s.attack(ctx); err != nil {
		return err
	}
	s.wait(ctx, s.begin.Add(p.attack))
	over()
	people.Wait()
	if _, err := s.eye.fault("terminals away", false); err != nil {
		return err
	}
	s.say("quiet")
	s.wait(ctx, s.begin.Add(p.attack+p.quiet))
	unwatch()
	watchers.Wait()
	return errors.Join(ctx.Err(), s.finish(ctx))
}

func (s *soak) wait(ctx context.Context, until time.Time) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(until)):
	}
}

// finish stops headquarters and keeps what it left as the last epoch.
func (s *soak) finish(ctx context.Context) error {
	s.tally.used(s.hq.pid())
	s.hqPID.set(0)
	s.look(false)
	if err := s.hq.stop(time.Minute); err != nil {
		s.found("%v", err)
	}
	s.crowd.stop()
	for _, a := range s.agents {
		a.close()
	}
	s.agents = nil
	e := s.current()
	if err := s.keep(ctx, e); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := move(s.path("data", "muster.db"+suffix), filepath.Join(e.Folder, "muster.db"+suffix)); err != nil {
			return err
		}
	}
	s.epochs = append(s.epochs, *e)
	return s.ledger.close()
}

// tell says once a minute how it goes.
func (s *soak) tell(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	last, busy := time.Now(), time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			used := s.tally.usedSoFar(s.hqPID.get())
			own := processorTime(os.Getpid())
			s.say("headquarters used %d %% of one processor, this process %v in all; %d lines, %d receipts, %d requests (%d unanswered), %d MiB at the most",
				100*(used-busy)/now.Sub(last), own.Round(time.Second), s.ledger.lines.Load(), s.tally.accepted.Load(),
				s.tally.requests.Load(), s.tally.unanswered.Load(), s.tally.peakRSS.Load()>>20)
			last, busy = now, used
		}
	}
}
