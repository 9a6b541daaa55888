package protocol

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"muster/internal/task"
)

// Sizes that both ends of the wire keep to, in bytes.
const (
	// InlineLimit: a result up to this size is sent at once, a larger one is
	// announced and sent when headquarters gives a slot.
	InlineLimit = 8 << 10
	// MaxResultBytes bounds the result value of one attempt.
	MaxResultBytes = 256 << 10
	// MaxPayloadBytes bounds every message: a result with its frame and output
	// tail fits.
	MaxPayloadBytes = 384 << 10
	// MaxOutputTailBytes bounds the tail of an executor's output.
	MaxOutputTailBytes = 4 << 10
)

// Time is a moment as RFC 3339 with offset and milliseconds. The zero value is
// written as null.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Clock and FineClock, which has milliseconds, are how sentences for people show a
// moment: in the zone in which they read it, and with its offset, since whoever reads it
// may be elsewhere. Members of a message are never written so.
const (
	Clock     = "2006-01-02 15:04:05 -07:00"
	FineClock = "2006-01-02 15:04:05.000 -07:00"
)

// longestSpan bounds the milliseconds of a message: a hundred years, and far from what
// a time.Duration cannot hold.
const longestSpan = 100 * 365 * 24 * time.Hour

// Span is a number of milliseconds of a message, between a hundred years before and
// after nothing.
func Span(ms int64) time.Duration {
	const most = int64(longestSpan / time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// At wraps t, cut to milliseconds.
func At(t time.Time) Time { return Time{t.Truncate(time.Millisecond)} }

// MarshalJSON writes RFC 3339 with milliseconds, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.AppendFormat(make([]byte, 0, len(timeLayout)+2), `"`+timeLayout+`"`), nil
}

// UnmarshalJSON reads RFC 3339 with any number of decimals, or null.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = Time{}
		return nil
	}
	return t.Time.UnmarshalJSON(data)
}

// Meta stands in every payload: a ULID, the sender's clock, and a number that
// only grows within one sender.
type Meta struct {
	ID  string `json:"id"`
	At  Time   `json:"at"`
	Seq int64  `json:"seq"`
}

// Failure says why an attempt ended without a result. Detail is a stack or
// whatever else helps, at most 4 KiB; Path points into a refused result.
type Failure struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Detail  string `json:"detail,omitempty"`
	Path    string `json:"path,omitempty"`
}

// Tail is the end of the detail, where programs say what went wrong: the last characters of it, most at most, with
// \n at the end of lines and spaces for tabs. What it leaves out stands in front as the number of all characters.
func (f Failure) Tail(most int) string {
	detail := strings.TrimSpace(strings.NewReplacer("\r\n", "\n", "\t", "    ").Replace(f.Detail))
	n := utf8.RuneCountInString(detail)
	if n <= most {
		return detail
	}
	return "[" + strconv.Itoa(n) + "] … " + string([]rune(detail)[n-most:])
}

// Record is the task record in the names used everywhere. Deadline is the
// run's barrier, epoch milliseconds.
type Record struct {
	TaskID   string          `json:"taskId"`
	ParentID string          `json:"parentId"`
	StoreID  string          `json:"storeId"`
	Type     string          `json:"type"`
	Input    json.RawMessage `json:"input"`
	Status   task.Status     `json:"status"`
	Attempt  int             `json:"attempt"`
	Result   json.RawMessage `json:"result"`
	Error    *Failure        `json:"error"`
	Deadline int64           `json:"deadline"`
}

// Offer is the retained message that says a task is there to be done.
// TerminalID, when set, names the only terminal that may do it. NotBefore and
// QueueDeadline are epoch milliseconds on headquarters' clock; ScheduledFor is
// the moment the run was ordered, to which words such as "yesterday" refer.
type Offer struct {
	Meta
	Record
	TypeVersion   int      `json:"typeVersion"`
	TerminalID    string   `json:"terminalId,omitempty"`
	Attempts      int      `json:"attempts"`
	RunTimeoutMs  int64    `json:"runTimeoutMs"`
	NotBefore     int64    `json:"notBefore"`
	QueueDeadline int64    `json:"queueDeadline"`
	Requires      []string `json:"requires,omitempty"`
	ScheduledFor  Time     `json:"scheduledFor"`
}

// Condition is how a terminal feels when it claims; nil means not measured.
type Condition struct {
	Load         *float64 `json:"load,omitempty"`         // run queue a core
	BatteryPct   *float64 `json:"batteryPct,omitempty"`   // 0 to 100
	DiskFreeMB   *int64   `json:"diskFreeMB,omitempty"`   // of the work folder
	SignalPct    *float64 `json:"signalPct,omitempty"`    // 0 to 100
	TemperatureC *float64 `json:"temperatureC,omitempty"` // of the processor
}

// Claim asks for a task. StoredAttempt is the attempt whose stored result the
// terminal would answer with, 0 when it would execute. Instance is the process
// that asks, new at each start; Previous is the one before it, when that had
// claimed the task and this one took up its work.
type Claim struct {
	Meta
	TaskID        string    `json:"taskId"`
	StoredAttempt int       `json:"storedAttempt,omitempty"`
	Instance      string    `json:"instance,omitempty"`
	Previous      string    `json:"previous,omitempty"`
	Condition     Condition `json:"condition"`
}

// Progress says that an attempt lives and renews its lease. The first one of
// an attempt says that it started.
type Progress struct {
	Meta
	TaskID  string `json:"taskId"`
	Attempt int    `json:"attempt"`
	Percent int    `json:"percent"`
	Note    string `json:"note,omitempty"`
}

