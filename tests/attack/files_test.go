package attack_test

import (
	"archive/zip"
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/tests/programs"
)

func TestS21ReportsNeverLeaveTheirFolder(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	agent, _ := s.agent("A", "pos1", s.enrol("A", "pos1"))
	agent.AwaitOutput("link is up")
	outside := t.TempDir()
	var links []string
	for _, at := range []time.Time{time.Now().Add(-24 * time.Hour), time.Now().Add(24 * time.Hour)} {
		link := s.path("reports/" + at.Format("2006"))
		if os.Symlink(outside, link) == nil {
			links = append(links, link)
		}
	}
	reply := s.ask("operator", "run", `{"job":"probe","stores":["A"],"barrierSeconds":5}`)
	s.hq.AwaitOutput("trouble needs a person")
	found, err := os.ReadDir(outside)
	if err != nil || len(found) > 0 {
		t.Errorf("outside stand %v, %v", found, err)
	}
	for _, link := range links {
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if row := s.report(reply.RunID, 1).Stores[0]; row.Outcome != "succeeded" {
		t.Errorf("the report came back wrong: %+v", row)
	}
	for _, job := range []string{"../../probe", "/etc/probe", "probe/../x", "..", "probe\x00"} {
		if reply := s.ask("operator", "run", fmt.Sprintf(`{"job":%s,"stores":["A"]}`, mustJSON(t, job))); reply.OK {
			t.Errorf("job %q was taken", job)
		}
	}
}

// reportFile returns the bytes of a file of revision 1.
func (s *site) reportFile(runID, suffix string) string {
	s.t.Helper()
	s.report(runID, 1)
	found, err := filepath.Glob(filepath.Join(s.dir, "reports", "*", "*", "*_"+runID+"_r1"+suffix))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("%v, %v", found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// answered runs the probe at store A with a marker of the attacker's.
func (s *site) answered(n int, marker string) (runID string) {
	s.t.Helper()
	s.answers("A", "pos1", `{"marker":`+mustJSON(s.t, marker)+`}`)
	reply := s.ask("operator", "run", fmt.Sprintf(`{"job":"probe","stores":["A"],"requestId":"answered-%d","reason":%s}`, n, mustJSON(s.t, marker)))
	if !reply.OK {
		s.t.Fatalf("%+v", reply)
	}
	return reply.RunID
}

func TestS22SpreadsheetsFindNoFormulaInTheCSV(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	agent, _ := s.agent("A", "pos1", s.enrol("A", "pos1"))
	agent.AwaitOutput("link is up")
	for n, marker := range []string{"=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", `",=1+1,"`, "＝1+1", ";=1+1", " =1+1"} {
		text := strings.TrimPrefix(s.reportFile(s.answered(n, marker), ".csv"), "\ufeff")
		reader := csv.NewReader(strings.NewReader(text))
		reader.FieldsPerRecord, reader.Comment = -1, 0
		records, err := reader.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			for _, cell := range record {
				if trimmed := strings.TrimLeft(cell, " \t\r\n"); trimmed != "" && strings.ContainsAny(trimmed[:1], "=+@") || strings.HasPrefix(trimmed, "＝") {
					t.Errorf("%q makes the cell %q", marker, cell)
				}
				if strings.HasPrefix(cell, "-2+3") {
					t.Errorf("%q makes the cell %q", marker, cell)
				}
			}
		}
	}
}

// workbook returns the parts of an XLSX file.
func workbook(t *testing.T, text string) map[string]string {
	t.Helper()
	packed, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, file := range packed.File {
		part, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		parts[file.Name] = string(data)
	}
	return parts
}

func TestS23SpreadsheetsFindNoFormulaInTheXLSX(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	agent, _ := s.agent("A", "pos1", s.enrol("A", "pos1"))
	agent.AwaitOutput("link is up")
	for n, marker := range []string{"=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "=HYPERLINK(\"http://evil\")", "</t></is></c><c><f>1+1</f>", "\t=1+1", "_x003D_1+1"} {
		parts := workbook(t, s.reportFile(s.answered(n, marker), ".xlsx"))
		if len(parts["xl/worksheets/sheet2.xml"]) == 0 {
			t.Fatalf("no sheet of stores among %v", slices.Collect(maps.Keys(parts)))
		}
		for name, part := range parts {
			for _, live := range []string{"<f>", "<f ", "<hyperlink", "externalLink", "vbaProject", "ddeLink", "oleLink"} {
				if strings.Contains(part, live) {
					t.Errorf("%q leaves %s in %s", marker, live, name)
				}
			}
		}
	}
}

func TestS24AnswersAreTextInTheHTML(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	agent, _ := s.agent("A", "pos1", s.enrol("A", "pos1"))
	agent.AwaitOutput("link is up")
	for n, marker := range []string{"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</td></table><iframe src=//evil>",
		"<svg/onload=alert(1)>", "javascript:alert(1)", "{{.Secret}}", "</style><script>x</script>", "<!--", "]]>", "\u2028<b>"} {
		page := s.reportFile(s.answered(n, marker), ".html")
		for _, live := range []string{"<script>alert", "<img src=x", "<iframe", "<svg/onload", "<script>x", "href=\"javascript:", "<b>"} {
			if strings.Contains(page, live) {
				t.Errorf("%q leaves %q in the page", marker, live)
			}
		}
		if strings.Contains(marker, "<") && !strings.Contains(page, "&lt;") {
			t.Errorf("%q does not stand in the page", marker)
		}
	}
}

func TestS25LogsHaveOneLineAnEvent(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, settings{}, "A")
			s.hq.Terminate()
			s.write("dispatcher.yaml", strings.Replace(string(s.read("dispatcher.yaml")), "log: {level: debug}", "log: {level: debug, format: "+format+"}", 1))
			s.serve()
			forged := "x\r\ntime=2026-01-01T00:00:00Z level=ERROR msg=forged\x1b[2K\x1b[31m\u202e"
			operator := s.enter(as("operator"))
			operator.ask("operator", "run", `{"job":`+mustJSON(t, forged)+`,"stores":["A"]}`)
			operator.ask("operator", "run", `{"job":"probe","stores":[`+mustJSON(t, forged)+`],"reason":`+mustJSON(t, forged)+`}`)
			operator.ask("operator", "run", forged)
			operator.ask("operator", "cancel", `{"runId":`+mustJSON(t, forged)+`,"reason":`+mustJSON(t, forged)+`}`)
			s.refused("a forged name", login{user: "olga" + forged[1:], clientID: "c" + forged, password: forged})
			_, _ = operator.publish(message{topic: "muster/v1/req/operator/run\nlevel=ERROR msg=forged", payload: "x"})
			s.serves()
			out := s.hq.Output()
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "time=2026-01-01T00:00:00Z") || strings.HasPrefix(line, "level=ERROR msg=forged") {
					t.Errorf("a forged line: %q", line)
				}
			}
			if strings.ContainsAny(out, "\x1b\r\u202e") {
				t.Error("a control character stands raw in the log")
			}
			if !strings.Contains(out, "forged") {
				t.Error("the log does not show what was asked")
			}
		})
	}
}

