package checker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// receipts: what a receipt names is stored.
func receipts(b *book) {
	for _, o := range b.orders {
		if o.Order.Order != protocol.OrderReceipt || o.Order.Accepted == nil {
			continue
		}
		where := Finding{Task: o.Order.TaskID, Attempt: o.Order.Attempt, Line: o.Source}
		stored, known := b.attempts[o.execution()]
		switch {
		case *o.Order.Accepted && b.withdrawn(o):
		case !*o.Order.Accepted && !wasRefused(o.Order.Code): // it changed nothing
		case !known || stored.ReceivedAt == 0:
			b.broken(where, "the receipt of %s names an answer that the store does not hold", short(o.Order.SHA256))
		case *o.Order.Accepted && stored.SHA256 != o.Order.SHA256:
			b.broken(where, "the receipt names %s, the store holds %s", short(o.Order.SHA256), short(stored.SHA256))
		}
	}
	for _, a := range b.Store.Attempts {
		if a.Result == nil || a.Redacted > 0 || a.ReceivedAt == 0 || a.Code != "" {
			continue // what was blacked out keeps the hash of what was sent
		}
		if sum := digest([]byte(*a.Result)); sum != a.SHA256 {
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "the stored result hashes to %s, its record says %s", short(sum), short(a.SHA256))
		}
	}
}

// withdrawn: that a withdrawn task was stopped is receipted, and need not be
// stored.
func (b *book) withdrawn(o order) bool {
	return b.tasks[o.Order.TaskID].Status == task.Cancelled && slices.ContainsFunc(b.results, func(r result) bool {
		return r.execution() == o.execution() && r.names(o.Order.SHA256) && r.Result.Outcome == protocol.AnswerCancelled
	})
}

// names compares with the hash that the answer names.
func (r result) names(sum string) bool { return r.Result.SHA256 == sum }

// once: one run a request, one record an answer.
func once(b *book) {
	b.onceRequests()
	b.onceRecords()
	b.onceReceipts()
}

type asking struct{ user, id string }

func (b *book) onceRequests() {
	first := map[asking]request{}
	most := map[string]int{} // user: runs that the user's calls may have made
	seen := map[asking]bool{}
	for _, r := range b.requests {
		if r.verb != protocol.VerbRun {
			continue
		}
		var asked protocol.RunRequest
		key := asking{user: r.user}
		if json.Unmarshal([]byte(r.asked.Payload), &asked) == nil {
			key.id = asked.RequestID
		}
		if key.id == "" || !seen[key] {
			most[r.user]++
		}
		seen[key] = true
		if !r.reply.OK {
			continue
		}
		where := Finding{Run: r.reply.RunID, Line: r.answered.Source}
		if _, known := b.runs[r.reply.RunID]; !known {
			b.broken(where, "the request was accepted and the store has no such run")
			continue
		}
		if before, again := first[key]; key.id != "" && again && before.reply.RunID != r.reply.RunID {
			b.broken(where, "request %s of %s made this run and run %s (%s)", key.id, key.user, before.reply.RunID, before.answered.Source)
		} else if !again {
			first[key] = r
		}
	}
	made := map[string]int{}
	for _, run := range b.Store.Runs {
		made[run.RequestedBy]++
	}
	for _, run := range b.Store.Runs {
		if limit, asks := most[run.RequestedBy]; asks && made[run.RequestedBy] > limit {
			made[run.RequestedBy] = 0 // once a user
			b.broken(Finding{}, "%s asked for at most %d runs and the store has more of them", run.RequestedBy, limit)
		}
	}
	b.onceStored(first)
}

// onceStored compares the replies with the table of requests.
func (b *book) onceStored(first map[asking]request) {
	stored := map[asking]string{}
	for _, r := range b.Store.Requests {
		key := asking{r.User, r.RequestID}
		if run, twice := stored[key]; twice && run != r.RunID {
			b.broken(Finding{Run: r.RunID}, "the store has request %s of %s for this run and for run %s", r.RequestID, r.User, run)
		}
		stored[key] = r.RunID
	}
	for key, r := range first {
		if run := stored[key]; key.id != "" && run != r.reply.RunID {
			b.broken(Finding{Run: r.reply.RunID, Line: r.answered.Source},
				"the reply to request %s of %s names this run, the store has %q", key.id, key.user, run)
		}
	}
}

func (b *book) onceRecords() {
	records := map[execution]int{}
	for _, a := range b.Store.Attempts {
		key := execution{a.TaskID, a.Attempt}
		if records[key]++; records[key] == 2 {
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "the store has more than one record of the attempt")
		}
	}
	kept := map[RejectedResult]int{}
	for _, r := range b.Store.Rejected {
		if kept[r]++; kept[r] == 2 {
			b.broken(Finding{Task: r.TaskID, Attempt: r.Attempt}, "the refused answer %s is kept more than once", short(r.SHA256))
		}
	}
}

// onceReceipts: the same answer is not accepted once and refused once.
func (b *book) onceReceipts() {
	type answer struct {
		execution
		terminal, sum string
	}
	first := map[answer]order{}
	for _, o := range b.orders {
		if o.Order.Order != protocol.OrderReceipt || o.Order.Accepted == nil {
			continue
		}
		key := answer{o.execution(), o.Store + "/" + o.Terminal, o.Order.SHA256}
		before, again := first[key]
		if !again {
			first[key] = o
		} else if *before.Order.Accepted && !*o.Order.Accepted {
			b.broken(Finding{Task: key.task, Attempt: key.attempt, Line: o.Source},
				"the answer %s was accepted (%s) and then refused with %s", short(key.sum), before.Source, o.Order.Code)
		}
	}
}

// invented: every answer that is stored or reported was sent by somebody.
func invented(b *book) {
	sent := map[execution][]result{}
	for _, r := range b.results {
		sent[r.execution()] = append(sent[r.execution()], r)
	}
	find := func(e execution, sum string) *result {
		for i, r := range sent[e] {
			if r.names(sum) {
				return &sent[e][i]
			}
		}
		return nil
	}
	for _, a := range b.Store.Attempts {
		key := execution{a.TaskID, a.Attempt}
		if a.ReceivedAt == 0 || wasRefused(a.Code) && len(sent[key]) > 0 {
			continue
		}
		if find(key, a.SHA256) == nil {
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "the store holds the answer %s, which nobody sent", short(a.SHA256))
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

// wasRefused: the answer was stored as an invalid one, under the hash of what
// came and not of what it said about itself.
func wasRefused(code protocol.Code) bool {
	return slices.Contains([]protocol.Code{protocol.CodeInvalidResult, protocol.CodeBadHash, protocol.CodeWrongOffer, protocol.CodeTooLarge}, code)
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

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// short is enough of a hash to find it.
func short(sum string) string {
	if len(sum) > 12 {
		return sum[:12]
	}
	return fmt.Sprintf("%q", sum)
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
