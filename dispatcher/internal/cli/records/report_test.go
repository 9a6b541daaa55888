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

func TestEachReportFileIsProvedOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	manifest := protocol.Manifest{Schema: protocol.ManifestSchema, RunID: "r", Job: "j", Revision: 1}
	for _, ending := range []string{".csv", ".html", ".json"} {
		text := []byte("text of " + ending)
		sum := sha256.Sum256(text)
		manifest.Files = append(manifest.Files, protocol.ManifestFile{Name: "r" + ending, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
		if err := os.WriteFile("r"+ending, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := protocol.Encode(manifest)
	if err == nil {
		err = os.WriteFile("r_manifest.json", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	full, err := filepath.Abs("r.html")
	if err != nil {
		t.Fatal(err)
	}
	verify := func(files ...string) (proved, faults []string) {
		t.Helper()
		cmd := records.ReportCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append([]string{"verify", "--manifest-only", "--json"}, files...))
		ended := cmd.ExecuteContext(t.Context())
		var said struct {
			OK     bool
			Proofs []struct{ File string }
			Faults []string
		}
		if err := json.Unmarshal(out.Bytes(), &said); err != nil || said.OK != (ended == nil) {
			t.Fatalf("%v, %v: %s", err, ended, out.String())
		}
		for _, p := range said.Proofs {
			proved = append(proved, p.File)
		}
		return proved, said.Faults
	}
	for _, c := range []struct{ files, want string }{
		{"r.csv r.html r.json r_manifest.json", "r.csv r.html r.json"},
		{"r_manifest.json r.csv r.html r.json", "r.csv r.html r.json"},
		{"r.json r_manifest.json", "r.json r.csv r.html"},
		{"r.html r.html ./r.html " + full, "r.html"},
		{"r_manifest.json ./r_manifest.json", "r.csv r.html r.json"},
	} {
		if proved, faults := verify(strings.Fields(c.files)...); strings.Join(proved, " ") != c.want || len(faults) > 0 {
			t.Errorf("%s: proved %v, faults %v", c.files, proved, faults)
		}
	}
	if err := os.WriteFile("r.html", []byte("forged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if proved, faults := verify("r.csv", "r.html", "r.json", "r_manifest.json"); strings.Join(proved, " ") != "r.csv r.json" || len(faults) != 1 || !strings.Contains(faults[0], "r.html has 6 bytes") {
		t.Errorf("proved %v, faults %v", proved, faults)
	}
}
