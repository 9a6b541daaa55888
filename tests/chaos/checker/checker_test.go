package checker_test

import (
	"testing"
)

func TestCleanHistoryPasses(t *testing.T) {
	t.Parallel()
	w := clean(t)
	w.publish()
	w.looks(50_000)
	w.looks(180_000)
	for _, f := range w.check() {
		t.Error(f)
	}
}
