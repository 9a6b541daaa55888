package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"muster/internal/task"
)

// Targets says which stores a run is for: exactly one form. In JSON it is the
// word "all", a list of store ids, {"labels":"region=east,format!=kiosk"}, or
// {"allBut":["SH_0312"]}, which is all but those.
type Targets struct {
	All    bool
	Stores []string
	Labels string
	AllBut []string // not empty
}

// MarshalJSON writes the form that is set.
func (t Targets) MarshalJSON() ([]byte, error) {
	switch {
	case t.All:
		return []byte(`"all"`), nil
	case t.Labels != "":
		return Encode(map[string]string{"labels": t.Labels})
	case len(t.AllBut) > 0:
		return Encode(map[string][]string{"allBut": t.AllBut})
	default:
		return Encode(append([]string{}, t.Stores...))
	}
}

// UnmarshalJSON reads one of the four forms; anything else, and what can be the id of
// no store, is an *Error with code SCHEMA at /stores.
func (t *Targets) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil && word == "all" {
		*t = Targets{All: true}
		return nil
	}
	if ids, ok := idList(data); ok {
		*t = Targets{Stores: ids}
		return noStores(ids)
	}
	var labels map[string]string
	if json.Unmarshal(data, &labels) == nil && len(labels) == 1 && labels["labels"] != "" {
		*t = Targets{Labels: labels["labels"]}
		return nil
	}
	var but map[string]json.RawMessage
	if json.Unmarshal(data, &but) == nil && len(but) == 1 {
		if ids, ok := idList(but["allBut"]); ok && len(ids) > 0 {
			*t = Targets{AllBut: ids}
			return noStores(ids)
		}
	}
	return &Error{Code: CodeSchema, Path: "/stores",
		Message:   fmt.Sprintf("stores must be \"all\", a list of store ids as text, {\"labels\":\"key=value\"} or {\"allBut\":[ids]}, not %s", clip(string(data))),
		MessageZh: "stores 必须是 \"all\"、门店编号（文本）列表、{\"labels\":\"key=value\"} 或 {\"allBut\":[门店编号]}",
		Hint:      `for example "stores":["SH_0312","SH_0313"]`,
		HintZh:    `例如 "stores":["SH_0312","SH_0313"]`}
}

// noStores refuses what can be the id of no store, such as a wildcard of MQTT.
func noStores(ids []string) error {
	for _, id := range ids {
		if !ValidID(id) {
			hint, hintZh := meant(id)
			return &Error{Code: CodeSchema, Path: "/stores",
				Message:   fmt.Sprintf("%q is no id of a store: that is 1 to 63 of A-Z a-z 0-9 . _ - and begins with a letter or digit", clip(id)),
				MessageZh: fmt.Sprintf("%q 不是门店编号：编号由 1 至 63 个 A-Z a-z 0-9 . _ - 组成，并以字母或数字开头", clip(id)),
				Hint:      hint,
				HintZh:    hintZh}
		}
	}
	return nil
}

// meant says what to do about a text that is no id of a store.
func meant(id string) (hint, hintZh string) {
	const instead, insteadZh = `name each store, or write "all" or {"labels":"key=value"}`, `请逐一列出门店，或写 "all" 或 {"labels":"key=value"}`
	switch at, r := oddInID(id); {
	case at == 0:
		return instead, insteadZh
	case strings.ContainsRune("*?+#%", r):
		return "there are no wildcards: " + instead, "不支持通配符：" + insteadZh
	}
	odd, oddZh := OddInID(id)
	return odd + ": type the id anew, letter by letter", oddZh + "：请逐字重新输入编号"
}

