package protocol_test

import (
	"encoding/json"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

func TestTimeIsRFC3339WithMilliseconds(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 8*3600)
	at := protocol.At(time.Date(2026, 9, 17, 7, 30, 0, 123_999_999, zone))
	got, err := protocol.Encode(at)
	if err != nil || string(got) != `"2026-09-17T07:30:00.123+08:00"` {
		t.Fatalf("got %s, %v", got, err)
	}
	var back protocol.Time
	if err := json.Unmarshal(got, &back); err != nil || !back.Equal(at.Time) {
		t.Fatalf("got %v back, %v", back, err)
	}
	if got, err = protocol.Encode(protocol.Time{}); err != nil || string(got) != "null" {
		t.Fatalf("the zero time became %s, %v", got, err)
	}
	if err := json.Unmarshal([]byte("null"), &back); err != nil || !back.IsZero() {
		t.Fatalf("null became %v, %v", back, err)
	}
}

func TestEncodeKeepsTheBytesOfNumbersAndMarkup(t *testing.T) {
	t.Parallel()
	raw, err := protocol.Compact([]byte(`{ "big": 9007199254740993, "one": 1.0, "text": "<a> & \u4e2d" }`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := protocol.Encode(protocol.Result{TaskID: "t", Result: raw, Outcome: protocol.AnswerSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	var back protocol.Result
	if err := protocol.Decode(got, protocol.MaxPayloadBytes, &back); err != nil {
		t.Fatal(err)
	}
	if want := `{"big":9007199254740993,"one":1.0,"text":"<a> & \u4e2d"}`; string(back.Result) != want {
		t.Errorf("got %s, want %s", back.Result, want)
	}
}

func TestTaskRecordHasTheNamesOfTheContract(t *testing.T) {
	t.Parallel()
	offer := protocol.Offer{Record: protocol.Record{TaskID: "t", ParentID: "r", StoreID: "007", Type: "collect_log",
		Input: json.RawMessage(`{}`), Status: task.Pending, Deadline: 1}}
	data, err := protocol.Encode(offer)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"taskId", "parentId", "storeId", "type", "input", "status", "attempt", "result", "error",
		"deadline", "attempts", "runTimeoutMs", "notBefore", "queueDeadline", "scheduledFor", "id", "at", "seq"} {
		if _, ok := members[name]; !ok {
			t.Errorf("the offer has no %q: %s", name, data)
		}
	}
}

func TestCountsHoldEveryOutcomeOnce(t *testing.T) {
	t.Parallel()
	var counts protocol.Counts
	for _, outcome := range task.Outcomes() {
		counts.Add(outcome)
	}
	if counts != (protocol.Counts{Succeeded: 1, Failed: 1, TimedOut: 1, Offline: 1, Cancelled: 1}) || counts.Sum() != 5 {
		t.Errorf("got %+v", counts)
	}
	counts.Add("lost")
	if counts.Sum() != 5 {
		t.Error("an unknown outcome was counted")
	}
}
