package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/totals"
	"muster/internal/protocol"
	"muster/internal/task"
)

// ErrSumRule means that the rows and the head do not say the same, or that not
// every target is in exactly one bucket. Such a report must not be published.
var ErrSumRule = errors.New("the report breaks the sum rule")

// Check refuses a report that must not be published: one that breaks the
// schema, and (ErrSumRule) one whose rows are not exactly its targets, once
// each and by store id, each in one bucket with a reason of that bucket, and
// summing to its counts and totals.
func (r *Reporter) Check(head protocol.ReportHead, rows Rows) error {
	if err := r.check(head, rows); err != nil {
		return fmt.Errorf("cannot publish report %s r%d: %w", head.RunID, head.Revision, err)
	}
	return nil
}

func (r *Reporter) check(head protocol.ReportHead, rows Rows) error {
	if sum := head.Counts.Sum(); sum != head.Targets {
		return fmt.Errorf("%w: the buckets hold %d of %d targets", ErrSumRule, sum, head.Targets)
	}
	var counts protocol.Counts
	var in line.Reader
	seen, last, sums := 0, "", totals.New(&head)
	for raw, err := range rows {
		if err != nil {
			return err
		}
		row, err := r.checkRow(&in, raw, head)
		if err != nil {
			return err
		}
		if seen == 0 {
			if err := r.checkHead(head, raw, row); err != nil {
				return err
			}
		}
		if seen > 0 && row.StoreID <= last {
			return fmt.Errorf("%w: store %s follows %s", ErrSumRule, row.StoreID, last)
		}
		counts.Add(row.Outcome)
		if sums != nil {
			sums.Add(row)
		}
		last = row.StoreID
		seen++
	}
	if seen != head.Targets {
		return fmt.Errorf("%w: %d rows for %d targets", ErrSumRule, seen, head.Targets)
	}
	if counts != head.Counts {
		return fmt.Errorf("%w: the rows count %+v, the head says %+v", ErrSumRule, counts, head.Counts)
	}
	if !reflect.DeepEqual(sums.All(), head.Totals) {
		return fmt.Errorf("%w: the rows do not amount to the totals of the head", ErrSumRule)
	}
	return nil
}

func (r *Reporter) checkRow(in *line.Reader, raw json.RawMessage, head protocol.ReportHead) (*protocol.StoreRow, error) {
	row, err := in.Read(raw)
	if err != nil {
		return row, err
	}
	if !in.Usual || len(raw)-in.Values > maxChecked || !fits(row) {
		if err := r.validate(raw, row); err != nil {
			return row, err
		}
	}
	if !slices.Contains(row.Outcome.Reasons(), row.Reason) {
		return row, fmt.Errorf("%w: store %s has reason %q beside outcome %q", ErrSumRule, row.StoreID, row.Reason, row.Outcome)
	}
	for i, t := range row.Tries {
		if t.Attempt > row.Attempt || i > 0 && t.Attempt <= row.Tries[i-1].Attempt {
			return row, fmt.Errorf("%w: store %s lists attempt %d, not in order or above its newest, %d", ErrSumRule, row.StoreID, t.Attempt, row.Attempt)
		}
	}
	if len(row.Columns) != len(head.Columns) {
		return row, fmt.Errorf("%w: store %s has %d columns of %d", ErrSumRule, row.StoreID, len(row.Columns), len(head.Columns))
	}
	return row, nil
}

// fits says of a row in the usual form what its schema says, and is false where it
// is not sure. Only then is the schema itself asked, which takes twenty times as long
// and has the words for what is wrong.
func fits(row *protocol.StoreRow) bool {
	e := &row.Evidence
	return protocol.ValidID(row.StoreID) && protocol.ValidID(row.TaskID) && (row.TerminalID == "" || protocol.ValidID(row.TerminalID)) &&
		slices.Contains(row.Outcome.Reasons(), row.Reason) && slices.Contains(task.Outcomes(), row.AtBarrier) &&
		slices.Contains(statuses, row.Status) && (row.SHA256 == "" || isDigest(row.SHA256)) &&
		row.Attempt >= 0 && row.Bytes >= 0 && e.Attempts >= 0 && e.AttemptsOf >= 1 && !slices.ContainsFunc(row.Tries, unfit)
}

