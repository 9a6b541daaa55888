package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

// book is the evidence, sorted for looking things up.
type book struct {
	Evidence
	topics protocol.Topics
	limits Limits

	rule    Rule
	found   []Finding
	weights Weights

	runs     map[string]Run
	tasks    map[string]Task
	ofRun    map[string][]Task
	ofStore  map[string][]Task
	ofTask   map[string][]Attempt // by number
	attempts map[execution]Attempt
	targets  map[string]map[string]bool // run: stores

	grants   []order                 // first of each attempt, in the order of the histories
	doubled  []order                 // grants of an attempt that somebody else got before
	orders   []order                 // every order that an agent got
	results  map[execution][]result  // every result that an agent sent
	large    map[execution]announced // results that are announced first
	events   []event                 // every step of a store that was seen
	requests []request               // every request that was asked
	claims   map[string]history.Line // task: the first that was sent
	marks    []history.Line
	faults   []fault
	away     []fault // in which headquarters can close no barrier

	subscribed []subscribed
	connected  map[string]int64     // who: when their newest connection began, while the history is read
	ended      map[string][]int64   // who: when a connection of theirs ended
	outcomes   map[string][]Outcome // run: its rows, by revision
	offered    map[seat][]int64     // when an offer was got
	files      []reportFile         // the published files that are there
}

// seat is one participant, and a topic or task.
type seat struct{ who, what string }

// execution is one attempt of one task.
type execution struct {
	task    string
	attempt int
}

type order struct {
	history.Line
	Order protocol.Order
}

func (o order) execution() execution { return execution{o.Order.TaskID, o.Order.Attempt} }

type result struct {
	history.Line
	Result protocol.Result
}

func (r result) execution() execution { return execution{r.Result.TaskID, r.Result.Attempt} }

// announced is a result that waits for its turn: how large it is, and when that was
// said first.
type announced struct{ bytes, at int64 }

type event struct {
	history.Line
	StoreEvent protocol.StoreEvent
}

// subscribed is a subscription over a connection that began at since, 0 if that is
// not known.
type subscribed struct {
	history.Line
	since int64
}

// request is one call of a client. Reply is the zero value unless outcome is
// ok or refused.
type request struct {
	asked, answered history.Line
	user            string
	verb            protocol.Verb
	outcome         history.Outcome
	reply           protocol.Reply
}

// fault is from its beginning to its end, epoch milliseconds; end is 0 when it
// is not over.
type fault struct {
	name       string
	begin, end int64
}

func open(e Evidence) (*book, error) {
	topics, err := protocol.NewTopics(cmp.Or(e.Root, protocol.DefaultRoot))
	if err != nil {
		return nil, err
	}
	b := &book{Evidence: e, topics: topics, limits: e.Limits.filled(), weights: Weights{},
		results: map[execution][]result{}, large: map[execution]announced{},
		runs: map[string]Run{}, tasks: map[string]Task{}, ofRun: map[string][]Task{},
		ofStore: map[string][]Task{}, ofTask: map[string][]Attempt{},
		attempts: map[execution]Attempt{}, targets: map[string]map[string]bool{},
		outcomes: map[string][]Outcome{}, offered: map[seat][]int64{}, claims: map[string]history.Line{}, ended: map[string][]int64{}, connected: map[string]int64{}}
	for _, r := range e.Store.Runs {
		b.runs[r.RunID] = r
		b.targets[r.RunID] = map[string]bool{}
	}
	for _, t := range e.Store.Targets {
		if b.targets[t.RunID] == nil {
			return nil, fmt.Errorf("cannot judge: the database has targets of run %s and no such run", t.RunID)
		}
		b.targets[t.RunID][t.StoreID] = true
	}
	for _, t := range e.Store.Tasks {
		b.tasks[t.TaskID] = t
		b.ofRun[t.RunID] = append(b.ofRun[t.RunID], t)
		b.ofStore[t.StoreID] = append(b.ofStore[t.StoreID], t)
	}
	for _, a := range e.Store.Attempts {
		b.attempts[execution{a.TaskID, a.Attempt}] = a
		b.ofTask[a.TaskID] = append(b.ofTask[a.TaskID], a)
	}
	for _, o := range e.Store.Outcomes {
		b.outcomes[o.RunID] = append(b.outcomes[o.RunID], o)
	}
	for _, list := range b.ofTask {
		slices.SortStableFunc(list, func(a, c Attempt) int { return cmp.Compare(a.Attempt, c.Attempt) })
	}
	b.files = b.publishedFiles()
	return b, b.read()
}

