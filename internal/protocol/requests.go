package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"muster/internal/task"
)

// Targets says which stores a run is for: exactly one form. In JSON it is the
// word "all", a list of store ids, or {"labels":"region=east,format!=kiosk"}.
type Targets struct {
	All    bool
	Stores []string
	Labels string
}

// MarshalJSON writes the form that is set.
func (t Targets) MarshalJSON() ([]byte, error) {
	switch {
	case t.All:
		return []byte(`"all"`), nil
	case t.Labels != "":
		return Encode(map[string]string{"labels": t.Labels})
	default:
		return Encode(append([]string{}, t.Stores...))
	}
}

// UnmarshalJSON reads one of the three forms; anything else is an *Error with
// code SCHEMA at /stores.
func (t *Targets) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil && word == "all" {
		*t = Targets{All: true}
		return nil
	}
	var list []*string // a null in the list is no id
	if json.Unmarshal(data, &list) == nil && list != nil && !slices.Contains(list, nil) {
		*t = Targets{Stores: make([]string, 0, len(list))}
		for _, id := range list {
			t.Stores = append(t.Stores, *id)
		}
		return nil
	}
	var labels map[string]string
	if json.Unmarshal(data, &labels) == nil && len(labels) == 1 && labels["labels"] != "" {
		*t = Targets{Labels: labels["labels"]}
		return nil
	}
	return &Error{Code: CodeSchema, Path: "/stores",
		Message:   fmt.Sprintf("it must be \"all\", a list of store ids as text, or {\"labels\":\"key=value\"}, not %s", clip(string(data))),
		MessageZh: "stores 必须是 \"all\"、门店编号（文本）列表，或 {\"labels\":\"key=value\"}",
		Hint:      `for example "stores":["SH_0312","SH_0313"]`}
}

// RunRequest asks for a run. Absent settings take the job's defaults.
type RunRequest struct {
	RequestID      string          `json:"requestId,omitempty"`
	Job            string          `json:"job"`
	Stores         Targets         `json:"stores"`
	Input          json.RawMessage `json:"input,omitempty"`
	Reason         string          `json:"reason,omitempty"`
	BarrierSeconds *int            `json:"barrierSeconds,omitempty"`
	Attempts       *int            `json:"attempts,omitempty"`
	MaxRunning     *int            `json:"maxRunning,omitempty"`
	MakeupSeconds  *int            `json:"makeupSeconds,omitempty"`
	Priority       *int            `json:"priority,omitempty"`
	Deadline       int64           `json:"deadline,omitempty"` // epoch ms; the request is void after it
}

