package app_test

import (
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
)

// hostile returns texts that something downstream may run, hide or turn into
// another value, by the store id that carries each as its name.
func hostile() map[string]string {
	return map[string]string{
		"007":     `<script>alert(1)</script>`,
		"1E5":     `=1+1`,
		"06-8108": `"quoted" 'and' O"Brien, 店`,
		"000":     "🏪👨‍👩‍👧 emoji",
		"1e5":     "x\u202ecod.exe\u2067 \u200ehidden",
		"TRUE":    `@SUM(A1:A9)`,
		"Jan-1":   `-2+3+cmd|' /C calc'!A0`,
		"3.0":     "+86 138",
		"00":      `</td><img src=x onerror=alert(1)>`,
		"1.10":    `&lt;b&gt; {{.}} ${x} %s %n`,
		"2E-3":    "javascript:alert(1)",
	}
}

// TestHostileTextsAreInertInEveryFileAndMessage puts each text into a store's
// name, the run's reason, and a terminal's result and error, and reads every
// file and every message of the run.
func TestHostileTextsAreInertInEveryFileAndMessage(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		names := hostile()
		var stores []string
		for id, name := range names {
			if id != "1e5" { // differs from 1E5 in case alone, which the register refuses
				stores = append(stores, id+"="+name)
			}
		}
		stores = append(stores, "RTL="+names["1e5"])
		names["RTL"] = names["1e5"]
		delete(names, "1e5")
		slices.Sort(stores)
		hq := setup(t, transport, stores, func(cfg *config.Config) {
			writeJob(t, cfg.JobsFolder, "probe", map[string]string{"attempts": "1"})
		})
		for id, text := range names {
			quoted, err := protocol.Encode(text)
			if err != nil {
				t.Fatal(err)
			}
			hq.terminal(id, fleet.Options{Execute: func(o protocol.Offer, attempt int) fleet.Reply {
				if o.StoreID == "007" || o.StoreID == "RTL" {
					return fleet.Reply{Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: text, Detail: text}}
				}
				return value(string(quoted))(o, attempt)
			}})
		}
		tech := hq.technician("wang")
		reason, err := protocol.Encode(strings.Join([]string{names["007"], names["RTL"], names["1E5"]}, " "))
		if err != nil {
			t.Fatal(err)
		}
		run := tech.run(fmt.Sprintf(`{"job":"probe","stores":"all","reason":%s}`, reason))
		summary := tech.summary(run.RunID, 1)
		report := hq.report(summary)
		if len(report.Stores) != len(names) {
			t.Errorf("%d rows for %d stores", len(report.Stores), len(names))
		}
		for _, row := range report.Stores {
			if row.Name != names[row.StoreID] {
				t.Errorf("store %s is called %q in the report, want %q", row.StoreID, row.Name, names[row.StoreID])
			}
		}
		checkPage(t, string(hq.file(summary, ".html")), names)
		checkSheet(t, hq.rows(summary), names)
		for _, verb := range []string{`{"runId":%q}`, `{"runId":%q,"storeId":"007"}`} {
			if reply := tech.ask(protocol.VerbStatus, fmt.Sprintf(verb, run.RunID)); !reply.OK {
				t.Errorf("status: %+v", reply)
			}
		}
		tech.ask(protocol.VerbRun, fmt.Sprintf(`{"job":"probe","stores":[%s]}`, reason))
		tech.checkMessages()
		for _, f := range summary.Files {
			if f.Name != filepath.Base(f.Name) || strings.ContainsFunc(f.Name, func(r rune) bool { return r > unicode.MaxASCII }) {
				t.Errorf("a file is called %q", f.Name)
			}
		}
	})
}

