// Package history is what the participants of a test saw: every client, agent,
// collector and executor writes down what it asked, sent, got and executed,
// each into a file of its own, and a reader puts the files together.
//
// It judges nothing and knows no program; a message stands in it as it went
// over the wire.
package history

// Role says what a participant is.
type Role string

// The roles.
const (
	// RoleClient asks for runs: a technician.
	RoleClient Role = "client"
	// RoleAgent is one terminal of one store.
	RoleAgent Role = "agent"
	// RoleCollector looks at retained topics, report files and processes, and
	// notes the faults that are made.
	RoleCollector Role = "collector"
	// RoleExecutor does the work of a task.
	RoleExecutor Role = "executor"
)

// Act says what a line is about.
type Act string

// The acts, with the members of Line that they use beside who, when and
// outcome.
const (
	// ActAsked: a request leaves; Topic, Payload, Call.
	ActAsked Act = "asked"
	// ActAnswered: how the call ended; Topic, Payload (the reply), Call. A call
	// without this line ended as unknown.
	ActAnswered Act = "answered"
	// ActSent: a message leaves; Topic, Payload, Retained.
	ActSent Act = "sent"
	// ActGot: a message came; Topic, Payload, Retained.
	ActGot Act = "got"
	// ActSubscribed: a subscription leaves; Topic is its filter.
	ActSubscribed Act = "subscribed"
	// ActConnected and ActDisconnected: the way to the broker.
	ActConnected    Act = "connected"
	ActDisconnected Act = "disconnected"
	// ActExecuted: the effect of an execution; Task, Attempt, PID.
	ActExecuted Act = "executed"
	// ActLooked: a report file as it is now; Name (below the report folder),
	// SHA256, Bytes.
	ActLooked Act = "looked"
	// ActFault: a fault begins (On) or is over; Name.
	ActFault Act = "fault"
	// ActSampled: a process as it is now; Name, Sample.
	ActSampled Act = "sampled"
)

// Outcome says how an act ended. What a time-out ended is unknown, never a
// refusal: the far end may have done it.
type Outcome string

// The outcomes.
const (
	OutcomeOK      Outcome = "ok"
	OutcomeRefused Outcome = "refused"
	OutcomeUnknown Outcome = "unknown"
)

// Participant is whose file it is. Store and Terminal are set for an agent.
type Participant struct {
	Who      string `json:"who"`
	Role     Role   `json:"role"`
	Store    string `json:"store,omitempty"`
	Terminal string `json:"terminal,omitempty"`
}

// Line is one line of a history. AtMs is the wall clock, epoch milliseconds.
// MonoUs is the machine's monotonic clock in microseconds, which all processes
// of the machine share; 0 means that it was not known.
type Line struct {
	AtMs   int64 `json:"at"`
	MonoUs int64 `json:"mono,omitempty"`
	Participant
	Act      Act     `json:"act"`
	Outcome  Outcome `json:"outcome,omitempty"`
	Call     int64   `json:"call,omitempty"`
	Topic    string  `json:"topic,omitempty"`
	Payload  string  `json:"payload,omitempty"`
	Retained bool    `json:"retained,omitempty"`
	Task     string  `json:"task,omitempty"`
	Attempt  int     `json:"attempt,omitempty"`
	PID      int     `json:"pid,omitempty"`
	Name     string  `json:"name,omitempty"`
	SHA256   string  `json:"sha256,omitempty"`
	Bytes    int64   `json:"bytes,omitempty"`
	On       bool    `json:"on,omitempty"`
	Sample   *Sample `json:"sample,omitempty"`

	// Source is where the line stands, as file:line. The reader sets it.
	Source string `json:"-"`
}

// Sample is what a process uses. A member is 0 when it was not measured.
type Sample struct {
	Threads     int   `json:"threads,omitempty"`
	Descriptors int   `json:"descriptors,omitempty"`
	RSSBytes    int64 `json:"rssBytes,omitempty"`
}
