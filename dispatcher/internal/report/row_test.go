package report_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/report"
	"muster/internal/protocol"
	"muster/internal/task"
)

var anyString = rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("aZ09._-=+'\"\\<>&/\u0000\u001f\u2028\ufffd店😀\t\r\n")), 0, 70, -1))

// anyRow is a row as the barrier could write it, with texts that it could not
// help, and with all that a row of another version could hold.
func anyRow(t *rapid.T) protocol.StoreRow {
	outcome := rapid.SampledFrom(append(task.Outcomes(), "lost")).Draw(t, "outcome")
	id := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,62}`), rapid.StringMatching(`[A-Za-z0-9._-]{0,64}`), anyString)
	word := rapid.OneOf(rapid.Just(""), id)
	moment := func(name string) protocol.Time {
		if rapid.Bool().Draw(t, name+" is null") {
			return protocol.Time{}
		}
		zone := time.FixedZone("", rapid.SampledFrom([]int{0, 8 * 3600, -9*3600 - 1800, 86_340}).Draw(t, name+" zone"))
		return protocol.Time{Time: time.UnixMilli(rapid.Int64Range(-62_000_000_000_000, 250_000_000_000_000).Draw(t, name)).In(zone)}
	}
	row := protocol.StoreRow{
		StoreID: id.Draw(t, "store"), Name: anyString.Draw(t, "name"),
		Labels:  rapid.MapOfN(rapid.OneOf(anyString, rapid.SampledFrom([]string{"k", "K", "\u212a", ""})), anyString, 0, 4).Draw(t, "labels"),
		Outcome: outcome, Reason: rapid.SampledFrom(append(outcome.Reasons(), "", "by_user", "why")).Draw(t, "reason"),
		AtBarrier: rapid.SampledFrom(append(task.Outcomes(), "")).Draw(t, "at the barrier"), Late: rapid.Bool().Draw(t, "late"),
		Evidence: protocol.Evidence{Online: rapid.Bool().Draw(t, "online"), LastSeenAt: moment("seen"), ClaimedAt: moment("claimed"), GrantedAt: moment("granted"),
			StartedAt: moment("started"), LastSignAt: moment("sign"), ReadyAt: moment("ready"),
			Attempts: rapid.IntRange(-1, 3).Draw(t, "attempts"), AttemptsOf: rapid.IntRange(0, 3).Draw(t, "of"), ClockSkewMs: rapid.Ptr(rapid.Int64(), true).Draw(t, "skew")},
		TaskID: id.Draw(t, "task"), Status: rapid.SampledFrom([]task.Status{task.Pending, task.Running, task.Succeeded, task.Failed, task.Cancelled, "LOST"}).Draw(t, "status"),
		Attempt: rapid.IntRange(-1, 1<<40).Draw(t, "attempt"), TerminalID: word.Draw(t, "terminal"), FinishedAt: moment("finished"),
		SHA256: rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[0-9a-f]{64}`), rapid.StringMatching(`[0-9a-fA]{63,65}`)).Draw(t, "hash"),
		Bytes:  rapid.Int64Range(-1, 1<<40).Draw(t, "bytes"),
	}
	row.Columns = rapid.SliceOfN(rapid.Custom(anyValue), 0, 4).Draw(t, "columns")
	if rapid.Bool().Draw(t, "failed") {
		row.Error = &protocol.Failure{Code: protocol.Code(anyString.Draw(t, "code")), Message: anyString.Draw(t, "message"),
			Detail: word.Draw(t, "detail"), Path: word.Draw(t, "path")}
	}
	for range rapid.IntRange(0, 3).Draw(t, "tries") {
		row.Tries = append(row.Tries, protocol.Try{Attempt: rapid.IntRange(0, 9).Draw(t, "try"), TerminalID: word.Draw(t, "tried at"), GrantedAt: moment("try granted"),
			StartedAt: moment("try started"), EndedAt: moment("try ended"), Answer: rapid.SampledFrom([]protocol.Answer{"", "failed", "succeeded", "cancelled", "lost"}).Draw(t, "answer"),
			Code: protocol.Code(word.Draw(t, "try code")), Message: anyString.Draw(t, "try message"), ExitCode: rapid.Ptr(rapid.IntRange(-1<<40, 1<<40), true).Draw(t, "exit code"),
			SHA256: rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[0-9a-f]{64}`), anyString).Draw(t, "try hash"), Bytes: rapid.Int64Range(-1, 1<<40).Draw(t, "try bytes")})
	}
	return row
}

func anyValue(t *rapid.T) json.RawMessage {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,45})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?`)
	text := rapid.Custom(func(t *rapid.T) string {
		raw, err := protocol.Encode(anyString.Draw(t, "text"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	})
	nested := rapid.SampledFrom([]string{`{}`, `[]`, `{"a":[1.50,"x]}"]}`, `[[[{"b":"\""}]]]`, `{"a":1,"a":2}`, strings.Repeat("[", 40) + strings.Repeat("]", 40)})
	other := rapid.SampledFrom([]string{strings.Repeat("9", 40), strings.Repeat("9", 41), "0." + strings.Repeat("1", 39), "null", "true", "false", `"\ud800"`, `"\ud83d\ude00"`, `"\u0041\/"`})
	return json.RawMessage(rapid.OneOf(number, text, nested, other).Draw(t, "value"))
}

// nearly are times and numbers that are not, or not to everybody.
var nearly = map[string][]string{
	`"[0-9]{4}-[^"]*"`: {`"2026-02-30T08:00:00.000Z"`, `"2026-00-01T08:00:00.000Z"`, `"2026-13-01T08:00:00.000Z"`, `"2026-01-01T24:00:00.000Z"`, `"2026-01-01T08:60:00.000Z"`, `"2026-01-01T08:59:60.000Z"`,
		`"2026-01-01T08:00:00.000+24:00"`, `"2026-01-01T08:00:00.000+08:60"`, `"2026-01-01T08:00:00.000+99:00"`, `"2026-01-01T08:00:00.000-08:99"`, `"2026-01-01T08:00:00.000+08"`, `"2026-01-01T08:00:00.00Z"`, `"2026-01-01 08:00:00.000Z"`, `"2024-02-29T08:00:00.000-00:00"`, `"2026-01-01T08:00:00.000z"`},
	`:-?[0-9]+[,}]`: {`:01,`, `:-0,`, `:1.0,`, `:1e2,`, `:999999999999999999,`, `:9999999999999999999,`, `:-1,`, `:,`, `:-,`, `:"1",`, `:null,`},
}

// spoiled changes some of a row, so that it is still much like one.
func spoiled(t *rapid.T, raw []byte) []byte {
	if rapid.Bool().Draw(t, "nearly") {
		what := rapid.SampledFrom(slices.Sorted(maps.Keys(nearly))).Draw(t, "what")
		if all := regexp.MustCompile(what).FindAllIndex(raw, -1); len(all) > 0 {
			at, with := rapid.SampledFrom(all).Draw(t, "where"), rapid.SampledFrom(nearly[what]).Draw(t, "with")
			if end := raw[at[1]-1]; end == '}' {
				with = strings.Replace(with, ",", "}", 1)
			}
			return bytes.Join([][]byte{raw[:at[0]], []byte(with), raw[at[1]:]}, nil)
		}
	}
	raw = bytes.Clone(raw)
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		at := rapid.IntRange(0, len(raw)-1).Draw(t, "at")
		with := rapid.SampledFrom([]string{"", " ", `"`, ",", "{", "}", "[", "]", ":", "0", "9", "-", "a", "\\", "\n", "\x00", "\xff", "null", "true", `"x":1,`, "1e5", ".5", "T", "Z", "+"}).Draw(t, "with")
		to := min(at+rapid.SampledFrom([]int{0, 1, 1, 1, 4}).Draw(t, "over"), len(raw))
		raw = bytes.Join([][]byte{raw[:at], []byte(with), raw[to:]}, nil)
		if len(raw) == 0 {
			return []byte("x")
		}
	}
	return raw
}

// TestARowIsReadAndJudgedAsItsSchemaSays: what the row reader takes for usual is what
// encoding/json makes of it, and what fits breaks nothing in the published schema.
func TestARowIsReadAndJudgedAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		var in report.RowReader // its state must not reach from one row to the next
		for range 8 {
			raw, err := protocol.Encode(anyRow(t))
			if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 2).Draw(t, "spoil") > 0 {
				raw = spoiled(t, raw)
			}
			row, usual, fits := in.Read(raw)
			if !usual {
				continue
			}
			var want protocol.StoreRow
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatalf("%s\nis taken for usual, and is no row: %v", raw, err)
			}
			got, gotErr := protocol.Encode(row)
			again, wantErr := protocol.Encode(want)
			if gotErr != nil || wantErr != nil || !bytes.Equal(got, again) {
				t.Fatalf("%s\nis read as\n%s\nwant\n%s (%v, %v)", raw, got, again, gotErr, wantErr)
			}
			if err := r.Validate(raw); fits && err != nil {
				t.Fatalf("%s\nis taken for fitting: %v", raw, err)
			}
		}
	})
}

