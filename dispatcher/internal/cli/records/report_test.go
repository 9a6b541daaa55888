package records_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/internal/cli/records"
	"muster/internal/protocol"
)

// atReport goes to a folder with the files of a revision, and returns the full path of r.html.
func atReport(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	manifest := protocol.Manifest{Schema: protocol.ManifestSchema, RunID: "r", Job: "j", Revision: 1}
	for _, ending := range []string{".csv", ".html", ".json"} {
		text := []byte("text of " + ending)
		sum := sha256.Sum256(text)
		manifest.Files = append(manifest.Files, protocol.ManifestFile{Name: "r" + ending, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
		write(t, "r"+ending, string(text))
	}
	text, err := protocol.Encode(manifest)
	if err != nil {
		t.Fatal(err)
	}
	write(t, "r_manifest.json", string(text))
	full, err := filepath.Abs("r.html")
	if err != nil {
		t.Fatal(err)
	}
	return full
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// verified runs the command, which fails where something does not hold.
func verified(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	cmd := records.ReportCommand()
	var b bytes.Buffer
	cmd.SetOut(&b)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"verify", "--manifest-only"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return b.String(), err
}

func verify(t *testing.T, files ...string) (proved, faults []string) {
	t.Helper()
	out, ended := verified(t, append([]string{"--json"}, files...)...)
	var said struct {
		OK     bool
		Proofs []struct{ File string }
		Faults []string
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.OK != (ended == nil) {
		t.Fatalf("%v, %v: %s", err, ended, out)
	}
	for _, p := range said.Proofs {
		proved = append(proved, p.File)
	}
	return proved, said.Faults
}

func TestEachReportFileIsProvedOnce(t *testing.T) {
	full := atReport(t)
	for _, c := range []struct{ files, want string }{
		{"r.csv r.html r.json r_manifest.json", "r.csv r.html r.json"},
		{"r_manifest.json r.csv r.html r.json", "r.csv r.html r.json"},
		{"r.json r_manifest.json", "r.json r.csv r.html"},
		{"r.html r.html ./r.html " + full, "r.html"},
		{"r_manifest.json ./r_manifest.json", "r.csv r.html r.json"},
	} {
		if proved, faults := verify(t, strings.Fields(c.files)...); strings.Join(proved, " ") != c.want || len(faults) > 0 {
			t.Errorf("%s: proved %v, faults %v", c.files, proved, faults)
		}
	}
	write(t, "r.html", "forged")
	if proved, faults := verify(t, "r.csv", "r.html", "r.json", "r_manifest.json"); strings.Join(proved, " ") != "r.csv r.json" || len(faults) != 1 || !strings.Contains(faults[0], "r.html has 6 bytes") {
		t.Errorf("proved %v, faults %v", proved, faults)
	}
}

func TestEachFalseReportFileIsToldOnce(t *testing.T) {
	full := atReport(t)
	write(t, "r.html", "forged")
	if err := os.Remove("r.json"); err != nil {
		t.Fatal(err)
	}
	out, err := verified(t, "r_manifest.json")
	lines := strings.Split(out, "\n")
	if err == nil || len(lines) != 4 || lines[0] != "ok    r.csv: as its manifest says" || !strings.HasPrefix(lines[1], "FALSE ") || !strings.HasPrefix(lines[2], "FALSE ") {
		t.Errorf("%v, it says %q", err, lines)
	}
	write(t, "r.csv", "forged too")
	for _, files := range [][]string{{"r_manifest.json"}, {"r.html", "r_manifest.json", "./r.csv"}, {full, "r_manifest.json", "r.html"}} {
		proved, faults := verify(t, files...)
		all := strings.Join(faults, "\n")
		if len(proved) > 0 || len(faults) != 3 || !strings.Contains(all, "r.csv has 10 bytes") || !strings.Contains(all, "r.html has 6 bytes") || !strings.Contains(all, "r.json is named by the manifest and is not there") {
			t.Errorf("%v: proved %v, faults %v", files, proved, faults)
		}
	}
}
