package presence

import (
	"fmt"
	"slices"
	"time"

	"muster/dispatcher/internal/alarm"
	"muster/internal/protocol"
)

const (
	// replacedKept bounds the processes of a terminal that are remembered.
	replacedKept = 8
	// twinsQuiet is how long nothing must be seen of the second machine before it
	// is taken to be gone: more than twice the longest back-off of terminals that
	// push each other out.
	twinsQuiet = 15 * time.Minute
	// twinsAgain is how often the alarm is raised again while both are there.
	twinsAgain = 10 * time.Minute
)

// twins finds two machines with one identity by their hellos. A process that
// another took the place of never comes back, unless both live.
type twins struct {
	instance string   // of the last hello
	replaced []string // those before it, the newest last
	seen     time.Time
	told     time.Time // zero: no alarm is on
}

// heardFrom notes a hello and reports whether an alarm is due.
func (t *twins) heardFrom(instance string, now time.Time) bool {
	if instance == "" || instance == t.instance {
		return false
	}
	back := slices.Contains(t.replaced, instance)
	if t.instance != "" && !slices.Contains(t.replaced, t.instance) {
		t.replaced = append(t.replaced, t.instance)
		t.replaced = t.replaced[max(0, len(t.replaced)-replacedKept):]
	}
	t.instance = instance
	if !back {
		return false
	}
	t.seen = now
	if !t.told.IsZero() && now.Sub(t.told) < twinsAgain {
		return false
	}
	t.told = now
	return true
}

// over reports whether the alarm ends.
func (t *twins) over(now time.Time) bool {
	if t.told.IsZero() || now.Sub(t.seen) < twinsQuiet {
		return false
	}
	t.told = time.Time{}
	return true
}

// errTwins says what to do when a process is back that another had replaced.
func errTwins(process string) error {
	return &alarm.Trouble{
		En: fmt.Sprintf("two machines speak as this terminal, each time the one pushes the other out: "+
			"stop the one that does not belong there; then revoke the terminal, and enrol the one that stays anew (process %s is back)", process),
		Zh: fmt.Sprintf("两台机器互相把对方挤下线。请停止多余的一台，吊销该终端，再重新注册留下的一台（进程 %s 又出现）", process),
	}
}

// lookForTwins takes the instance of a hello.
func (p *Presence) lookForTwins(who terminal, instance string) {
	if len(instance) > maxInstance {
		return
	}
	if p.twinsFound(who, instance) {
		p.alarmTwins(who, errTwins(instance))
	}
}

func (p *Presence) twinsFound(who terminal, instance string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.known[who]
	if st == nil {
		st = &state{who: who}
		p.known[who] = st
	}
	return st.twins.heardFrom(instance, time.Now())
}

// maxInstance bounds the name of a process, as the schema does.
const maxInstance = 63

// endTwins tells which alarms are over.
func (p *Presence) endTwins() {
	for _, who := range p.noTwins(time.Now()) {
		_ = p.alone(who, func() error { p.alarmTwins(who, nil); return nil })
	}
}

// noTwins takes those whose second machine is gone.
func (p *Presence) noTwins(now time.Time) (over []terminal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for who, st := range p.known {
		if st.twins.over(now) {
			over = append(over, who)
		}
	}
	return over
}

func (p *Presence) alarmTwins(who terminal, trouble error) {
	if p.cfg.Alarm != nil {
		p.cfg.Alarm(protocol.AlarmTwins, who.store+"/"+who.id, trouble)
	}
}