// checkPage knows the page's tags: the texts must add none, and no character
// that turns or hides what stands beside it.
func checkPage(t *testing.T, page string, names map[string]string) {
	t.Helper()
	// The page's own script stands last, and its policy names it.
	page = regexp.MustCompile(`(?s)<script type="application/json" id="words">.*</script>|script-src|</?noscript>`).ReplaceAllString(page, "")
	for _, tag := range regexp.MustCompile(`<[a-zA-Z/!][^>]*>`).FindAllString(page, -1) {
		if strings.Contains(tag, "script") || strings.Contains(tag, "<img") || strings.Contains(tag, "onerror") {
			t.Errorf("the page holds the tag %s", tag)
		}
	}
	if i := strings.IndexFunc(page, turns); i >= 0 {
		t.Errorf("the page holds %q", page[max(0, i-20):i+20])
	}
	shown := html.UnescapeString(page)
	for id, name := range names {
		if id != "RTL" && !strings.Contains(shown, name) {
			t.Errorf("the page does not show %q", name)
		}
	}
	for _, loaded := range []string{" src=", "http:", "https:", "@import", "url("} {
		if strings.Contains(regexp.MustCompile(`<bdi>[^<]*</bdi>|<title>[^<]*</title>`).ReplaceAllString(page, ""), loaded) {
			t.Errorf("the page loads something: %s", loaded)
		}
	}
}

// checkSheet holds each cell that a terminal or the register filled to the rule
// of the manifest: guarded where a spreadsheet would take it for something
// else, and exact once the guard is taken away.
func checkSheet(t *testing.T, rows [][]string, names map[string]string) {
	t.Helper()
	ids := map[string]bool{}
	for _, row := range rows[1:] {
		id := strings.TrimPrefix(row[0], "'")
		ids[id] = true
		if digits := strings.Trim(id, "0123456789.Ee-") == ""; digits && row[0] == id {
			t.Errorf("the store id %s would become a number", id)
		}
		if got := strings.TrimPrefix(row[1], "'"); got != names[id] {
			t.Errorf("store %s is called %q in the sheet", id, row[1])
		}
		for i, cell := range row {
			if rows[0][i] == "clock_skew_ms" {
				continue // a number of ours, which may be below zero
			}
			bare := strings.TrimFunc(cell, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
			if bare != "" && strings.ContainsRune("=+-@", []rune(bare)[0]) {
				t.Errorf("the cell %q would run", cell)
			}
		}
	}
	if len(ids) != len(names) {
		t.Errorf("%d stores in the sheet, want %d", len(ids), len(names))
	}
}

// turns reports whether a character turns, hides or moves the text around it.
func turns(r rune) bool {
	return r != '\n' && r != '\u200d' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// checkMessages reads all that a technician received: replies and events must
// be documents that keep texts as texts, and lines for people must hold nothing
// that a console would obey.
func (tech *technician) checkMessages() {
	tech.hq.t.Helper()
	for deadline := time.Now().Add(patience); len(tech.failures()) < 2 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // events overtake nothing, and wait for nobody
	}
	if failed := tech.failures(); len(failed) != 2 || !failed["007"] || !failed["RTL"] {
		tech.hq.t.Errorf("the events of the failures say %v", failed)
	}
	tech.mu.Lock()
	defer tech.mu.Unlock()
	for _, m := range tech.got {
		if _, ok := tech.hq.topics.Parse(m.Topic); !ok {
			tech.hq.t.Errorf("a message came on %s", m.Topic)
		}
		if strings.HasSuffix(m.Topic, "/"+string(protocol.RunText)) {
			if strings.ContainsFunc(string(m.Payload), turns) {
				tech.hq.t.Errorf("the line %q acts on a console", m.Payload)
			}
			continue
		}
		if _, err := protocol.Scan(m.Payload, protocol.MaxPayloadBytes); err != nil {
			tech.hq.t.Errorf("%s: %s: %v", m.Topic, m.Payload, err)
		}
	}
}

// failures are the stores whose failure an event told of, and whether it said what
// the terminal did.
func (tech *technician) failures() map[string]bool {
	tech.mu.Lock()
	defer tech.mu.Unlock()
	failed := map[string]bool{}
	for _, m := range tech.got {
		addr, _ := tech.hq.topics.Parse(m.Topic)
		var event protocol.StoreEvent
		if addr.Store != "" && protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &event) == nil && event.Status == task.Failed {
			failed[event.StoreID] = event.Message == hostile()["007"] || event.Message == hostile()["1e5"]
		}
	}
	return failed
}
