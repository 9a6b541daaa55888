package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"muster/internal/task"
)

// The versions of what stands beside each other in the report folder.
const (
	ReportSchema   = "muster.report.v1"
	ManifestSchema = "muster.manifest.v1"
)

// RevisionWhy says what made a revision.
type RevisionWhy string

// The reasons of a revision. The first three are those of revision 1.
const (
	// WhyBarrier: the deadline came.
	WhyBarrier RevisionWhy = "barrier"
	// WhyAllSettled: nothing was open any more, before the deadline.
	WhyAllSettled RevisionWhy = "all_settled"
	// WhyCancelled: nothing was open any more, because the rest was withdrawn.
	WhyCancelled RevisionWhy = "cancelled"
	// WhyLateResults: answers came after the barrier and were accepted.
	WhyLateResults RevisionWhy = "late_results"
	// WhyRetryResults: a retry of the run was answered.
	WhyRetryResults RevisionWhy = "retry_results"
)

// Verdict says in a word what a report amounts to.
type Verdict string

// The verdicts.
const (
	// VerdictComplete: every target succeeded.
	VerdictComplete Verdict = "complete"
	// VerdictPartial: some did not, and the quorum is reached.
	VerdictPartial Verdict = "partial"
	// VerdictBelowQuorum: fewer succeeded than the job asks for.
	VerdictBelowQuorum Verdict = "below_quorum"
)

// Counts are the five buckets; they sum to the targets.
type Counts struct {
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	TimedOut  int `json:"timedOut"`
	Offline   int `json:"offline"`
	Cancelled int `json:"cancelled"`
}

// Sum is the number of targets that the buckets hold.
func (c Counts) Sum() int { return c.Succeeded + c.Failed + c.TimedOut + c.Offline + c.Cancelled }

// Add puts one target into the bucket of outcome. An unknown outcome is in no
// bucket, and the sum rule then stops the report.
func (c *Counts) Add(outcome task.Outcome) {
	switch outcome {
	case task.OutcomeSucceeded:
		c.Succeeded++
	case task.OutcomeFailed:
		c.Failed++
	case task.OutcomeTimedOut:
		c.TimedOut++
	case task.OutcomeOffline:
		c.Offline++
	case task.OutcomeCancelled:
		c.Cancelled++
	}
}

// Rates are shares of the targets, 0 to 1. A share of nothing is null.
type Rates struct {
	Succeeded *float64 `json:"succeeded"` // of all targets
	Answered  *float64 `json:"answered"`  // succeeded or failed, of all targets
	// SucceededOfAnswered is null when no store answered.
	SucceededOfAnswered *float64 `json:"succeededOfAnswered"`
}

// Report is one revision of a run's roll-call. Published bytes never change.
type Report struct {
	ReportHead
	Stores []StoreRow `json:"stores"` // by store id, byte by byte
}

// ReportHead is a report without its rows, so that a report of any size can be
// written row by row. Times are in headquarters' zone, which TimeZone names.
type ReportHead struct {
	Schema      string          `json:"schema"`
	RunID       string          `json:"runId"`
	Job         string          `json:"job"`
	JobVersion  int             `json:"jobVersion"`
	Input       json.RawMessage `json:"input"`
	RequestedBy string          `json:"requestedBy"`
	ApprovedBy  string          `json:"approvedBy,omitempty"` // absent: nobody had to
	Reason      string          `json:"reason"`
	Revision    int             `json:"revision"`
	RevisionWhy RevisionWhy     `json:"revisionReason"`
	Supersedes  *int            `json:"supersedes"` // the revision before; null for 1, and above what the database does not know
	Verdict     Verdict         `json:"verdict"`
	Quorum      float64         `json:"quorum"` // 0 to 1
	CreatedAt   Time            `json:"createdAt"`
	BarrierAt   Time            `json:"barrierAt"`
	AsOf        Time            `json:"asOf"`
	TimeZone    string          `json:"timeZone"` // IANA
	Targets     int             `json:"targets"`
	Counts      Counts          `json:"counts"`
	Rates       Rates           `json:"rates"`
	Text        string          `json:"text"` // the verdict in a sentence
	TextZh      string          `json:"textZh"`
	Columns     []Column        `json:"columns"`
	Totals      []Total         `json:"totals,omitempty"`   // one a column that has a type, in their order
	Changes     []Change        `json:"changes"`            // against the superseded revision
	Previous    *Previous       `json:"previous,omitempty"` // absent: the job has no run before
}

// Previous compares a report with the one of the job's run before, as it stood then.
// Both lists are by store id and name the first 100.
type Previous struct {
	RunID           string   `json:"runId"`
	Revision        int      `json:"revision"`
	AsOf            Time     `json:"asOf"`
	Targets         int      `json:"targets"`
	Counts          Counts   `json:"counts"`
	Common          int      `json:"common"`       // stores that are targets of both
	NewlyMissing    int      `json:"newlyMissing"` // of these: succeeded then, and not now
	Recovered       int      `json:"recovered"`    // of these: did not succeed then, and now did
	NewlyMissingIDs []string `json:"newlyMissingIds"`
	RecoveredIDs    []string `json:"recoveredIds"`
}