// Ready announces a result over the inline limit.
type Ready struct {
	Meta
	TaskID  string `json:"taskId"`
	Attempt int    `json:"attempt"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// Answer says how an attempt ended.
type Answer string

// The answers.
const (
	AnswerSucceeded Answer = "succeeded"
	AnswerFailed    Answer = "failed"
	AnswerCancelled Answer = "cancelled"
)

// Result is the answer of one attempt. SHA256 is the lower-case hex digest of
// the value of result (answer succeeded) or of error, byte for byte as it
// stands in the payload. Times are the terminal's own clock, epoch
// milliseconds. Executed is false when a stored result answers a new grant or
// the attempt never started. OfferSHA256 is the Hash of the offer that it
// answers, empty when none was at hand.
type Result struct {
	Meta
	TaskID     string          `json:"taskId"`
	Attempt    int             `json:"attempt"`
	Outcome    Answer          `json:"outcome"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"` // a Failure
	StartedAt  int64           `json:"startedAt"`
	FinishedAt int64           `json:"finishedAt"`
	DurationMs int64           `json:"durationMs"` // by the monotonic clock
	ExitCode   *int            `json:"exitCode,omitempty"`
	OutputTail string          `json:"outputTail,omitempty"`
	Executed   bool            `json:"executed"`
	SHA256     string          `json:"sha256"`

	OfferSHA256 string `json:"offerSha256,omitempty"`
}

// JobVersion names a job type and version that a terminal can execute.
type JobVersion struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
}

// OpenTask is a task as a terminal holds it, in hello.
type OpenTask struct {
	TaskID  string `json:"taskId"`
	Attempt int    `json:"attempt"`
	Phase   string `json:"phase"` // offered, claimed, running, done
}

// Hello opens every connection of a terminal; headquarters answers with sync.
// OrderSeq is the highest number of an order that the terminal took, 0 when it
// checks none: headquarters, restored from a backup, goes on above it. Partial says that
// Open was too long for one message and was cut: a task that is absent may be held all
// the same.
type Hello struct {
	Meta
	AgentVersion string            `json:"agentVersion"`
	Protocols    []int             `json:"protocols"`
	Jobs         []JobVersion      `json:"jobs"`
	Labels       map[string]string `json:"labels,omitempty"`
	Open         []OpenTask        `json:"open"`
	Partial      bool              `json:"partial,omitempty"`
	ClockMs      int64             `json:"clockMs"` // the terminal's wall clock
	OrderSeq     int64             `json:"orderSeq,omitempty"`
	Instance     string            `json:"instance,omitempty"` // see Claim
}

// OrderKind tells the orders apart.
type OrderKind string

// The orders.
const (
	OrderGrant   OrderKind = "grant"
	OrderDeny    OrderKind = "deny"
	OrderSend    OrderKind = "send"
	OrderReceipt OrderKind = "receipt"
	OrderCancel  OrderKind = "cancel"
	OrderSync    OrderKind = "sync"
)

// Order is what headquarters tells one terminal. Which fields stand in it
// depends on Order:
//
//	grant    taskId attempt leaseMs runTimeoutMs offerId offerSha256 [instance]
//	deny     taskId code message [retryAfterMs]
//	send     taskId attempt
//	receipt  taskId attempt sha256 accepted [code message path]
//	cancel   taskId attempt reason
//	sync     open [partial] serverTimeMs helloId
//
// A sync with partial true lists what fits a message: a task that is absent is
// not over. One without helloId asks the terminal for a hello.
//
// A grant with an instance is for the process that bears it and no other of the
// same terminal: two machines may have one identity.
//
// A receipt with accepted false means: stored for reading, refused as an
// answer; the terminal may delete its copy all the same.
type Order struct {
	Meta
	Order        OrderKind  `json:"order"`
	TaskID       string     `json:"taskId,omitempty"`
	Attempt      int        `json:"attempt,omitempty"`
	LeaseMs      int64      `json:"leaseMs,omitempty"`
	RunTimeoutMs int64      `json:"runTimeoutMs,omitempty"`
	OfferID      string     `json:"offerId,omitempty"`
	OfferSHA256  string     `json:"offerSha256,omitempty"`
	Instance     string     `json:"instance,omitempty"`
	SHA256       string     `json:"sha256,omitempty"`
	Accepted     *bool      `json:"accepted,omitempty"`
	Code         Code       `json:"code,omitempty"`
	Message      string     `json:"message,omitempty"`
	Path         string     `json:"path,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	RetryAfterMs int64      `json:"retryAfterMs,omitempty"`
	Open         []SyncTask `json:"open,omitempty"`
	Partial      bool       `json:"partial,omitempty"`
	ServerTimeMs int64      `json:"serverTimeMs,omitempty"`
	HelloID      string     `json:"helloId,omitempty"`
}

// SyncTask is one open task of the store in a sync. Mine is true when the
// receiving terminal holds the running attempt, and Instance which process of it,
// where that is known.
type SyncTask struct {
	TaskID  string      `json:"taskId"`
	Status  task.Status `json:"status"`
	Attempt int         `json:"attempt"`
	Mine    bool        `json:"mine,omitempty"`

	Instance string `json:"instance,omitempty"`
}

// Presence is the retained state of one terminal.
type Presence struct {
	Meta
	Online    bool   `json:"online"`
	Since     Time   `json:"since"`
	SessionID string `json:"sessionId"`
}
