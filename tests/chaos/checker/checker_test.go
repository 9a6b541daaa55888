package checker_test

import (
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
