package job_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/schemas"
)

// TestTheShippedJobsLoad also holds the columns of collect_log to its output
// schema: every one finds a value in the example of a full day.
func TestTheShippedJobsLoad(t *testing.T) {
	t.Parallel()
	registry, err := job.Load("configs/jobs", os.DirFS("../../../configs/jobs"), schemas.FS)
	if err != nil {
		t.Fatal(err)
	}
	spec, ok := registry.Get("collect_log")
	if !ok || spec.Version != 1 || spec.Policy.Barrier != 120*time.Second || !spec.Policy.RetryInterrupted {
		t.Fatalf("got %+v, %v", spec, ok)
	}
	if err := spec.Input.Validate([]byte(`{"date":"yesterday"}`)); err != nil {
		t.Error(err)
	}
	day, err := os.ReadFile("../../../schemas/examples/collect_log_output/valid-a-day.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Output.Validate(day); err != nil {
		t.Fatal(err)
	}
	for i, value := range job.Extract(spec.Columns, json.RawMessage(day)) {
		if string(value) == "null" {
			t.Errorf("column %s finds nothing at %s", spec.Columns[i].Name, spec.Columns[i].Pointer)
		}
	}
}
