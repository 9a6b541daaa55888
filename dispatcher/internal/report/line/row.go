// Package line reads the rows of a report, each one line of JSON, and says their
// values as text and their attempts one by one.
//
// It is pure, and judges nothing.
package line

import (
	"encoding/json"
	"fmt"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// maxLabels is up to how many labels are compared with each other.
const maxLabels = 32

// Reader reads rows, one after the other. Nearly all of them stand in the very
// form in which protocol.Encode writes a protocol.StoreRow; those it reads itself,
// many times faster than encoding/json, which gets the others. The zero value is
// ready. It is for one goroutine at a time.
type Reader struct {
	row    protocol.StoreRow
	Usual  bool // the last row stood in that form
	Values int  // bytes of the last row that are values of columns

	in      scanner
	labels  map[string]string
	columns []json.RawMessage
	skew    int64
	failure protocol.Failure
	tries   []protocol.Try
}

// Read returns the row, which is valid until the next call, as is raw.
func (r *Reader) Read(raw json.RawMessage) (*protocol.StoreRow, error) {
	return r.readBy(raw, r.scan)
}

// Verdict returns the row up to whether it is late: counting needs no more.
func (r *Reader) Verdict(raw json.RawMessage) (*protocol.StoreRow, error) {
	return r.readBy(raw, r.scanVerdict)
}

// Evidence returns the row up to its evidence.
func (r *Reader) Evidence(raw json.RawMessage) (*protocol.StoreRow, error) {
	return r.readBy(raw, r.scanEvidence)
}

func (r *Reader) readBy(raw json.RawMessage, scan func(json.RawMessage) bool) (*protocol.StoreRow, error) {
	if r.Usual = scan(raw); r.Usual {
		return &r.row, nil
	}
	r.row = protocol.StoreRow{}
	if err := json.Unmarshal(raw, &r.row); err != nil {
		return &r.row, fmt.Errorf("cannot read a row: %w", err)
	}
	return &r.row, nil
}

func (r *Reader) scanVerdict(raw json.RawMessage) bool {
	s, row := &r.in, &r.row
	if r.labels == nil { // neither is ever null
		r.labels, r.columns = map[string]string{}, []json.RawMessage{}
	}
	s.text, s.at, s.doubt = string(raw), 0, false
	row.StoreID = s.str(`{"storeId":`)
	row.Name = s.str(`,"name":`)
	r.scanLabels()
	row.Outcome = task.Outcome(s.str(`,"outcome":`))
	row.Reason = task.Reason(s.str(`,"reason":`))
	row.AtBarrier = task.Outcome(s.str(`,"outcomeAtBarrier":`))
	row.Late = s.boolean(`,"late":`)
	return !s.doubt
}

func (r *Reader) scan(raw json.RawMessage) bool {
	_ = r.scanEvidence(raw)
	s, row := &r.in, &r.row
	row.TaskID = s.str(`,"taskId":`)
	row.Status = task.Status(s.str(`,"status":`))
	row.Attempt = int(s.integer(`,"attempt":`))
	row.TerminalID = s.str(`,"terminalId":`)
	row.FinishedAt = s.moment(`,"finishedAt":`)
	row.SHA256 = s.str(`,"resultSha256":`)
	row.Bytes = s.integer(`,"resultBytes":`)
	r.scanColumns(raw)
	r.scanError()
	r.scanTries()
	s.token("}")
	return !s.doubt && s.at == len(s.text)
}

func (r *Reader) scanLabels() {
	s := &r.in
	s.token(`,"labels":{`)
	clear(r.labels)
	for before := ""; !s.doubt && !s.has("}"); before = "," {
		key := s.str(before)
		for known := range r.labels { // the checker refuses names that differ only in case
			s.doubt = s.doubt || len(r.labels) == maxLabels || strings.EqualFold(known, key)
		}
		r.labels[key] = s.str(":")
	}
	r.row.Labels = r.labels
}

func (r *Reader) scanEvidence(raw json.RawMessage) bool {
	_ = r.scanVerdict(raw)
	s, e := &r.in, &r.row.Evidence
	e.Online = s.boolean(`,"evidence":{"online":`)
	e.LastSeenAt = s.moment(`,"lastSeenAt":`)
	e.ClaimedAt = s.moment(`,"claimedAt":`)
	e.GrantedAt = s.moment(`,"grantedAt":`)
	e.StartedAt = s.moment(`,"startedAt":`)
	e.LastSignAt = s.moment(`,"lastSignAt":`)
	e.ReadyAt = s.moment(`,"readyAt":`)
	e.Attempts = int(s.integer(`,"attemptsUsed":`))
	e.AttemptsOf = int(s.integer(`,"attemptsAllowed":`))
	e.ClockSkewMs = nil
	s.token(`,"clockSkewMs":`)
	if !s.has("null") {
		r.skew = s.integer("")
		e.ClockSkewMs = &r.skew
	}
	s.token("}")
	return !s.doubt
}

func (r *Reader) scanColumns(raw json.RawMessage) {
	s := &r.in
	s.token(`,"columns":[`)
	r.columns, r.Values = r.columns[:0], 0
	for first := true; !s.doubt && !s.has("]"); first = false {
		if !first {
			s.token(",")
		}
		from, to := s.value()
		r.columns = append(r.columns, raw[from:to:to])
		r.Values += to - from
	}
	r.row.Columns = r.columns
}

func (r *Reader) scanError() {
	s := &r.in
	s.token(`,"error":`)
	r.row.Error = nil
	if s.has("null") {
		return
	}
	r.failure = protocol.Failure{}
	f := &r.failure
	f.Code = protocol.Code(s.str(`{"code":`))
	f.Message = s.str(`,"message":`)
	if s.has(`,"detail"`) {
		f.Detail = s.str(":")
	}
	if s.has(`,"path"`) {
		f.Path = s.str(":")
	}
	s.token("}")
	r.row.Error = f
}

func (r *Reader) scanTries() {
	s := &r.in
	r.tries, r.row.Tries = r.tries[:0], nil
	if !s.has(`,"attempts":[`) {
		return
	}
	for before := `{"attempt":`; !s.doubt; before = `,{"attempt":` {
		t := protocol.Try{Attempt: int(s.integer(before))}
		t.TerminalID = s.str(`,"terminalId":`)
		t.GrantedAt = s.moment(`,"grantedAt":`)
		t.StartedAt = s.moment(`,"startedAt":`)
		t.EndedAt = s.moment(`,"endedAt":`)
		t.Answer = protocol.Answer(s.str(`,"answer":`))
		t.Code = protocol.Code(s.str(`,"code":`))
		t.Message = s.str(`,"message":`)
		s.token(`,"exitCode":`)
		if !s.has("null") {
			code := int(s.integer(""))
			t.ExitCode = &code
		}
		t.SHA256 = s.str(`,"sha256":`)
		t.Bytes = s.integer(`,"bytes":`)
		s.token("}")
		r.tries = append(r.tries, t)
		if s.has("]") {
			break
		}
	}
	r.row.Tries = r.tries
}
