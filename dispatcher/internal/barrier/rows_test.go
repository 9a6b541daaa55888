package barrier_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// succeeded is a store that did all in order.
func succeeded(at time.Time) store.Candidate {
	skew := int64(-120)
	return store.Candidate{
		Place:  store.Place{StoreID: "S000001", Name: "上海虹桥店", Labels: map[string]string{"region": "east"}},
		Online: true, LastSeen: at, SkewMs: &skew,
		Task: store.Task{TaskID: "T-S000001", State: task.State{Status: task.Succeeded, Attempt: 1, Settled: true}, Attempts: 2, HolderID: "pos-1", ClaimedAt: at, SettledAt: at},
		Attempt: &store.Attempt{Attempt: 1, GrantedAt: at, StartedAt: at, LastSignAt: at, Answer: protocol.AnswerSucceeded, SHA256: strings.Repeat("0a", 32), Bytes: 412,
			Columns: []json.RawMessage{json.RawMessage("12345"), json.RawMessage(`"ok"`)}},
	}
}

// TestARowIsWrittenAsTheProtocolEncodesIt, whatever texts and values are in it, and is
// refused when that refuses it.
func TestARowIsWrittenAsTheProtocolEncodesIt(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "S000001", "上海", "\"\\", "\u2028", "\u2014", "a<b>&c", "\xff", "\x00\n\t", "\x7f"}))
	value := rapid.SampledFrom([]string{"1", "-2.50", "null", `"a b"`, `"\n<>&"`, "\"\u2028\"", `"\u2028"`, `{"a":[1, 2]}`, `{"a":"b c"}`, " 1", "1 ", "\"\xff\"", "", "x", `"`, "1 2", "01", `"a" `})
	moment := rapid.Custom(func(t *rapid.T) protocol.Time {
		if rapid.Bool().Draw(t, "null") {
			return protocol.Time{}
		}
		zone := time.FixedZone("", rapid.SampledFrom([]int{0, 8 * 3600, -34_200}).Draw(t, "zone"))
		return protocol.Time{Time: time.UnixMicro(rapid.Int64Range(-62_000_000_000_000_000, 300_000_000_000_000_000).Draw(t, "at")).In(zone)}
	})
	rapid.Check(t, func(t *rapid.T) {
		row := protocol.StoreRow{StoreID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Labels: rapid.MapOfN(text, text, 0, 3).Draw(t, "labels"),
			Outcome: task.Outcome(text.Draw(t, "outcome")), Reason: task.Reason(text.Draw(t, "reason")), AtBarrier: task.OutcomeOffline, Late: rapid.Bool().Draw(t, "late"),
			Evidence: protocol.Evidence{Online: rapid.Bool().Draw(t, "online"), LastSeenAt: moment.Draw(t, "seen"), ClaimedAt: moment.Draw(t, "claimed"), GrantedAt: moment.Draw(t, "granted"),
				StartedAt: moment.Draw(t, "started"), LastSignAt: moment.Draw(t, "sign"), ReadyAt: moment.Draw(t, "ready"), Attempts: rapid.Int().Draw(t, "attempts"), AttemptsOf: 2,
				ClockSkewMs: rapid.Ptr(rapid.Int64(), true).Draw(t, "skew")},
			TaskID: text.Draw(t, "task"), Status: task.Running, Attempt: rapid.Int().Draw(t, "attempt"), TerminalID: text.Draw(t, "terminal"), FinishedAt: moment.Draw(t, "finished"),
			SHA256: text.Draw(t, "hash"), Bytes: rapid.Int64().Draw(t, "bytes"), Columns: []json.RawMessage{}}
		for _, v := range rapid.SliceOfN(value, 0, 3).Draw(t, "values") {
			row.Columns = append(row.Columns, json.RawMessage(v))
		}
		if rapid.Bool().Draw(t, "failed") {
			row.Error = &protocol.Failure{Code: protocol.Code(text.Draw(t, "code")), Message: text.Draw(t, "message"), Detail: text.Draw(t, "detail"), Path: text.Draw(t, "path")}
		}
		for range rapid.IntRange(0, 2).Draw(t, "tries") {
			row.Tries = append(row.Tries, protocol.Try{Attempt: rapid.Int().Draw(t, "try"), TerminalID: text.Draw(t, "tried at"), GrantedAt: moment.Draw(t, "try granted"), StartedAt: moment.Draw(t, "try started"),
				EndedAt: moment.Draw(t, "try ended"), Answer: protocol.Answer(text.Draw(t, "answer")), Code: protocol.Code(text.Draw(t, "try code")), Message: text.Draw(t, "try message"),
				ExitCode: rapid.Ptr(rapid.Int(), true).Draw(t, "exit code"), SHA256: text.Draw(t, "try hash"), Bytes: rapid.Int64().Draw(t, "try bytes")})
		}
		want, wantErr := protocol.Encode(row)
		got, err := barrier.EncodeRow(&row)
		if (err != nil) != (wantErr != nil) || err == nil && string(got) != string(want) {
			t.Fatalf("got\n%s, %v\nwant\n%s, %v", got, err, want, wantErr)
		}
	})
}

func BenchmarkRow(b *testing.B) {
	now := time.Date(2026, 9, 17, 10, 30, 0, 0, time.UTC)
	run := &store.Run{Columns: make([]protocol.Column, 2)}
	zone := time.FixedZone("Asia/Shanghai", 8*3600)
	c := succeeded(now)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := barrier.Row(c, run, now, zone); err != nil {
			b.Fatal(err)
		}
	}
}