// unfit is what fits says of an attempt, the other way round.
func unfit(t protocol.Try) bool {
	return t.Attempt < 1 || !protocol.ValidID(t.TerminalID) || t.GrantedAt.IsZero() || !slices.Contains(answers, t.Answer) ||
		t.SHA256 != "" && !isDigest(t.SHA256) || t.Bytes < 0
}

var answers = []protocol.Answer{"", protocol.AnswerSucceeded, protocol.AnswerFailed, protocol.AnswerCancelled}

var statuses = []task.Status{task.Pending, task.Running, task.Succeeded, task.Failed, task.Cancelled}

func isDigest(s string) bool {
	const hexDigits = "0123456789abcdef"
	return len(s) == 2*sha256.Size && strings.Trim(s, hexDigits) == ""
}

func (r *Reporter) validate(raw json.RawMessage, row *protocol.StoreRow) error {
	plain, err := plainRow(raw, row)
	if err != nil {
		return err
	}
	if err := r.row.Validate(plain); err != nil {
		return fmt.Errorf("the row of store %s breaks its schema: %w", row.StoreID, err)
	}
	return nil
}

// maxChecked is how large a row may be to go to the schema as it is.
const maxChecked = 64 << 10

// maxTries is how many attempts of a large row go to the schema: their messages are
// bounded, their number is not.
const maxTries = 8

// plainRow is the row without the values of its columns, where these are large
// or nested. The schema leaves them free, and the checker's bounds on size and
// depth are for documents from outside: one store's answer, which was within
// them, must not stop the report of all.
func plainRow(raw json.RawMessage, row *protocol.StoreRow) (json.RawMessage, error) {
	nested := func(v json.RawMessage) bool { return len(v) > 0 && (v[0] == '{' || v[0] == '[') }
	if len(raw) <= maxChecked && !slices.ContainsFunc(row.Columns, nested) {
		return raw, nil
	}
	cut := *row
	cut.Columns = slices.Repeat([]json.RawMessage{json.RawMessage("null")}, len(row.Columns))
	cut.Tries = row.Tries[:min(maxTries, len(row.Tries))]
	return protocol.Encode(cut)
}

// checkHead checks the document as the JSON file shows it, cut after its first
// row: every row is checked by itself.
func (r *Reporter) checkHead(head protocol.ReportHead, first json.RawMessage, row *protocol.StoreRow) error {
	first, err := plainRow(first, row)
	if err != nil {
		return err
	}
	head.Input = json.RawMessage("{}")                      // the schema leaves it free
	head.Changes = head.Changes[:min(1, len(head.Changes))] // all are made alike
	var doc bytes.Buffer
	one := func(yield func(json.RawMessage, error) bool) { yield(first, nil) }
	if err := JSON(&doc, head, one); err != nil {
		return err
	}
	if err := r.whole.Validate(doc.Bytes()); err != nil {
		return fmt.Errorf("it breaks its schema: %w", err)
	}
	return nil
}

// rowSchema makes a schema of its own out of definitions/storeRow.
func rowSchema(whole []byte) ([]byte, error) {
	var doc struct {
		Schema      string                     `json:"$schema"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	if err := json.Unmarshal(whole, &doc); err != nil {
		return nil, fmt.Errorf("cannot read the report's schema: %w", err)
	}
	if doc.Definitions["storeRow"] == nil {
		return nil, errors.New("cannot use the report's schema: it has no definition storeRow")
	}
	return protocol.Encode(map[string]any{
		"$schema":     doc.Schema,
		"definitions": doc.Definitions,
		"allOf":       []any{map[string]string{"$ref": "#/definitions/storeRow"}},
	})
}
