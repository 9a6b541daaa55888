package verify_test

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/verify"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestEachRowIsTheDatabases(t *testing.T) {
	t.Parallel()
	const good = `{"runId":"R","revision":2,"targets":2,"counts":{"succeeded":1,"failed":0,"timedOut":0,"offline":1,"cancelled":0},"stores":[` +
		"\n" + `{"storeId":"A","n":1.0},` + "\n" + `{"storeId":"B"}` + "\n]}\n"
	rows := func(yield func(store.OutcomeRow, error) bool) {
		_ = yield(store.OutcomeRow{StoreID: "A", Outcome: task.OutcomeSucceeded, Row: json.RawMessage(`{"storeId":"A","n":1.0}`)}, nil) &&
			yield(store.OutcomeRow{StoreID: "B", Outcome: task.OutcomeOffline, Row: json.RawMessage(`{"storeId":"B"}`)}, nil)
	}
	manifest := protocol.Manifest{RunID: "R", Revision: 2}
	check := func(text string) (int, error) {
		return verify.SameRows(strings.NewReader(text), "F", &manifest, iter.Seq2[store.OutcomeRow, error](rows))
	}
	if n, err := check(good); n != 2 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	for want, text := range map[string]string{
		"differ in store A":       strings.Replace(good, "1.0", "1.00", 1),
		"ends before store B":     strings.Replace(good, `{"storeId":"B"}`+"\n]}\n", "", 1),
		"holds more than the 2":   strings.Replace(good, "\n]}", "\n{}\n]}", 1),
		"says {Succeeded:2":       strings.Replace(good, `"succeeded":1`, `"succeeded":2`, 1),
		"is revision 3":           strings.Replace(good, `"revision":2`, `"revision":3`, 1),
		"no head of a report":     strings.Replace(good, `,"stores":[`, `,"stores": [`, 1),
		"it is cut off":           good[:20],
		"its head cannot be read": strings.Replace(good, `"targets":2`, `"targets":"2"`, 1),
	} {
		if _, err := check(text); !errors.Is(err, verify.ErrUntrue) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
}