// canary is a secret that must be seen nowhere.
const canary = "CANARY7f3kQz91xW"

func TestS28CanariesAreSeenNowhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	collect, err := os.ReadFile(filepath.Join("..", "..", "configs", "jobs", "collect_log.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("jobs/collect_log.yaml", string(collect))
	s.hq.Terminate()
	s.serve()
	spy := s.enter(as("auditor"))
	spy.subscribe("muster/v1/#")
	folder := s.enrol("A", "pos1")
	pos := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(pos, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pos.ini", "[db]\nuser = pos\npassword = "+canary+"\nurl = mysql://pos:"+canary+"@db/pos\n")
	write("pos.json", `{"api":{"token":"`+canary+`","Authorization":"Bearer `+canary+`"}}`)
	write("pos.xml", `<c><secret>`+canary+`</secret><db password="`+canary+`"/></c>`)
	write("pos.log", "2026-09-16 10:00:00 ERROR login failed password="+canary+" user=7\n2026-09-16 10:00:01 ERROR GET /x?access_token="+canary+" 500\n")
	config := s.write("canary.yaml", fmt.Sprintf(`store: A
terminal: pos1
time_zone: Asia/Shanghai
work_folder: work-canary
identity: {folder: %q}
broker: {url: "mqtts://%s"}
log: {level: debug}
collect: {logs: [%[3]q], config_files: [%[4]q, %[5]q, %[6]q]}
executors:
  - {type: probe, version: 1, command: [sh, %[7]q]}
`, folder, s.broker, filepath.Join(pos, "pos.log"), filepath.Join(pos, "pos.ini"), filepath.Join(pos, "pos.json"), filepath.Join(pos, "pos.xml"),
		s.write("leak.sh", `echo "password=`+canary+`" >&2
echo '{"marker":"password=`+canary+`","token":"`+canary+`","nested":{"db":{"passwd":"`+canary+`"}},"line":"Authorization: Bearer `+canary+`"}'
`)))
	agent := programs.Launch(t, filepath.Join(bin, "edge-agent"), "-config", config)
	for n, request := range []string{`"job":"collect_log","input":{"date":"2026-09-16"}`, `"job":"probe"`} {
		reply := s.ask("operator", "run", fmt.Sprintf(`{"stores":["A"],"requestId":"canary-%d",%s}`, n, request))
		if row := s.report(reply.RunID, 1).Stores[0]; row.Outcome != "succeeded" {
			t.Fatalf("%s: %+v", request, row)
		}
		status := s.ask("operator", "status", fmt.Sprintf(`{"runId":%q,"storeId":"A"}`, reply.RunID))
		if strings.Contains(mustJSON(t, status), canary) {
			t.Errorf("the reply to status holds the canary: %s", mustJSON(t, status))
		}
	}
	s.ask("operator", "run", `{"job":"probe","stores":["A"],"password":"`+canary+`","input":[{"token":"`+canary+`"}]}`) // refused
	s.refused("a wrong password", login{user: "operator", clientID: "x", password: canary})
	s.seenNowhere(canary, pos, agent, spy)
}

// seenNowhere looks for a secret in everything that headquarters and the agent
// wrote, logged and published.
func (s *site) seenNowhere(secret, pos string, agent *programs.Process, spy *client) {
	s.t.Helper()
	for name, out := range map[string]string{"headquarters": s.hq.Output(), "the agent": agent.Output()} {
		if at := strings.Index(out, secret); at >= 0 {
			s.t.Errorf("the log of %s holds it: %.300s", name, out[max(0, at-200):])
		}
	}
	if n := spy.received(func(m *paho.Publish) bool {
		leaks := strings.Contains(string(m.Payload), secret)
		if leaks {
			s.t.Errorf("published on %s: %.300s", m.Topic, m.Payload)
		}
		return leaks
	}); n > 0 {
		s.t.Errorf("%d messages hold it", n)
	}
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".sh") {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), secret) {
			s.t.Errorf("%s holds it", path)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
