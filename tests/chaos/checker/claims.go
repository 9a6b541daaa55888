package checker

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"muster/internal/protocol"
	"muster/internal/task"
)

// claim is what a file says in whatever format: the buckets, if it has them,
// and each store's row.
type claim struct {
	counts  *protocol.Counts
	targets int
	rows    map[string]claimRow
	verdict protocol.Verdict // "": not read in this format
	cells   bool             // values are those of cells, see cellOf
	amounts *amounts         // nil: not told in this format
}

// claimRow is a store as a file shows it.
type claimRow struct {
	outcome   task.Outcome
	reason    task.Reason
	atBarrier task.Outcome // "": the format does not tell by this word
	values    []string     // of the job's columns; nil: not read in this format
	tries     []string     // its attempts, see tryText; nil: not read in this format
}

func (b *book) compare(c claim, where Finding, rev Revision, in reading) {
	b.weigh("files", 1)
	rows := b.judged(rev.RunID, rev.Revision)
	first := b.judged(rev.RunID, 1)
	var counts protocol.Counts
	for _, o := range rows {
		counts.Add(o.Outcome)
	}
	if c.counts != nil && *c.counts != counts {
		b.broken(where, "it counts %s, the store has %s", bucketText(*c.counts), bucketText(counts))
	}
	if all := counts.Succeeded == b.runs[rev.RunID].Targets; c.verdict != "" && all != (c.verdict == protocol.VerdictComplete) {
		b.broken(where, "its verdict is %q, the store has %s", c.verdict, bucketText(counts))
	}
	if c.counts != nil && c.counts.Sum() != c.targets {
		b.broken(where, "its buckets sum to %d of %d targets", c.counts.Sum(), c.targets)
	}
	if c.counts != nil && c.targets != b.runs[rev.RunID].Targets {
		b.broken(where, "it speaks of %d targets, the run has %d", c.targets, b.runs[rev.RunID].Targets)
	}
	if have, want := sorted(c.rows), sorted(rows); !slices.Equal(have, want) {
		b.broken(where, "it has the stores %s, the store has %s", clip(strings.Join(have, " ")), clip(strings.Join(want, " ")))
		return
	}
	for _, id := range sorted(rows) {
		row, want := c.rows[id], rows[id]
		if row.outcome != want.Outcome || row.reason != want.Reason {
			b.broken(where, "it has store %s as %s %q, the store has %s %q", id, row.outcome, row.reason, want.Outcome, want.Reason)
		}
		if row.atBarrier != "" && row.atBarrier != first[id].Outcome {
			b.broken(where, "it has store %s as %s at the barrier, revision 1 has %s", id, row.atBarrier, first[id].Outcome)
		}
		if row.values != nil {
			b.compareValues(row.values, c.cells, where, rev, in, want)
		}
		if row.tries != nil {
			b.compareTries(row.tries, c.cells, where, want)
		}
	}
}

// compareValues compares the job's columns as people read them: a string as it is,
// nothing for null, anything else with the digits and bytes of the database; or as cells
// hold them.
func (b *book) compareValues(values []string, cells bool, where Finding, rev Revision, in reading, stored Outcome) {
	var row protocol.StoreRow
	if json.Unmarshal([]byte(stored.Row), &row) != nil {
		return // jsonRows says so
	}
	for i, column := range b.runs[rev.RunID].Columns {
		want := ""
		if i < len(row.Columns) && string(row.Columns[i]) != "null" && json.Unmarshal(row.Columns[i], &want) != nil {
			want = string(row.Columns[i])
		}
		if cells && i < len(row.Columns) {
			want = cellOf(column.Type, row.Columns[i], want, in.zone)
		}
		if got := values[i]; got != want && shownAsItIs(want) {
			b.broken(where, "it has store %s with %s = %q, the store has %q", stored.StoreID, column.Name, clip(got), clip(want))
		}
	}
}

// cellHolds is how many UTF-16 units a cell of a spreadsheet holds.
const cellHolds = 32_767

// shownAsItIs: no format cuts the text, or shows a character of it in another way.
func shownAsItIs(text string) bool {
	plain := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }
	return strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 && len(utf16.Encode([]rune(text))) <= cellHolds
}

// jsonRows: a row in the file has the bytes of the database.
func (b *book) jsonRows(f reportFile, where Finding, rev Revision) {
	var doc struct {
		RunID    string            `json:"runId"`
		Revision int               `json:"revision"`
		Stores   []json.RawMessage `json:"stores"`
	}
	if json.Unmarshal(f.content, &doc) != nil {
		return // jsonClaim says so
	}
	if doc.RunID != rev.RunID || doc.Revision != rev.Revision {
		b.broken(where, "it says that it is revision %d of run %s", doc.Revision, doc.RunID)
	}
	rows := b.judged(rev.RunID, rev.Revision)
	for _, raw := range doc.Stores {
		var row protocol.StoreRow
		if json.Unmarshal(raw, &row) != nil {
			continue // jsonClaim says so
		}
		if want, known := rows[row.StoreID]; known && compact(raw) != compact(json.RawMessage(want.Row)) &&
			row.Outcome == want.Outcome && row.Reason == want.Reason { // else it is said
			b.broken(where, "its row of store %s is not the store's", row.StoreID)
		}
		for _, try := range row.Tries {
			b.tried(where, row, try)
		}
	}
}

// tried: an attempt that a row lists is the store's, which may have ended since.
func (b *book) tried(where Finding, row protocol.StoreRow, try protocol.Try) {
	where.Task, where.Attempt = row.TaskID, try.Attempt
	a, known := b.attempts[execution{row.TaskID, try.Attempt}]
	if !known || a.TerminalID != try.TerminalID || a.GrantedAt != try.GrantedAt.UnixMilli() ||
		try.Answer != "" && (a.Answer != try.Answer || a.Code != try.Code || a.SHA256 != try.SHA256) {
		b.broken(where, "store %s is reported with an attempt of %s that ended as %q %s, the store has %q %s of %s", row.StoreID, try.TerminalID, try.Answer, try.Code, a.Answer, a.Code, a.TerminalID)
	}
}
