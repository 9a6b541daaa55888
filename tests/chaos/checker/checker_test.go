package checker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/tests/chaos/checker"
)

func TestCleanHistoryPasses(t *testing.T) {
	t.Parallel()
	w := clean(t)
	w.publish()
	w.looks(50_000)
	w.looks(180_000)
	w.tell()
	for _, f := range w.check() {
		t.Error(f)
	}
}

// TestWhatIsNotThereWeighsNothing: each part of a rule counts what it judges, and
// nothing where there is nothing.
func TestWhatIsNotThereWeighsNothing(t *testing.T) {
	t.Parallel()
	w := clean(t)
	old := w.e.Store
	w.e.Earlier = &old
	w.e.Limits.UploadsInFlight, w.e.Limits.UploadBytesPerSecond, w.e.Limits.UploadBurstBytes = 8, 1000, 10_000
	w.upload(36_010, "R1-C", 1, 9000)
	w.publish()
	w.looks(50_000)
	w.tell()
	v, err := checker.Judge(w.e)
	if err != nil || len(v.Findings) > 0 {
		t.Fatal(v.Findings, err)
	}
	weighed := v.Weights.String()
	for _, want := range []string{"I1 receipts 5", "I2 tasks 6", "I4 replies 4", "I5 late 1", "I5 moved 1", "I6 bytes 9000", "I6 uploads 1",
		"I9 cancels 1", "I9 confirmed 1", "I10 offers 1", "I12 ends 2", "I12 reports 3", "flat samples 32", "audit words 1"} {
		if !slices.Contains(strings.Split(weighed, ", "), want) {
			t.Errorf("%q does not weigh %q", weighed, want)
		}
	}
	if idle := v.Weights.Without([]string{"I1 receipts", "I1 more"}); fmt.Sprint(idle) != "[I1 more]" {
		t.Errorf("idle: %q", idle)
	}
	none, err := checker.Judge(checker.Evidence{})
	for part, n := range none.Weights {
		if n != 0 {
			t.Errorf("%s weighs %d", part, n)
		}
	}
	if err != nil || len(none.Findings) > 0 {
		t.Error(none.Findings, err)
	}
}
func TestPointersFindTheBytesThatWereSent(t *testing.T) {
	t.Parallel()
	const doc = `{"a":{"b/c":[1.0,{"~":" x "}]},"":5,"n":null}`
	for pointer, want := range map[string]string{
		"/a/b~1c/0": "1.0", "/a/b~1c/1/~0": `" x "`, "/a/b~1c/2": "null", "/a/b~1c/-": "null", "/": "5", "/n": "null",
		"/missing": "null", "/n/deeper": "null", "": doc,
	} {
		if got := checker.Value([]byte(doc), pointer); got != want {
			t.Errorf("%q: %s, want %s", pointer, got, want)
		}
	}
}