// read takes the histories apart. A message that cannot be read is nobody's
// proof: participants may send anything.
func (b *book) read() error {
	calls := map[string]int{}
	granted := map[execution]order{}
	for _, l := range b.History {
		call := fmt.Sprintf("%s %s %d", fileOf(l), l.Who, l.Call)
		switch l.Act {
		case history.ActAsked:
			addr, ok := b.topics.Parse(l.Topic)
			if !ok || addr.Area != protocol.AreaRequest {
				return fmt.Errorf("cannot judge: %s asks on %q, which is no request topic", l.Source, l.Topic)
			}
			calls[call] = len(b.requests)
			b.requests = append(b.requests, request{asked: l, user: addr.User, verb: addr.Verb, outcome: history.OutcomeUnknown})
		case history.ActAnswered:
			if err := b.answer(l, calls, call); err != nil {
				return err
			}
		case history.ActSent:
			b.sent(l)
		case history.ActGot:
			b.got(l, granted)
		case history.ActExecuted:
			b.marks = append(b.marks, l)
		case history.ActFault:
			b.fault(l)
		case history.ActSubscribed:
			b.subscribed = append(b.subscribed, subscribed{l, b.connected[l.Who]})
		case history.ActDisconnected:
			b.ended[l.Who] = append(b.ended[l.Who], l.AtMs)
		case history.ActConnected:
			b.connected[l.Who] = l.AtMs
		case history.ActLooked, history.ActSampled:
		default:
			return fmt.Errorf("cannot judge: %s has the unknown act %q", l.Source, l.Act)
		}
	}
	for _, f := range b.faults {
		if !strings.HasPrefix(f.name, faultDispatcher) {
			continue
		}
		if f.end == 0 {
			f.end = b.Store.TakenAt
		}
		b.away = append(b.away, f)
	}
	return nil
}

func (b *book) answer(l history.Line, calls map[string]int, call string) error {
	i, ok := calls[call]
	if !ok {
		return fmt.Errorf("cannot judge: %s answers a call that nobody made", l.Source)
	}
	r := &b.requests[i]
	r.answered, r.outcome = l, l.Outcome
	if l.Outcome != history.OutcomeUnknown {
		if err := protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &r.reply); err != nil {
			return fmt.Errorf("cannot judge: the reply at %s: %w", l.Source, err)
		}
	}
	return nil
}

func (b *book) sent(l history.Line) {
	addr, ok := b.topics.Parse(l.Topic)
	if !ok || l.Role != history.RoleAgent {
		return
	}
	r := result{Line: l}
	var claim protocol.Claim
	var ready protocol.Ready
	switch {
	case addr.Kind == protocol.KindResult && protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &r.Result) == nil:
		b.results[r.execution()] = append(b.results[r.execution()], r)
	case addr.Kind == protocol.KindReady && protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &ready) == nil:
		key := execution{ready.TaskID, ready.Attempt}
		b.large[key] = announced{ready.Bytes, cmp.Or(b.large[key].at, l.AtMs)}
	case addr.Kind == protocol.KindClaim && protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &claim) == nil:
		if _, again := b.claims[claim.TaskID]; !again {
			b.claims[claim.TaskID] = l
		}
	}
}

func (b *book) got(l history.Line, granted map[execution]order) {
	addr, ok := b.topics.Parse(l.Topic)
	if !ok {
		return
	}
	switch {
	case addr.Kind == protocol.KindOffer && l.Payload != "":
		at := seat{l.Who, l.Topic}
		b.offered[at] = append(b.offered[at], l.AtMs)
	case addr.Kind == protocol.KindOrders && l.Role == history.RoleAgent:
		o := order{Line: l}
		if protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &o.Order) != nil {
			return
		}
		b.orders = append(b.orders, o)
		if o.Order.Order != protocol.OrderGrant {
			return
		}
		switch first, again := granted[o.execution()]; {
		case !again:
			granted[o.execution()] = o
			b.grants = append(b.grants, o)
		case first.Who != o.Who:
			b.doubled = append(b.doubled, o)
		}
	case addr.Area == protocol.AreaRuns && addr.Store != "":
		e := event{Line: l}
		if protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &e.StoreEvent) == nil {
			b.events = append(b.events, e)
		}
	}
}

func (b *book) fault(l history.Line) {
	if l.On {
		b.faults = append(b.faults, fault{name: l.Name, begin: l.AtMs})
		return
	}
	for i := len(b.faults) - 1; i >= 0; i-- {
		if f := &b.faults[i]; f.name == l.Name && f.end == 0 {
			f.end = l.AtMs
			return
		}
	}
	b.faults = append(b.faults, fault{name: l.Name, begin: l.AtMs, end: l.AtMs})
}

// The names of faults that mean a restart; and how those begin that headquarters and
// its broker have no part in. A fault of one terminal names it at its end.
const (
	faultDispatcher = "dispatcher"
	faultBroker     = "broker"
	faultTerminal   = "terminal"
)

func (f fault) ofTerminals() bool { return strings.HasPrefix(f.name, faultTerminal) }

// of: the fault is that of one participant.
func (f fault) of(who string) bool { return f.ofTerminals() && strings.HasSuffix(f.name, " "+who) }

// ofHeadquarters: it is not there, or stands still, or its broker.
func (f fault) ofHeadquarters() bool {
	return strings.HasPrefix(f.name, faultDispatcher) || f.name == faultBroker
}

// lastFault is when the last fault ended; the copy's moment when one is not over.
func (b *book) lastFault() (at int64) {
	for _, f := range b.faults {
		if f.end == 0 {
			return b.Store.TakenAt
		}
		at = max(at, f.end)
	}
	return at
}

func fileOf(l history.Line) string {
	for i := len(l.Source) - 1; i >= 0; i-- {
		if l.Source[i] == ':' {
			return l.Source[:i]
		}
	}
	return l.Source
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
