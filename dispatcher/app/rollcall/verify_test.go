package rollcall_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
		all, faults, err := verify.File(t.Context(), database, manifest)
		if err != nil || len(faults) > 0 || len(all) != 4 || all[0].Rows != 3 || all[1].Rows != 0 || !all[3].Database || all[2].RunID != runID || all[2].Revision != 1 {
			t.Errorf("proofs %+v, %v, %v", all, faults, err)
		}
		page := strings.Replace(manifest, "_manifest.json", ".html", 1)
		for _, base := range []string{database, ""} {
			one, faults, err := verify.File(t.Context(), base, page)
			if err != nil || len(faults) > 0 || len(one) != 1 || one[0].File != page || one[0].Manifest != manifest || one[0].Database != (base != "") {
				t.Errorf("proof %+v, %v, %v", one, faults, err)
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
			_, faults, err := verify.File(t.Context(), c.base, c.file)
			for _, fault := range faults {
				err = errors.Join(err, fault.Err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, verify.ErrUntrue) == (c.name == "a file of none") ||
				strings.Contains(err.Error(), "cannot read database") {
				t.Errorf("%s: %v", c.name, err)
			}
			for name, content := range before {
				put(t, name, content)
			}
		}
		if _, faults, err := verify.File(t.Context(), database, manifest); err != nil || len(faults) > 0 {
			t.Errorf("as it was: %v, %v", faults, err)
		}
	})
}

// TestEveryFileThatDoesNotHoldIsNamed, whatever else does not, and none that does.
func TestEveryFileThatDoesNotHoldIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manifest, database := published(t)
		file := func(ending string) string { return strings.Replace(manifest, "_manifest.json", ending, 1) }
		forge := func(endings ...string) {
			for _, ending := range endings {
				put(t, file(ending), append(get(t, file(ending)), ' '))
			}
		}
		whole := contents(t, filepath.Dir(manifest))
		for _, c := range []struct {
			name              string
			spoil             func()
			base              string
			untrue            string
			proved, fromOther int // files, and those that the database alone vouches for
		}{
			{"three files", func() { forge(".csv", ".html", ".xlsx") }, database, ".csv .html .xlsx", 1, 0},
			{"three files, without a database", func() { forge(".csv", ".html", ".xlsx") }, "", ".csv .html .xlsx", 1, 0},
			{"all that a folder can lose", func() { remove(t, file(".json")); remove(t, file(".csv")); forge(".html") }, database, ".csv .html .json", 1, 0},
			{"the manifest alone", func() { forge("_manifest.json") }, database, "_manifest.json", 0, 4},
			{"the manifest's word of a file", func() {
				rewrite(t, manifest, func(m *protocol.Manifest) { m.Files[0].SHA256 = strings.Repeat("0a", 32) })
			}, database, "_manifest.json", 0, 4},
			{"a file and its manifest, and another", func() { forge(".csv"); resum(t, manifest, file(".csv")); forge(".html") }, database, ".csv .html _manifest.json", 0, 2},
			{"a file that its manifest leaves out", func() {
				forge(".csv")
				leaveOut(t, manifest, file(".csv"))
			}, database, ".csv _manifest.json", 0, 3},
		} {
			c.spoil()
			proofs, faults, err := verify.File(t.Context(), c.base, manifest)
			var untrue []string
			for _, fault := range faults {
				untrue = append(untrue, strings.TrimPrefix(fault.File, strings.TrimSuffix(manifest, "_manifest.json")))
				if !errors.Is(fault.Err, verify.ErrUntrue) {
					t.Errorf("%s: %v", c.name, fault.Err)
				}
			}
			slices.Sort(untrue)
			proved, fromOther := 0, 0
			for _, proof := range proofs {
				if proof.Manifest == "" {
					fromOther++
				} else {
					proved++
				}
			}
			if err != nil || strings.Join(untrue, " ") != c.untrue || proved != c.proved || fromOther != c.fromOther {
				t.Errorf("%s: untrue %v, %d proved, %d by the database alone, %v; want %s, %d and %d", c.name, untrue, proved, fromOther, err, c.untrue, c.proved, c.fromOther)
			}
			for name, content := range whole {
				put(t, name, content)
			}
		}
	})
}

// leaveOut takes a file out of the manifest.
func leaveOut(t testing.TB, manifest, name string) {
	t.Helper()
	rewrite(t, manifest, func(m *protocol.Manifest) {
		m.Files = slices.DeleteFunc(m.Files, func(f protocol.ManifestFile) bool { return f.Name == filepath.Base(name) })
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
	content := get(t, name)
	sum := sha256.Sum256(content)
	rewrite(t, manifest, func(m *protocol.Manifest) {
		for i := range m.Files {
			if m.Files[i].Name == filepath.Base(name) {
				m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(content)), hex.EncodeToString(sum[:])
			}
		}
	})
}

func rewrite(t testing.TB, manifest string, change func(*protocol.Manifest)) {
	t.Helper()
	var m protocol.Manifest
	if err := json.Unmarshal(get(t, manifest), &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	doc, err := protocol.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	put(t, manifest, append(doc, '\n'))
}
