package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"muster/dispatcher/config"
)

// TestTheReportFolderLeadsToTheNewestReport: who opens the folder finds the run in the
// index, and its page as the latest of the job.
func TestTheReportFolderLeadsToTheNewestReport(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A", "B"}, nil)
	tech := hq.technician("wang")
	summary := tech.summary(tech.run(`{"job":"probe","stores":"all","barrierSeconds":1}`).RunID, 1)
	page := hq.file(summary, ".html")
	hq.stop()
	index, err := os.ReadFile(filepath.Join(hq.cfg.ReportsFolder, "index.html"))
	if err != nil || !bytes.Contains(index, []byte(`<a href="`+summary.Folder+`/`)) || !bytes.Contains(index, []byte(summary.RunID)) {
		t.Errorf("the index does not lead to the run: %v", err)
	}
	latest, err := os.ReadFile(filepath.Join(hq.cfg.ReportsFolder, "latest", "probe.html"))
	if err != nil || !bytes.Equal(latest, page) {
		t.Errorf("the latest page is not the run's: %v", err)
	}
}
