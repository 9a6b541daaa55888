package schema_test

import (
	"os"
	"testing"

	"muster/dispatcher/internal/schema"
)

const shippedFolder = "../../../schemas/"

func compileShipped(t testing.TB, name string) *schema.Schema {
	t.Helper()
	source, err := os.ReadFile(shippedFolder + name + ".v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(name, source)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkValidate checks the two shipped examples of an answer.
func BenchmarkValidate(b *testing.B) {
	s := compileShipped(b, "collect_log_output")
	for _, name := range []string{"valid-nothing-found", "valid-a-day"} {
		doc, err := os.ReadFile(shippedFolder + "examples/collect_log_output/" + name + ".json")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Validate(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
