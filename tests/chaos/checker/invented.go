package checker

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// invented: every answer that is stored or reported was sent by somebody.
func invented(b *book) {
	find := func(e execution, sum string) *result {
		for i, r := range b.results[e] {
			if r.names(sum) {
				return &b.results[e][i]
			}
		}
		return nil
	}
	for _, a := range b.Store.Attempts {
		key := execution{a.TaskID, a.Attempt}
		if a.ReceivedAt == 0 || wasRefused(a.Code) && len(b.results[key]) > 0 {
			continue
		}
		b.weigh("answers", 1)
		where := Finding{Task: a.TaskID, Attempt: a.Attempt}
		switch r := find(key, a.SHA256); {
		case r == nil:
			b.broken(where, "the store holds the answer %s, which nobody sent", short(a.SHA256))
		case !b.sentBy(a):
			where.Line = r.Source
			b.broken(where, "the store holds the answer %s of %s/%s, which %s sent", short(a.SHA256), a.StoreID, a.TerminalID, r.Who)
		}
	}
	for _, f := range b.files {
		report, err := f.report()
		if err != nil {
			continue // another format, or I5's
		}
		for _, row := range report.Stores {
			if row.Outcome != task.OutcomeSucceeded {
				continue
			}
			b.weigh("reported", 1)
			where := Finding{Run: f.rev.RunID, Task: row.TaskID, Attempt: row.Attempt, File: f.path}
			r := find(execution{row.TaskID, row.Attempt}, row.SHA256)
			if r == nil {
				b.broken(where, "store %s is reported with the answer %s, which nobody sent", row.StoreID, short(row.SHA256))
				continue
			}
			if b.attempts[execution{row.TaskID, row.Attempt}].Redacted == 0 {
				b.inventedValues(where, report, row, *r)
			}
		}
	}
}

// sentBy: the terminal that the attempt was granted to has sent what is stored.
func (b *book) sentBy(a Attempt) bool {
	return slices.ContainsFunc(b.results[execution{a.TaskID, a.Attempt}], func(r result) bool {
		return r.names(a.SHA256) && r.Store == a.StoreID && r.Terminal == a.TerminalID
	})
}

func (b *book) inventedValues(where Finding, report protocol.Report, row protocol.StoreRow, sent result) {
	where.Line = sent.Source
	for i, column := range report.Columns {
		if i >= len(row.Columns) {
			return
		}
		want := value(sent.Result.Result, column.Pointer)
		if got := compact(row.Columns[i]); got != want {
			b.broken(where, "store %s is reported with %s = %s, sent was %s", row.StoreID, column.Name, clip(got), clip(want))
		}
	}
}

// value follows a JSON Pointer; what is not there is null.
func value(doc json.RawMessage, pointer string) string {
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(doc, &object) == nil:
			doc = object[step]
		case json.Unmarshal(doc, &list) == nil:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(list) {
				return "null"
			}
			doc = list[i]
		default:
			return "null"
		}
		if doc == nil {
			return "null"
		}
	}
	return compact(doc)
}