// CancelRequest withdraws a run, or the tasks of some of its stores.
type CancelRequest struct {
	RequestID string   `json:"requestId,omitempty"`
	RunID     string   `json:"runId"`
	Stores    []string `json:"stores,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Deadline  int64    `json:"deadline,omitempty"` // epoch ms; the request is void after it
}

// StatusRequest asks how a run, and optionally one of its stores, stands; or
// how an approval stands; or which ones wait. Of several, Approvals goes before
// ApprovalID and that before RunID.
type StatusRequest struct {
	RunID      string `json:"runId,omitempty"`
	StoreID    string `json:"storeId,omitempty"`
	ApprovalID string `json:"approvalId,omitempty"`
	Approvals  bool   `json:"approvals,omitempty"`
}

// Decision is what an approver says.
type Decision string

// The decisions.
const (
	DecisionApprove Decision = "approve"
	DecisionReject  Decision = "reject"
)

// ApproveRequest decides on what another person asked for. ContentHash is the
// one that the approval was shown with: who approves says what.
type ApproveRequest struct {
	RequestID   string   `json:"requestId,omitempty"`
	ApprovalID  string   `json:"approvalId"`
	ContentHash string   `json:"contentHash"`
	Decision    Decision `json:"decision"`
	Reason      string   `json:"reason,omitempty"`
	Deadline    int64    `json:"deadline,omitempty"` // epoch ms; the request is void after it
}

// Reply answers a request. Status is accepted or rejected; the other fields
// depend on the verb and on OK.
type Reply struct {
	OK          bool            `json:"ok"`
	Status      string          `json:"status"`
	RequestID   string          `json:"requestId,omitempty"`
	RunID       string          `json:"runId,omitempty"`
	Stores      int             `json:"stores,omitempty"`
	BarrierAt   Time            `json:"barrierAt,omitzero"`
	Watch       string          `json:"watch,omitempty"`
	Summary     string          `json:"summary,omitempty"`
	Duplicate   *bool           `json:"duplicate,omitempty"`
	Cancelled   *int            `json:"cancelled,omitempty"`
	Finished    *int            `json:"alreadyFinished,omitempty"` // cancel: over before
	ApprovalID  string          `json:"approvalId,omitempty"`
	ContentHash string          `json:"contentHash,omitempty"` // what is to be approved, SHA-256
	ExpiresAt   Time            `json:"expiresAt,omitzero"`    // of the approval
	Approval    *Approval       `json:"approval,omitempty"`    // status of one
	Approvals   []Approval      `json:"approvals,omitempty"`   // status: those that wait
	State       *RunStateReport `json:"state,omitempty"`
	Task        *Record         `json:"task,omitempty"`
	Jobs        []JobInfo       `json:"jobs,omitempty"`
	Usage       []string        `json:"usage,omitempty"` // help: an example a verb
	Code        Code            `json:"code,omitempty"`
	Message     string          `json:"message,omitempty"`
	MessageZh   string          `json:"messageZh,omitempty"`
	Hint        string          `json:"hint,omitempty"`
	Path        string          `json:"path,omitempty"`
}

// Rejected is the reply that carries e.
func Rejected(e *Error) Reply {
	return Reply{Status: "rejected", Code: e.Code, Message: e.Message, MessageZh: e.MessageZh, Hint: e.Hint, Path: e.Path}
}

// Approval is what waits, or waited, for the word of a second person. Kind is
// run or keys (a rotation of headquarters' keys); Job and Stores are of a run.
// Request is left out of lists.
type Approval struct {
	ApprovalID  string          `json:"approvalId"`
	Kind        string          `json:"kind"`
	State       string          `json:"state"` // pending, approved, rejected, expired, void
	Requester   string          `json:"requester"`
	ContentHash string          `json:"contentHash"`
	Job         string          `json:"job,omitempty"`
	Stores      int             `json:"stores,omitempty"` // targets when it was asked
	Reason      string          `json:"reason,omitempty"`
	Request     json.RawMessage `json:"request,omitempty"`
	CreatedAt   Time            `json:"createdAt"`
	ExpiresAt   Time            `json:"expiresAt"`
	DecidedAt   Time            `json:"decidedAt,omitzero"`
	DecidedBy   string          `json:"decidedBy,omitempty"`
	RunID       string          `json:"runId,omitempty"`
	Why         string          `json:"why,omitempty"` // of a rejection, or of what made it void; of new keys, what was done
}

// JobInfo describes a registered job to a technician.
type JobInfo struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Title   string `json:"title"`
	TitleZh string `json:"titleZh,omitempty"`
}

// Phase is where a run stands; see the derivation in the dispatcher's store.
type Phase string

// The phases of a run.
const (
	// PhaseCollecting: before the barrier.
	PhaseCollecting Phase = "collecting"
	// PhaseMakeup: revision 1 is out, absent stores may still deliver.
	PhaseMakeup Phase = "makeup"
	// PhaseClosed: every task is settled.
	PhaseClosed Phase = "closed"
)

// RunStateReport is the retained state of a run: how many of its tasks stand
// where, and how many stores of the targets answered.
type RunStateReport struct {
	Meta
	RunID     string              `json:"runId"`
	Job       string              `json:"job"`
	Phase     Phase               `json:"phase"`
	Targets   int                 `json:"targets"`
	Tasks     map[task.Status]int `json:"tasks"`
	Online    int                 `json:"online"`
	Waiting   int                 `json:"waiting"` // claims that wait for a slot
	BarrierAt Time                `json:"barrierAt"`
	MakeupTo  Time                `json:"makeupUntil,omitzero"`
	Revision  int                 `json:"revision"`
}

// StoreEvent is one step of one store of a run. Event is one of offered,
// granted, started, succeeded, attempt_failed, failed, cancelled.
type StoreEvent struct {
	Meta
	RunID    string      `json:"runId"`
	StoreID  string      `json:"storeId"`
	TaskID   string      `json:"taskId"`
	Event    string      `json:"event"`
	Status   task.Status `json:"status"`
	Attempt  int         `json:"attempt"`
	Terminal string      `json:"terminalId,omitempty"`
	Code     Code        `json:"code,omitempty"`
	Message  string      `json:"message,omitempty"`
}

// Info is the retained description of headquarters.
type Info struct {
	Meta
	Version   string    `json:"version"`
	Protocols []int     `json:"protocols"`
	Jobs      []JobInfo `json:"jobs"`
	Schemas   []string  `json:"schemas"`
}

// AlarmTwins is the kind of the alarm that two machines speak as one terminal.
const AlarmTwins = "duplicate_terminal"

// Alarm says that something needs an operator, or that it is over.
type Alarm struct {
	Meta
	Kind      string `json:"kind"`
	Recovered bool   `json:"recovered"`
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty"`
}
