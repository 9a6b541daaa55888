package rollcall_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/verify"
	"muster/internal/protocol"
)

// published is the manifest of revision 1 of three stores, and the database beside it.
func published(t *testing.T) (manifest, database string) {
	t.Helper()
	o := setup(t)
	o.create([]string{"A", "B", "C"}, []string{"shop"})
	o.run("A", "well", "1", `"x"`)
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	found, err := filepath.Glob(filepath.Join(o.folder, "*", "*", "*_r1_manifest.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("manifests %v, %v", found, err)
	}
	return found[0], filepath.Join(filepath.Dir(o.folder), "muster.db")
}

func TestPublishedFilesAreProved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manifest, database := published(t)
		all, err := verify.File(t.Context(), database, manifest)
		if err != nil || len(all) != 4 || all[0].Rows != 3 || all[1].Rows != 0 || !all[3].Database || all[2].RunID != runID || all[2].Revision != 1 {
			t.Errorf("proofs %+v, %v", all, err)
		}
		page := strings.Replace(manifest, "_manifest.json", ".html", 1)
		for _, base := range []string{database, ""} {
			one, err := verify.File(t.Context(), base, page)
			if err != nil || len(one) != 1 || one[0].File != page || one[0].Manifest != manifest || one[0].Database != (base != "") {
				t.Errorf("proof %+v, %v", one, err)
			}
		}
	})
}

func TestWhatIsNoPublishedFileIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manifest, database := published(t)
		file := func(ending string) string { return strings.Replace(manifest, "_manifest.json", ending, 1) }
		cases := []struct {
			name, file, want string
			spoil            func()
			base             string
		}{
			{"one byte", file(".csv"), "the manifest says", func() { replace(t, file(".csv"), "shop", "shoq") }, database},
			{"one byte, without a database", file(".csv"), "the manifest says", func() { replace(t, file(".csv"), "shop", "shoq") }, ""},
			{"a file and its manifest", file(".csv"), "the database noted", func() {
				replace(t, file(".csv"), "shop", "shoq")
				resum(t, manifest, file(".csv"))
			}, database},
			{"a file and its manifest, whole", manifest, "the database noted", func() {
				replace(t, file(".html"), "shop", "shoq")
				resum(t, manifest, file(".html"))
			}, database},
			{"a missing file", manifest, "is not there", func() { remove(t, file(".xlsx")) }, database},
			{"a file of none", file("_more.json"), "its manifest", func() {}, database},
			{"half a manifest", manifest, "is not a whole manifest", func() { replace(t, manifest, "\"files\"", "\"files") }, ""},
			{"another run", manifest, "has no revision 1 of run X", func() { replace(t, manifest, runID+`","job`, `X","job`) }, database},
		}
		for _, c := range cases {
			before := contents(t, filepath.Dir(manifest))
			c.spoil()
			_, err := verify.File(t.Context(), c.base, c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, verify.ErrUntrue) == (c.name == "a file of none") ||
				strings.Contains(err.Error(), "cannot read database") {
				t.Errorf("%s: %v", c.name, err)
			}
			for name, content := range before {
				put(t, name, content)
			}
		}
		if _, err := verify.File(t.Context(), database, manifest); err != nil {
			t.Errorf("as it was: %v", err)
		}
	})
}

func contents(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, name := range found {
		all[name] = get(t, name)
	}
	return all
}

func get(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func put(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func replace(t testing.TB, name, from, to string) {
	t.Helper()
	before := get(t, name)
	after := bytes.Replace(before, []byte(from), []byte(to), 1)
	if bytes.Equal(before, after) {
		t.Fatalf("%s has no %q", name, from)
	}
	put(t, name, after)
}

// resum writes the changed file's size and hash into the manifest.
func resum(t testing.TB, manifest, name string) {
	t.Helper()
	var m protocol.Manifest
	if err := json.Unmarshal(get(t, manifest), &m); err != nil {
		t.Fatal(err)
	}
	content := get(t, name)
	sum := sha256.Sum256(content)
	for i := range m.Files {
		if m.Files[i].Name == filepath.Base(name) {
			m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(content)), hex.EncodeToString(sum[:])
		}
	}
	doc, err := protocol.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	put(t, manifest, append(doc, '\n'))
}
