// Package protocol is the wire contract between headquarters, terminals and
// technicians: topics, messages, codes, and the one strict way to decode.
//
// It knows no program, opens no connection and decides nothing; it imports
// only the standard library and internal/task.
package protocol

import (
	"fmt"
	"strings"
)

// DefaultRoot is the topic prefix unless the configuration names another.
const DefaultRoot = "muster/v1"

// maxID bounds an id, in bytes.
const maxID = 63

// ValidID reports whether s may be a store, terminal, task, run or user id:
// 1 to 63 of the characters A-Z a-z 0-9 . _ - and the first a letter or digit.
// Ids are compared exactly; "007" and "1E5" are text.
func ValidID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// ValidRoot reports whether s may be a topic root: one or more levels that are
// each a valid id.
func ValidRoot(s string) bool {
	for level := range strings.SplitSeq(s, "/") {
		if !ValidID(level) {
			return false
		}
	}
	return true
}

// Topics builds and parses topics under one root. The zero value is not
// usable; call NewTopics. Safe for concurrent use.
type Topics struct{ root string }

// NewTopics returns the topics under root, such as "muster/v1". It fails when
// root is not valid.
func NewTopics(root string) (Topics, error) {
	if !ValidRoot(root) {
		return Topics{}, fmt.Errorf("cannot use topic root %q: each level must be 1 to 63 of A-Z a-z 0-9 . _ -", root)
	}
	return Topics{root: root}, nil
}

// Root returns the prefix without a final slash.
func (t Topics) Root() string { return t.root }

func (t Topics) join(levels ...string) string {
	all := append(make([]string, 0, 8), t.root) // so many at most: the topic is all that is allocated
	return strings.Join(append(all, levels...), "/")
}

// Offer is the retained offer of one task.
func (t Topics) Offer(store, task string) string { return t.join("stores", store, "tasks", task) }

// OfferFilter returns the store and the task whose offers a topic filter matches, "" for
// any; ok is false when it matches no offer at all.
func (t Topics) OfferFilter(filter string) (store, task string, ok bool) {
	levels := strings.Split(filter, "/")
	for want := range strings.SplitSeq(t.Offer("{store}", "{task}"), "/") {
		if len(levels) == 0 {
			return "", "", false
		}
		level := levels[0]
		levels = levels[1:]
		switch {
		case level == "#":
			return store, "", true
		case level == "+":
		case want == "{store}":
			store = level
		case want == "{task}":
			task = level
		case level != want:
			return "", "", false
		}
	}
	return store, task, len(levels) == 0 || levels[0] == "#"
}

// Terminal is the topic of one kind of message from or to a terminal.
func (t Topics) Terminal(store, terminal string, kind Kind) string {
	return t.join("stores", store, "terminals", terminal, string(kind))
}

// Request is the topic on which a user asks.
func (t Topics) Request(user string, verb Verb) string { return t.join("req", user, string(verb)) }

// Replies is the prefix, with its final slash, under which a user may have
// replies.
func (t Topics) Replies(user string) string { return t.join("rep", user) + "/" }

// LastReply is where replies go when the request names no response topic.
func (t Topics) LastReply(user string) string { return t.join("rep", user, "last") }

// Run is a topic about one run.
func (t Topics) Run(run string, kind RunKind) string { return t.join("runs", run, string(kind)) }

// RunStore carries one event a store of a run.
func (t Topics) RunStore(run, store string) string { return t.join("runs", run, "stores", store) }

// Info is the retained description of headquarters.
func (t Topics) Info() string { return t.join("info") }

// Trust is the retained list of headquarters' signing keys.
func (t Topics) Trust() string { return t.join("trust") }

// Alarm is the topic of one kind of alarm.
func (t Topics) Alarm(severity Severity, kind string) string {
	return t.join("alarms", string(severity), kind)
}

// Kind names a message that a terminal or headquarters sends under
// stores/{store}/terminals/{terminal}/, or an offer.
type Kind string

// The kinds. KindOffer stands for stores/{store}/tasks/{task}.
const (
	KindOffer    Kind = "offer"
	KindClaim    Kind = "claim"
	KindProgress Kind = "progress"
	KindReady    Kind = "ready"
	KindResult   Kind = "result"
	KindHello    Kind = "hello"
	KindOrders   Kind = "orders"
	KindPresence Kind = "presence"
)

// FromTerminal lists what a terminal publishes for headquarters to take in.
func FromTerminal() []Kind {
	return []Kind{KindClaim, KindProgress, KindReady, KindResult, KindHello}
}

// Verb names what a technician asks for.
type Verb string

// The verbs.
const (
	VerbRun     Verb = "run"
	VerbCancel  Verb = "cancel"
	VerbStatus  Verb = "status"
	VerbRetry   Verb = "retry"
	VerbApprove Verb = "approve"
	VerbJobs    Verb = "jobs"
	VerbHelp    Verb = "help"
)