// ReadReportHead reads the first line of a JSON report, which holds all but the rows,
// and leaves in before the first of them.
func ReadReportHead(in *bufio.Reader) (head ReportHead, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return head, fmt.Errorf("it is cut off: %w", err)
	}
	doc, ok := bytes.CutSuffix(line, []byte(`,"stores":[`+"\n"))
	if !ok {
		return head, errors.New("its first line is no head of a report")
	}
	if err := json.Unmarshal(append(bytes.Clone(doc), '}'), &head); err != nil {
		return head, fmt.Errorf("its head cannot be read: %w", err)
	}
	return head, nil
}

// Listed is the newest revision of a run as the index of the report folder shows it.
type Listed struct {
	Folder   string // of its files below the report folder, such as 2026/09
	Manifest Manifest
	Head     ReportHead // without input, columns and changes
}

// Change is one store whose row differs from the superseded revision.
type Change struct {
	StoreID    string       `json:"storeId"`
	From       task.Outcome `json:"from"`
	FromReason task.Reason  `json:"fromReason"`
	To         task.Outcome `json:"to"`
	ToReason   task.Reason  `json:"toReason"`
}

// StoreRow is one target in a report. Outcome is the one at this revision,
// AtBarrier the one that the barrier froze and that never changes. Columns holds
// the values of the job's columns with the bytes that the terminal sent, null
// where the result has none or there is no result. A target with several tasks
// shows the one that decides its outcome.
type StoreRow struct {
	StoreID    string            `json:"storeId"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels"`
	Outcome    task.Outcome      `json:"outcome"`
	Reason     task.Reason       `json:"reason"`
	AtBarrier  task.Outcome      `json:"outcomeAtBarrier"`
	Late       bool              `json:"late"`
	Evidence   Evidence          `json:"evidence"`
	TaskID     string            `json:"taskId"`
	Status     task.Status       `json:"status"`
	Attempt    int               `json:"attempt"`
	TerminalID string            `json:"terminalId"`
	FinishedAt Time              `json:"finishedAt"`
	SHA256     string            `json:"resultSha256"`
	Bytes      int64             `json:"resultBytes"`
	Columns    []json.RawMessage `json:"columns"`
	Error      *Failure          `json:"error"`
	Tries      []Try             `json:"attempts,omitempty"` // none where a lone one succeeded: the row is that one
}

// Try is one attempt of a row's task, by number. Zero times are null. Message has 500 characters
// at most. Answer is empty
// while there is none, and where headquarters itself ended it, as Code says. SHA256 and
// Bytes are those of the stored result or error; SHA256 is empty without an answer.
type Try struct {
	Attempt    int    `json:"attempt"`
	TerminalID string `json:"terminalId"`
	GrantedAt  Time   `json:"grantedAt"`
	StartedAt  Time   `json:"startedAt"`
	EndedAt    Time   `json:"endedAt"`
	Answer     Answer `json:"answer"`
	Code       Code   `json:"code"`
	Message    string `json:"message"`
	ExitCode   *int   `json:"exitCode"`
	SHA256     string `json:"sha256"`
	Bytes      int64  `json:"bytes"`
}

// Evidence is what headquarters knew when it judged. Zero times are null.
type Evidence struct {
	Online      bool   `json:"online"`
	LastSeenAt  Time   `json:"lastSeenAt"`
	ClaimedAt   Time   `json:"claimedAt"`
	GrantedAt   Time   `json:"grantedAt"`
	StartedAt   Time   `json:"startedAt"`
	LastSignAt  Time   `json:"lastSignAt"` // last progress or ready of the attempt
	ReadyAt     Time   `json:"readyAt"`    // a large result waits for a collection slot
	Attempts    int    `json:"attemptsUsed"`
	AttemptsOf  int    `json:"attemptsAllowed"`
	ClockSkewMs *int64 `json:"clockSkewMs"`
}

// FileFormat is one way to write a report. Ext is the ending of the file's
// name; Rules says in a sentence how it is encoded.
type FileFormat struct {
	Ext       string
	MediaType string
	Rules     string
}

// Manifest lists the files of one revision. It is written last: where it
// stands, the revision is whole.
type Manifest struct {
	Schema     string         `json:"schema"`
	RunID      string         `json:"runId"`
	Job        string         `json:"job"`
	Revision   int            `json:"revision"`
	Reason     RevisionWhy    `json:"reason"`
	Supersedes *int           `json:"supersedes"`
	AsOf       Time           `json:"asOf"`
	Files      []ManifestFile `json:"files"`
}

// ManifestFile names one file, without folder, with its size and hash. Rules
// says how it is encoded.
type ManifestFile struct {
	Name      string `json:"name"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	MediaType string `json:"mediaType"`
	Rules     string `json:"rules,omitempty"`
}

// Summary is the retained end of a revision on runs/{run}/summary: the report
// without its rows, and where the files are.
type Summary struct {
	Meta
	RunID      string         `json:"runId"`
	Job        string         `json:"job"`
	ApprovedBy string         `json:"approvedBy,omitempty"`
	Revision   int            `json:"revision"`
	Verdict    Verdict        `json:"verdict"`
	AsOf       Time           `json:"asOf"`
	BarrierAt  Time           `json:"barrierAt"`
	Targets    int            `json:"targets"`
	Counts     Counts         `json:"counts"`
	Missing    []string       `json:"missing"` // store ids that did not succeed, the first 100
	Folder     string         `json:"folder"`  // of the files below the report folder, such as 2026/09
	Files      []ManifestFile `json:"files"`   // that are there; the manifest is the last, and with it all are
	Text       string         `json:"text"`
	TextZh     string         `json:"textZh"`
}