// TestOneChangeMakesARowUnfit: each is one that the schema's checker refuses, or of
// which it has more to say.
func TestOneChangeMakesARowUnfit(t *testing.T) {
	t.Parallel()
	good, err := protocol.Encode(valued(row("A", "店", task.OutcomeSucceeded, ""), "12345", `"ok"`))
	if err != nil {
		t.Fatal(err)
	}
	var in report.RowReader
	if _, usual, fits := in.Read(good); !usual || !fits {
		t.Fatalf("%s: usual %t, fits %t", good, usual, fits)
	}
	for _, change := range [][2]string{
		{"12345", strings.Repeat("9", 41)}, {"12345", "1e5"}, {"12345", "01"}, {"12345", "-"}, {"12345", "1."}, {"12345", `[1,]`}, {"12345", `[1`}, {`"ok"`, `"\ud800"`}, {`"ok"`, `"\x"`}, {`"ok"`, "\"\xff\""},
		{`"region":"east"`, `"a":"","A":""`}, {`"region":"east"`, `"a":1`}, {`{"region":"east"}`, "null"}, {`"店"`, `"\uDC00"`}, {`"店"`, "\"\t\""}, {`"storeId":"A"`, `"storeId":"-A"`},
		{`"taskId":"task-A"`, `"taskId":""`}, {`"taskId":`, `"taskid":`}, {`"late":false`, `"late":0`}, {`"attempt":1`, `"attempt":-1`}, {`"resultBytes":412`, `"resultBytes":-412`},
		{`"attemptsUsed":1`, `"attemptsUsed":-1`}, {`"attemptsAllowed":2`, `"attemptsAllowed":0`}, {`"attemptsAllowed":2`, `"attemptsAllowed":1000000000000000000`}, {`"SUCCEEDED"`, `"DONE"`},
		{`"outcome":"succeeded"`, `"outcome":"lost"`}, {`"reason":""`, `"reason":"by_user"`}, {`"outcomeAtBarrier":"succeeded"`, `"outcomeAtBarrier":""`}, {`"terminalId":"pos-1"`, `"terminalId":"pos 1"`},
		{"abab", "ABAB"}, {"abab", "aba"}, {`"error":null}`, `"error":null} `}, {`"error":null}`, `"error":null,"more":1}`}, {`"error":null`, `"error":{"code":"X"}`}, {`{"storeId"`, ` {"storeId"`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Errorf("%s is not in the row", change[0])
		}
		if _, _, fits := in.Read(json.RawMessage(bad)); fits {
			t.Errorf("%s fits with %s", change[0], change[1])
		}
	}
}