// Verbs lists every verb once.
func Verbs() []Verb {
	return []Verb{VerbRun, VerbCancel, VerbStatus, VerbRetry, VerbApprove, VerbJobs, VerbHelp}
}

// RunKind names a topic about a run.
type RunKind string

// The topics about a run; state and summary are retained, text is not.
const (
	RunState   RunKind = "state"
	RunSummary RunKind = "summary"
	RunText    RunKind = "text"
)

// Severity of an alarm.
type Severity string

// The severities.
const (
	SeverityWarning  Severity = "warning"
	SeverityCritical Severity = "critical"
)

// Area says which branch of the topic tree an Address lies in.
type Area string

// The areas.
const (
	AreaStores  Area = "stores"
	AreaRequest Area = "req"
	AreaReply   Area = "rep"
	AreaRuns    Area = "runs"
	AreaInfo    Area = "info"
	AreaTrust   Area = "trust"
	AreaAlarms  Area = "alarms"
)

// Address is a parsed topic. Only the fields of its area are set: Store and
// Kind with Task (offers) or Terminal; User with Verb (requests) or Rest
// (replies); Run with RunKind, or Run with Store (one event a store); Severity
// and Rest (alarms).
type Address struct {
	Area     Area
	Store    string
	Terminal string
	Task     string
	Kind     Kind
	User     string
	Verb     Verb
	Run      string
	RunKind  RunKind
	Severity Severity
	Rest     string
}

// Parse takes a concrete topic (no wildcards) apart. ok is false for a topic
// outside the root, of another shape, or with an id that is not valid.
func (t Topics) Parse(topic string) (a Address, ok bool) {
	rest, under := strings.CutPrefix(topic, t.root+"/")
	if !under {
		return Address{}, false
	}
	var few [8]string // every topic of ours has less
	levels := few[:0]
	for level := range strings.SplitSeq(rest, "/") {
		levels = append(levels, level)
	}
	switch Area(levels[0]) {
	case AreaStores:
		return parseStore(levels)
	case AreaRequest:
		return parseRequest(levels)
	case AreaReply:
		return parseReply(levels)
	case AreaRuns:
		return parseRun(levels)
	case AreaInfo, AreaTrust:
		return Address{Area: Area(levels[0])}, len(levels) == 1
	case AreaAlarms:
		return parseAlarm(levels)
	}
	return Address{}, false
}

func parseStore(levels []string) (Address, bool) {
	if len(levels) < 4 || !ValidID(levels[1]) || !ValidID(levels[3]) {
		return Address{}, false
	}
	a := Address{Area: AreaStores, Store: levels[1]}
	switch {
	case levels[2] == "tasks" && len(levels) == 4:
		a.Kind, a.Task = KindOffer, levels[3]
		return a, true
	case levels[2] == "terminals" && len(levels) == 5:
		a.Terminal, a.Kind = levels[3], Kind(levels[4])
		switch a.Kind {
		case KindClaim, KindProgress, KindReady, KindResult, KindHello, KindOrders, KindPresence:
			return a, true
		case KindOffer:
		}
	}
	return Address{}, false
}

func parseRequest(levels []string) (Address, bool) {
	if len(levels) != 3 || !ValidID(levels[1]) {
		return Address{}, false
	}
	return Address{Area: AreaRequest, User: levels[1], Verb: Verb(levels[2])}, ValidID(levels[2])
}

func parseReply(levels []string) (Address, bool) {
	if len(levels) < 3 || !ValidID(levels[1]) {
		return Address{}, false
	}
	return Address{Area: AreaReply, User: levels[1], Rest: strings.Join(levels[2:], "/")}, true
}

func parseRun(levels []string) (Address, bool) {
	if len(levels) < 3 || !ValidID(levels[1]) {
		return Address{}, false
	}
	a := Address{Area: AreaRuns, Run: levels[1]}
	if len(levels) == 4 && levels[2] == "stores" && ValidID(levels[3]) {
		a.Store = levels[3]
		return a, true
	}
	if len(levels) != 3 {
		return Address{}, false
	}
	a.RunKind = RunKind(levels[2])
	switch a.RunKind {
	case RunState, RunSummary, RunText:
		return a, true
	}
	return Address{}, false
}

func parseAlarm(levels []string) (Address, bool) {
	if len(levels) != 3 || !ValidID(levels[2]) {
		return Address{}, false
	}
	a := Address{Area: AreaAlarms, Severity: Severity(levels[1]), Rest: levels[2]}
	switch a.Severity {
	case SeverityWarning, SeverityCritical:
		return a, true
	}
	return Address{}, false
}
