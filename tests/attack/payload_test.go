package attack_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

func TestS18HostileDocumentsAreRefusedInBoundedTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	operator := s.enter(as("operator"))
	a := s.steal("A", "pos1", s.enrol("A", "pos1"))
	terminal := s.enter(a.login())
	wide := strings.TrimSuffix(strings.Repeat(`"k%d":1,`, 1), ",")
	var keys strings.Builder
	for n := range 30_000 {
		fmt.Fprintf(&keys, wide+",", n)
	}
	hostile := map[string]string{
		"deep":           strings.Repeat(`{"a":`, 40_000) + "1" + strings.Repeat("}", 40_000),
		"deep lists":     `{"input":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}",
		"wide":           "{" + keys.String() + `"job":"probe"}`,
		"duplicate keys": `{"job":"probe","stores":["A"],"job":"guarded"}`,
		"case twins":     `{"job":"probe","stores":["A"],"Job":"guarded"}`,
		"1e400":          `{"job":"probe","stores":["A"],"input":{"n":1e400}}`,
		"1e1000001":      `{"job":"probe","stores":["A"],"priority":1e1000001}`,
		"1 MB of digits": `{"job":"probe","stores":["A"],"input":{"n":` + strings.Repeat("9", 1_000_000) + `}}`,
		"300 kB digits":  `{"job":"probe","stores":["A"],"input":{"n":` + strings.Repeat("9", 300_000) + `}}`,
		"bad UTF-8":      "{\"job\":\"pro\xff\xfebe\",\"stores\":[\"A\"]}",
		"trailing":       `{"job":"probe","stores":["A"]}{"job":"guarded"}`,
		"NUL":            "{\"job\":\"probe\x00\",\"stores\":[\"A\"]}",
		"lone surrogate": `{"job":"probe","stores":["A"],"reason":"\ud800"}`,
	}
	for name, payload := range hostile {
		began := time.Now()
		if reply := operator.ask("operator", "run", payload); reply.OK || reply.Code == protocol.CodeInternal || reply.Message == "" {
			t.Errorf("%s: %+v", name, reply)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		for _, kind := range []string{"hello", "claim", "ready", "progress", "result"} {
			topic := "muster/v1/stores/A/terminals/pos1/" + kind
			if _, err := terminal.publish(message{topic: topic, payload: payload, signature: a.signer.Sign(topic, []byte(payload))}); err != nil {
				terminal = s.enter(a.login())
			}
		}
	}
	s.serves()
	if strings.Contains(s.hq.Output(), "panic") {
		t.Error("something panicked")
	}
}

func TestS19PackedBombInALogFileIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	collect, err := os.ReadFile(filepath.Join("..", "..", "configs", "jobs", "collect_log.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("jobs/collect_log.yaml", string(collect))
	s.hq.Terminate()
	s.serve()
	var bomb bytes.Buffer
	packed, err := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte("2026-09-16 10:00:00 ERROR "), 40_000)
	for range 1000 { // 1 GB
		if _, err := packed.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	s.write("logs/pos.log.1.gz", bomb.String())
	s.write("logs/pos.log", "2026-09-16 09:00:00 INFO open\n")
	folder := s.enrol("A", "pos1")
	config := s.write("bomb.yaml", fmt.Sprintf(`store: A
