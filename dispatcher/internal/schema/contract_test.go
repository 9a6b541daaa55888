package schema_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/internal/schema"
	"muster/internal/protocol"
	"muster/schemas"
)

const examples = "../../../schemas/examples"

// contract compiles one of the embedded schemas.
func contract(t *testing.T, name string) *schema.Schema {
	t.Helper()
	file := name + ".v1.schema.json"
	doc, err := fs.ReadFile(schemas.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(file, doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(schemas.FS, "*.schema.json")
	if err != nil || len(files) < 16 {
		t.Fatalf("%d schemas, %v", len(files), err)
	}
	var list []string
	for _, file := range files {
		name, ok := strings.CutSuffix(file, ".v1.schema.json")
		if !ok {
			t.Errorf("%s names no version", file)
		}
		list = append(list, name)
	}
	return list
}

// TestEverySchemaHasExamplesThatSayTheTruth also holds each refusal to the
// word: beside an invalid example stands its code, path and lines.
func TestEverySchemaHasExamplesThatSayTheTruth(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := contract(t, name)
			valid, err := filepath.Glob(filepath.Join(examples, name, "valid*.json"))
			if err != nil || len(valid) < 2 {
				t.Errorf("%d valid examples, not two at least, %v", len(valid), err)
			}
			for _, file := range valid {
				if err := s.Validate(read(t, file)); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
			invalid, err := filepath.Glob(filepath.Join(examples, name, "invalid*.json"))
			if err != nil || len(invalid) < 3 {
				t.Errorf("%d invalid examples, not three at least, %v", len(invalid), err)
			}
			for _, file := range invalid {
				checkRefusal(t, s, file)
			}
		})
	}
}

func checkRefusal(t *testing.T, s *schema.Schema, file string) {
	t.Helper()
	var refusal *protocol.Error
	if !errors.As(s.Validate(read(t, file)), &refusal) {
		t.Errorf("%s passes", file)
		return
	}
	got := strings.TrimSpace(string(refusal.Code)+" "+refusal.Path) + "\n" + refusal.Message + "\n"
	want := string(read(t, strings.TrimSuffix(file, ".json")+".want"))
	if got != want {
		t.Errorf("%s: got\n%swant\n%s", file, got, want)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