// TestEveryGoodRowIsUsual: what the barrier writes needs neither encoding/json nor
// the schema's checker, which would take many times as long.
func TestEveryGoodRowIsUsual(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		row := anyRow(t)
		row.Columns = []json.RawMessage{json.RawMessage(`-12.50`), json.RawMessage(`{"a":[1,"}"]}`), json.RawMessage(`"店\n"`), json.RawMessage("null")}
		row.Attempt %= 1 << 31
		if row.Evidence.ClockSkewMs != nil {
			*row.Evidence.ClockSkewMs %= 1e15
		}
		if len(row.Labels) > 1 {
			row.Labels = map[string]string{"region": "east", "Size": "店"}
		}
		raw, err := protocol.Encode(row)
		if err != nil {
			t.Fatal(err)
		}
		var in report.RowReader
		_, usual, fits := in.Read(raw)
		if err := r.Validate(raw); !usual || fits != (err == nil && fitting(row)) {
			t.Fatalf("%s\nusual %t, fits %t, schema %v", raw, usual, fits, err)
		}
	})
}

// fitting is what the sum rule says beside the schema.
func fitting(row protocol.StoreRow) bool {
	for _, reason := range row.Outcome.Reasons() {
		if reason == row.Reason {
			return true
		}
	}
	return false
}