terminal: pos1
time_zone: Asia/Shanghai
work_folder: work-bomb
identity: {folder: %q}
broker: {url: "mqtts://%s"}
collect: {logs: [logs/*.log], max_decompressed_bytes: 16777216}
`, folder, s.broker))
	agent := programs.Launch(t, filepath.Join(bin, "edge-agent"), "-config", config)
	reply := s.ask("operator", "run", `{"job":"collect_log","stores":["A"],"input":{"date":"2026-09-16"},"barrierSeconds":60}`)
	if row := s.report(reply.RunID, 1).Stores[0]; row.Outcome != "succeeded" {
		t.Errorf("row %+v", row)
	}
	if peak := agent.Status("VmHWM"); peak > 200<<10 {
		t.Errorf("the agent took %d KiB", peak)
	}
}

// badIDs are no ids: wildcards, separators, control and direction characters.
func badIDs() []string {
	return []string{"", "+", "#", "A/B", "../A", "..", ".", "A+", "A#", "A\x00", "A\u202eB", "\u202e", "Å", "A B", " A", "-A", "$SYS",
		strings.Repeat("A", 64), "A\n", "A\r\nB", "A:B", "A%2f"}
}

func TestS20IdsThatAreNoneAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	operator := s.enter(as("operator"))
	for _, id := range badIDs() {
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range []string{
			`{"job":"probe","stores":[` + string(quoted) + `]}`, `{"job":` + string(quoted) + `,"stores":["A"]}`,
			`{"job":"probe","stores":["A"],"requestId":` + string(quoted) + `}`,
		} {
			if id == "" && strings.Contains(request, "requestId") {
				continue // none given
			}
			if reply := operator.ask("operator", "run", request); reply.OK {
				t.Errorf("%s was taken: %+v", request, reply)
			}
		}
		if reply := operator.ask("operator", "status", `{"runId":`+string(quoted)+`}`); reply.OK {
			t.Errorf("run %q was found", id)
		}
		if !strings.ContainsRune(id, 0) {
			if out, err := s.try("dispatcher", "enroll", "--data", s.path("data"), "--", id, "pos1"); err == nil {
				t.Errorf("store %q got a token: %s", id, out)
			}
			s.write("bad.csv", "store_id,name,time_zone,labels\n\""+id+"\",x,Asia/Shanghai,\n")
			if out, err := s.try("dispatcher", "check-config", "-c", s.write("bad.yaml", strings.Replace(string(s.read("dispatcher.yaml")), "stores.csv", "bad.csv", 1))); err == nil {
				t.Errorf("register with store %q: %s", id, out)
			}
		}
	}
	s.write("bad.csv", "store_id,name,time_zone,labels\nSH_1,x,Asia/Shanghai,\nsh_1,y,Asia/Shanghai,\n")
	if out, err := s.try("dispatcher", "check-config", "-c", s.path("bad.yaml")); err == nil || !strings.Contains(out, ":3") {
		t.Errorf("case twins: %v: %s", err, out)
	}
	s.enrol("A", "pos1")
	if out, err := s.try("dispatcher", "enroll", "A", "POS1", "--data", s.path("data")); err == nil {
		t.Errorf("the twin of a terminal got a token: %s", out)
	}
}

func TestS26SchemasReachNothingOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	for name, schema := range map[string]string{
		"file":        `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"http":        `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x.json"}}}`,
		"relative":    `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"probe_output.json"}}}`,
		"S26b itself": `{"$ref":"#"}`,
		"S26b loop":   `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}},"$ref":"#/definitions/a"}`,
		"S26b deep":   `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"allOf":[{"$ref":"#/definitions/a"}]}},"allOf":[{"$ref":"#/definitions/a"}]}`,
	} {
		s.write("jobs/probe_input.json", schema)
		began := time.Now()
		out, err := s.try("dispatcher", "check-config", "-c", s.path("dispatcher.yaml"))
		if err == nil || strings.Contains(out, "goroutine") || !strings.Contains(out, "probe_input.json") || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v after %v: %.300s", name, err, time.Since(began), out)
		}
	}
}

func TestS27InputsAreNoCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	agent, _ := s.agent("A", "pos1", s.enrol("A", "pos1"))
	agent.AwaitOutput("link is up")
	trap := s.path("trap")
	for n, value := range []string{"; touch " + trap, "$(touch " + trap + ")", "`touch " + trap + "`", "| touch " + trap, "--help", "-rf", "\n touch " + trap, "${IFS}touch " + trap, "& touch " + trap + " &"} {
		input, err := json.Marshal(map[string]string{"value": value, value: "key"})
		if err != nil {
			t.Fatal(err)
		}
		reply := s.ask("operator", "run", fmt.Sprintf(`{"job":"probe","stores":["A"],"requestId":"trap-%d","reason":%s,"input":%s}`, n, mustJSON(t, value), input))
		if !reply.OK {
			t.Fatalf("%+v", reply)
		}
		if row := s.report(reply.RunID, 1).Stores[0]; row.Outcome != "succeeded" {
			t.Errorf("%q: %+v", value, row)
		}
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("an input was executed")
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