// idList reads a list of ids; a null in it is no id.
func idList(data []byte) (ids []string, ok bool) {
	var list []*string
	if json.Unmarshal(data, &list) != nil || list == nil || slices.Contains(list, nil) {
		return nil, false
	}
	ids = make([]string, 0, len(list))
	for _, id := range list {
		ids = append(ids, *id)
	}
	return ids, true
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
	// GrantsPerSecond and GrantBurst bound how fast the run's tasks begin.
	GrantsPerSecond *float64 `json:"grantsPerSecond,omitempty"`
	GrantBurst      *int     `json:"grantBurst,omitempty"`
	MakeupSeconds   *int     `json:"makeupSeconds,omitempty"`
	Priority        *int     `json:"priority,omitempty"`
	Deadline        int64    `json:"deadline,omitempty"` // epoch ms; the request is void after it
	DryRun          bool     `json:"dryRun,omitempty"`   // tells what the run would meet, and makes nothing
}

// Forecast is what a run would meet that was not made.
type Forecast struct {
	Online          int     `json:"online"`          // stores of the targets that are connected now
	GrantsPerSecond float64 `json:"grantsPerSecond"` // how fast tasks would begin
	TypicalMs       int64   `json:"typicalMs"`       // one execution in the job's last run; 0: there was none
	FinishAt        Time    `json:"finishAt"`        // of all who are online, if nothing else runs
	NeedsApproval   bool    `json:"needsApproval"`
	// Silent counts the targets that answered in none of the job's last three
	// reports; SilentStores names the first 100.
	Silent       int           `json:"silent"`
	SilentStores []SilentStore `json:"silentStores"`
}

// SilentStore is a store that does not answer. LastSeenAt is null if it never was.
type SilentStore struct {
	StoreID    string `json:"storeId"`
	LastSeenAt Time   `json:"lastSeenAt"`
}

// RetryRequest asks again, in a run of its own, the targets that a run's report counts
// as failed, timed out or offline. Stores names some of them; absent: all. Settings
// that are absent are those of that run.
type RetryRequest struct {
	RequestID       string   `json:"requestId,omitempty"`
	RunID           string   `json:"runId"`
	Stores          []string `json:"stores,omitempty"`
	Reason          string   `json:"reason,omitempty"`
	BarrierSeconds  *int     `json:"barrierSeconds,omitempty"`
	MakeupSeconds   *int     `json:"makeupSeconds,omitempty"`
	Attempts        *int     `json:"attempts,omitempty"`
	MaxRunning      *int     `json:"maxRunning,omitempty"`
	GrantsPerSecond *float64 `json:"grantsPerSecond,omitempty"`
	GrantBurst      *int     `json:"grantBurst,omitempty"`
	Priority        *int     `json:"priority,omitempty"`
	Deadline        int64    `json:"deadline,omitempty"` // epoch ms; the request is void after it
	DryRun          bool     `json:"dryRun,omitempty"`
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
	ParentRun   string          `json:"parentRun,omitempty"` // retry: whose report gets the answers too
	LeftOut     []string        `json:"leftOut,omitempty"`   // retry: missing there, and no longer registered
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
	Usage       []string        `json:"usage,omitempty"`    // help: an example a verb
	Forecast    *Forecast       `json:"forecast,omitempty"` // run with dryRun
	Code        Code            `json:"code,omitempty"`
	Message     string          `json:"message,omitempty"`
	MessageZh   string          `json:"messageZh,omitempty"`
	Hint        string          `json:"hint,omitempty"`
	HintZh      string          `json:"hintZh,omitempty"`
	Path        string          `json:"path,omitempty"`
}

// Rejected is the reply that carries e.
func Rejected(e *Error) Reply {
	return Reply{Status: "rejected", Code: e.Code, Message: e.Message, MessageZh: e.MessageZh, Hint: e.Hint, HintZh: e.HintZh, Path: e.Path}
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
	ParentRun string              `json:"parentRun,omitempty"` // of a retry
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
	MessageZh string `json:"messageZh,omitempty"` // the same in Chinese, with the particulars that are worded so
	Hint      string `json:"hint,omitempty"`
	HintZh    string `json:"hintZh,omitempty"`
}
