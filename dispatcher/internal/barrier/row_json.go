package barrier

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"muster/internal/protocol"
)

// rowJSON writes a row with the bytes of protocol.Encode, for a fifth of the time:
// at the barrier every store waits for the last one's. What is not plain goes through
// protocol.Encode itself.
type rowJSON struct {
	out []byte
	err error // the first
}

func encodeRow(row *protocol.StoreRow) (json.RawMessage, error) {
	const usual = 1 << 10
	w := rowJSON{out: make([]byte, 0, usual)}
	w.text(`{"storeId":`, row.StoreID)
	w.text(`,"name":`, row.Name)
	w.labels(row.Labels)
	w.text(`,"outcome":`, string(row.Outcome))
	w.text(`,"reason":`, string(row.Reason))
	w.text(`,"outcomeAtBarrier":`, string(row.AtBarrier))
	w.boolean(`,"late":`, row.Late)
	w.evidence(&row.Evidence)
	w.text(`,"taskId":`, row.TaskID)
	w.text(`,"status":`, string(row.Status))
	w.integer(`,"attempt":`, int64(row.Attempt))
	w.text(`,"terminalId":`, row.TerminalID)
	w.moment(`,"finishedAt":`, row.FinishedAt)
	w.text(`,"resultSha256":`, row.SHA256)
	w.integer(`,"resultBytes":`, row.Bytes)
	w.columns(row.Columns)
	w.raw(`,"error":`)
	w.failure(row.Error)
	w.tries(row.Tries)
	w.raw(`}`)
	return bytes.Clone(w.out), w.err
}

func (w *rowJSON) evidence(e *protocol.Evidence) {
	w.boolean(`,"evidence":{"online":`, e.Online)
	w.moment(`,"lastSeenAt":`, e.LastSeenAt)
	w.moment(`,"claimedAt":`, e.ClaimedAt)
	w.moment(`,"grantedAt":`, e.GrantedAt)
	w.moment(`,"startedAt":`, e.StartedAt)
	w.moment(`,"lastSignAt":`, e.LastSignAt)
	w.moment(`,"readyAt":`, e.ReadyAt)
	w.integer(`,"attemptsUsed":`, int64(e.Attempts))
	w.integer(`,"attemptsAllowed":`, int64(e.AttemptsOf))
	if e.ClockSkewMs == nil {
		w.raw(`,"clockSkewMs":null}`)
		return
	}
	w.integer(`,"clockSkewMs":`, *e.ClockSkewMs)
	w.raw("}")
}

func (w *rowJSON) labels(labels map[string]string) {
	before := `,"labels":{`
	if len(labels) == 0 {
		w.raw(before)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		w.text(before, key)
		w.text(":", labels[key])
		before = ","
	}
	w.raw("}")
}

func (w *rowJSON) columns(columns []json.RawMessage) {
	before := `,"columns":[`
	if len(columns) == 0 {
		w.raw(before)
	}
	for _, value := range columns {
		w.raw(before)
		if isCompact(value) {
			w.raw(string(value))
		} else {
			w.encode(value)
		}
		before = ","
	}
	w.raw("]")
}

// isCompact is true for JSON without white space, but for that in a lone string.
func isCompact(value json.RawMessage) bool {
	lone := len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"'
	return json.Valid(value) && (lone || !bytes.ContainsAny(value, " \t\r\n"))
}

// failure has members that are left out when empty.
func (w *rowJSON) failure(f *protocol.Failure) {
	if f == nil {
		w.raw("null")
		return
	}
	w.text(`{"code":`, string(f.Code))
	w.text(`,"message":`, f.Message)
	if f.Detail != "" {
		w.text(`,"detail":`, f.Detail)
	}
	if f.Path != "" {
		w.text(`,"path":`, f.Path)
	}
	w.raw("}")
}

// tries are left out when there are none.
func (w *rowJSON) tries(tries []protocol.Try) {
	before := `,"attempts":[{"attempt":`
	for i := range tries {
		t := &tries[i]
		w.integer(before, int64(t.Attempt))
		w.text(`,"terminalId":`, t.TerminalID)
		w.moment(`,"grantedAt":`, t.GrantedAt)
		w.moment(`,"startedAt":`, t.StartedAt)
		w.moment(`,"endedAt":`, t.EndedAt)
		w.text(`,"answer":`, string(t.Answer))
		w.text(`,"code":`, string(t.Code))
		w.text(`,"message":`, t.Message)
		if t.ExitCode == nil {
			w.raw(`,"exitCode":null`)
		} else {
			w.integer(`,"exitCode":`, int64(*t.ExitCode))
		}
		w.text(`,"sha256":`, t.SHA256)
		w.integer(`,"bytes":`, t.Bytes)
		w.raw("}")
		before = `,{"attempt":`
	}
	if len(tries) > 0 {
		w.raw("]")
	}
}

func (w *rowJSON) raw(s string) { w.out = append(w.out, s...) }

func (w *rowJSON) text(before, s string) {
	w.raw(before)
	if !plainText(s) {
		w.encode(s)
		return
	}
	w.out = append(append(append(w.out, '"'), s...), '"')
}

// plainText is true for text that stands in JSON as it is. U+2028 and U+2029, which
// begin with the same two bytes as other punctuation, do not.
func plainText(s string) bool {
	ascii := true
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c == '"' || c == '\\' || c == 0xe2 {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.ValidString(s)
}

func (w *rowJSON) boolean(before string, b bool) {
	w.raw(before)
	w.out = strconv.AppendBool(w.out, b)
}

func (w *rowJSON) integer(before string, n int64) {
	w.raw(before)
	w.out = strconv.AppendInt(w.out, n, 10)
}

func (w *rowJSON) moment(before string, t protocol.Time) {
	w.raw(before)
	if t.IsZero() {
		w.raw("null")
		return
	}
	w.out = t.AppendFormat(w.out, `"2006-01-02T15:04:05.000Z07:00"`)
}

func (w *rowJSON) encode(v any) {
	doc, err := protocol.Encode(v)
	w.out = append(w.out, doc...)
	if w.err == nil {
		w.err = err
	}
}
