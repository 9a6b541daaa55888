package e2e_test

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// secured is a headquarters as `dispatcher init` makes it, over TLS alone, with two
// technicians, of whom tech1 has a password, tech2 a certificate, and the approver chen.
func secured(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), addr: programs.FreeAddr(t)}
	if said, code := programs.Run(t, filepath.Join(bin, "dispatcher"), "init", filepath.Join(s.dir, "hq"), "--host", "127.0.0.1"); code != 0 {
		t.Fatal(said)
	}
	hash := exec.CommandContext(t.Context(), filepath.Join(bin, "broker"), "hash-password")
	hash.Stdin = strings.NewReader("a kit's own secret\n")
	hashed, err := hash.Output()
	if err != nil {
		t.Fatal(err)
	}
	s.edit("hq/users.yaml", func(text string) string {
		return text + fmt.Sprintf("  - {name: tech1, role: technician, stores: all, password: %q}\n  - {name: tech2, role: technician, stores: all, certificate: true}\n  - {name: chen, role: approver, certificate: true}\n", strings.TrimSpace(string(hashed)))
	})
	s.edit("hq/stores.csv", func(text string) string { return text + "SH_0312,店,Asia/Shanghai,region=east\n" })
	s.edit("hq/dispatcher.yaml", func(text string) string {
		text = strings.ReplaceAll(text, "0.0.0.0:8883", s.addr)
		text = strings.ReplaceAll(text, "0.0.0.0:8443", "127.0.0.1:0")
		return text
	})
	s.config = filepath.Join(s.dir, "hq", "dispatcher.yaml")
	return s
}

func (s *site) edit(name string, change func(string) string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(change(string(text))), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// kit packs a user's kit, unpacks it as a laptop would, and returns its folder.
func (s *site) kit(user string, more ...string) string {
	s.t.Helper()
	packed := filepath.Join(s.dir, user+".zip")
	if said, code := programs.Run(s.t, filepath.Join(bin, "dispatcher"), append([]string{"tech-kit", user, "-c", s.config, "--out", packed}, more...)...); code != 0 {
		s.t.Fatal(said)
	}
	archive, err := zip.OpenReader(packed)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	for _, f := range archive.File {
		in, err := f.Open()
		if err != nil {
			s.t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.Chmod(s.write(f.Name, string(text)), f.Mode().Perm()); err != nil {
			s.t.Fatal(err)
		}
	}
	return filepath.Join(s.dir, "muster-"+user)
}

// asksByKit asks by the kit's script, and returns the reply and how the script ended.
func (s *site) asksByKit(kit, verb, body string) (protocol.Reply, int) {
	s.t.Helper()
	said, code := programs.Run(s.t, filepath.Join(kit, "ask.sh"), verb, body)
	var reply protocol.Reply
	if err := protocol.Decode([]byte(said), protocol.MaxPayloadBytes, &reply); err != nil {
		s.t.Fatalf("%s %s: ended with %d: %s", verb, body, code, said)
	}
	return reply, code
}

// TestATechniciansKitAsksAndWatchesOverTLS: the stock tools with nothing but the kit,
// by password and by certificate; the watch outlives headquarters.
func TestATechniciansKitAsksAndWatchesOverTLS(t *testing.T) {
	t.Parallel()
	programs.Installed(t, "mosquitto_rr")
	programs.Installed(t, "bash")
	s := secured(t)
	first := s.kit("tech1", "--password-file", s.write("secret", "a kit's own secret\n"))
	second := s.kit("tech2")
	if info, err := os.Stat(filepath.Join(second, "tech2.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	if said, code := programs.Run(t, filepath.Join(bin, "dispatcher"), "tech-kit", "nobody", "-c", s.config, "--out", filepath.Join(s.dir, "n.zip")); code == 0 || !strings.Contains(said, "has no user nobody") {
		t.Errorf("a kit for a stranger: %d, %s", code, said)
	}
	if said, code := programs.Run(t, filepath.Join(bin, "dispatcher"), "tech-kit", "tech2", "-c", s.config, "--out", filepath.Join(s.dir, "tech2.zip")); code == 0 || !strings.Contains(said, "exists already") {
		t.Errorf("over a file: %d, %s", code, said)
	}
	s.serve()
	watch := programs.Launch(t, "bash", filepath.Join(first, "watch.sh"))
	t.Cleanup(watch.Terminate) // with the tool that it runs
	if reply, code := s.asksByKit(second, "help", ""); code != 0 || len(reply.Usage) == 0 {
		t.Errorf("help: %d, %+v", code, reply)
	}
	started := func(kit, id string) {
		t.Helper()
		// The watch may not have subscribed yet, and the line is not kept: ask again.
		asked := 0
		programs.Seldom(t, "a line of a start", func() bool {
			asked++
			reply, code := s.asksByKit(kit, "run", fmt.Sprintf(`{"job":"collect_log","stores":["SH_0312"],"requestId":"%s-%d"}`, id, asked))
			if reply.Code == protocol.CodeRateLimited {
				return false
			}
			if code != 0 {
				t.Fatalf("%d: %+v", code, reply)
			}
			return strings.Contains(watch.Output(), "Run "+reply.RunID+" started") && strings.Contains(watch.Output(), "批次 "+reply.RunID+" 已开始")
		})
	}
	started(first, "a")
	s.asksFromElsewhere(first)
	if said := watch.Output(); strings.Contains(said, `"ok":`) {
		t.Errorf("the watch repeats the replies that ask.sh prints:\n%s", said)
	}
	programs.Seldom(t, "the reply to what was only published", func() bool {
		s.inKit(first, "mosquitto_pub", "-q", "1", "-t", "muster/v1/req/tech1/run", "-m", `{"requestId":"published","job":"nope","stores":"all"}`)
		return strings.Contains(watch.Output(), `"requestId":"published"`)
	})
	s.hq.Kill() // the tool comes back by itself, or ends and is started again
	s.serve()
	started(second, "b")
	s.refusesForGood(first)
}

// asksFromElsewhere sends a file of the folder in which the asker stands.
func (s *site) asksFromElsewhere(kit string) {
	s.t.Helper()
	ask := exec.CommandContext(s.t.Context(), filepath.Join(kit, "ask.sh"), "run", "@request.json")
	ask.Dir = filepath.Dir(s.write("elsewhere/request.json", "\ufeff{\"job\":\"nope\",\r\n\"stores\":\"all\"}\r\n"))
	said, err := ask.Output()
	var reply protocol.Reply
	if ask.ProcessState.ExitCode() != 1 || protocol.Decode(said, protocol.MaxPayloadBytes, &reply) != nil || reply.Code != protocol.CodeUnknownJob {
		s.t.Errorf("a refused one, of a file: %v: %s", err, said)
	}
}

// inKit runs a stock tool as it stands, in the folder of a kit and with its option files.
func (s *site) inKit(kit, tool string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), programs.Installed(s.t, tool), args...)
	cmd.Dir, cmd.Env = kit, append(os.Environ(), "XDG_CONFIG_HOME="+kit)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %q: %v: %s", tool, args, err, out)
	}
	return string(out)
}

// TestATechnicianRetriesWithStockToolsOverTLS: mosquitto_rr and mosquitto_pub with the
// kit's files ask again what a run misses, and mosquitto_sub sees whose retry it is.
func TestATechnicianRetriesWithStockToolsOverTLS(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"mosquitto_rr", "mosquitto_pub", "mosquitto_sub"} {
		programs.Installed(t, tool)
	}
	s := secured(t)
	kit := s.kit("tech2")
	s.serve()
	n := 0
	ask := func(verb, body string) (reply protocol.Reply) {
		t.Helper()
		n++
		said := s.inKit(kit, "mosquitto_rr", "-q", "1", "-W", "30", "-t", "muster/v1/req/tech2/"+verb, "-e", fmt.Sprintf("muster/v1/rep/tech2/%d", n), "-m", body)
		if err := protocol.Decode([]byte(said), protocol.MaxPayloadBytes, &reply); err != nil {
			t.Fatalf("%s %s: %s", verb, body, said)
		}
		return reply
	}
	run := ask("run", `{"job":"collect_log","stores":["SH_0312"],"requestId":"first","barrierSeconds":1,"makeupSeconds":600}`)
	if !run.OK {
		t.Fatalf("the run: %+v", run)
	}
	var retry protocol.Reply
	programs.Seldom(t, "a retry after the barrier, in the make-up window", func() bool {
		retry = ask("retry", fmt.Sprintf(`{"runId":%q,"requestId":"again","barrierSeconds":1}`, run.RunID))
		if !retry.OK && retry.Code != protocol.CodeConflict && retry.Code != protocol.CodeRateLimited {
			t.Fatalf("the retry: %+v", retry)
		}
		return retry.OK
	})
	if retry.ParentRun != run.RunID || retry.RunID == run.RunID || retry.Stores != 1 {
		t.Errorf("the retry: %+v", retry)
	}
	var state protocol.RunStateReport
	said := s.inKit(kit, "mosquitto_sub", "-t", "muster/v1/runs/"+retry.RunID+"/state", "-C", "1", "-W", "30")
	if err := protocol.Decode([]byte(said), protocol.MaxPayloadBytes, &state); err != nil || state.RunID != retry.RunID || state.ParentRun != run.RunID {
		t.Errorf("its state: %s, %v", said, err)
	}
	last := exec.CommandContext(t.Context(), "mosquitto_sub", "-t", "muster/v1/rep/tech2/last", "-C", "1", "-W", "60")
	last.Dir, last.Env = kit, append(os.Environ(), "XDG_CONFIG_HOME="+kit)
	var heard strings.Builder
	last.Stdout = &heard
	if err := last.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- last.Wait() }()
	programs.Seldom(t, "the reply to a published retry", func() bool {
		// The reader may not have subscribed yet: the same request again names the same run.
		s.inKit(kit, "mosquitto_pub", "-q", "1", "-t", "muster/v1/req/tech2/retry", "-m", fmt.Sprintf(`{"runId":%q,"requestId":"again","barrierSeconds":1}`, run.RunID))
		select {
		case err := <-over:
			if err != nil {
				t.Fatal(err)
			}
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	var again protocol.Reply
	if err := protocol.Decode([]byte(heard.String()), protocol.MaxPayloadBytes, &again); err != nil || again.RunID != retry.RunID || again.Duplicate == nil || !*again.Duplicate {
		t.Errorf("got %s, %v", heard.String(), err)
	}
}

// refusesForGood: what cannot heal ends the watch, and says why.
func (s *site) refusesForGood(kit string) {
	s.t.Helper()
	run := func(args ...string) (string, int) {
		p := programs.Launch(s.t, "bash", append([]string{filepath.Join(kit, "watch.sh")}, args...)...)
		code := p.ExitCode()
		return p.Output(), code
	}
	if said, code := run("muster/v1/stores/#"); code != 2 || !strings.Contains(said, "refuses these topics: muster/v1/stores/#") {
		s.t.Errorf("a topic of others: %d, %s", code, said)
	}
	s.edit("muster-tech1/mosquitto_sub", func(text string) string { return strings.ReplaceAll(text, "a kit's own secret", "another secret") })
	if said, code := run(); code != 2 || !strings.Contains(said, "refuses the login of tech1") {
		s.t.Errorf("a wrong password: %d, %s", code, said)
	}
	s.edit("muster-tech1/mosquitto_sub", func(text string) string { return text + "--no-such-option\n" })
	if said, code := run(); code != 2 || !strings.Contains(said, "an option file is wrong") {
		s.t.Errorf("a wrong option: %d, %s", code, said)
	}
}

// TestACheatSheetHasTheVerbsOfItsUser: an approver's says how to approve and not how to
// order, in both languages and for both shells, and what it says is taken.
func TestACheatSheetHasTheVerbsOfItsUser(t *testing.T) {
	t.Parallel()
	programs.Installed(t, "mosquitto_rr")
	s := secured(t)
	s.edit("hq/users.yaml", func(text string) string {
		return text + "  - {name: east, role: technician, stores: {labels: \"region=east\"}, certificate: true}\n"
	})
	s.edit("hq/stores.csv", func(text string) string { return text + "BJ_0001,店,Asia/Shanghai,region=north\n" })
	for user, has := range map[string]map[string]bool{
		"chen":  {"approve": true, "status": true, "run": false, "retry": false, "cancel": false},
		"tech2": {"approve": false, "status": true, "run": true, "retry": true, "cancel": true},
		"east":  {"approve": false, "status": true, "run": true, "retry": true, "cancel": true},
	} {
		folder := s.kit(user)
		for _, sheet := range []string{"cheatsheet.en.md", "cheatsheet.zh-CN.md"} {
			text, err := os.ReadFile(filepath.Join(folder, sheet))
			if err != nil {
				t.Fatal(err)
			}
			for verb, want := range has {
				for _, script := range []string{"    ./ask.sh ", `    .\ask.ps1 `} {
					if got := strings.Contains(string(text), script+verb+" '{"); got != want {
						t.Errorf("%s of %s has %q: %t", sheet, user, script+verb, got)
					}
				}
			}
		}
	}
	s.serve()
	s.takesTheLines("muster-chen/cheatsheet.zh-CN.md", 3)
	s.takesTheLines("muster-tech2/cheatsheet.en.md", 6)
	s.takesTheLines("muster-east/cheatsheet.zh-CN.md", 4)
	text, err := os.ReadFile(filepath.Join(s.dir, "muster-chen", "cheatsheet.en.md"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "    ./ask.sh approve '")
		if !ok {
			continue
		}
		asked++
		body := strings.ReplaceAll(strings.TrimSuffix(rest, "'\n"), "HASH", strings.Repeat("0", 64))
		if reply, code := s.asksByKit(filepath.Join(s.dir, "muster-chen"), "approve", body); code != 1 || reply.Code != protocol.CodeNotFound {
			t.Errorf("%s: %d, %+v", body, code, reply)
		}
	}
	if asked != 2 {
		t.Errorf("%d lines approve or reject", asked)
	}
}

// takesTheLines types the lines of a sheet for bash in which nothing is to be filled in,
// as they stand.
func (s *site) takesTheLines(sheet string, want int) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, sheet))
	if err != nil {
		s.t.Fatal(err)
	}
	typed := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "./ask.sh ") || strings.Contains(line, "RUN") || strings.Contains(line, "APPROVAL") || strings.Contains(line, "@") {
			continue
		}
		typed++
		cmd := exec.CommandContext(s.t.Context(), "bash", "-c", line)
		cmd.Dir = filepath.Join(s.dir, filepath.Dir(sheet))
		if said, err := cmd.Output(); err != nil {
			s.t.Errorf("%s: %s: %v: %s", sheet, line, err, said)
		}
	}
	if typed != want {
		s.t.Errorf("%s has %d such lines, want %d", sheet, typed, want)
	}
}

// TestAKitHoldsWhatItNeedsAndNothingElse looks at every file of one without a password.
func TestAKitHoldsWhatItNeedsAndNothingElse(t *testing.T) {
	t.Parallel()
	s := secured(t)
	folder := s.kit("tech1", "--host", "hq.example.com:9883")
	var names []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "{{") || strings.Contains(string(text), "<no value>") {
			t.Errorf("%s is not filled in", path)
		}
		names = append(names, d.Name())
		return err
	})
	const want = "ask.ps1 ask.sh ca.crt cheatsheet.en.md cheatsheet.zh-CN.md mosquitto_pub mosquitto_rr mosquitto_sub watch.ps1 watch.sh"
	if got := strings.Join(names, " "); err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	options, err := os.ReadFile(filepath.Join(folder, "mosquitto_rr"))
	if err != nil || !strings.Contains(string(options), "-h hq.example.com\n-p 9883\n") || !strings.Contains(string(options), "# -P password") {
		t.Errorf("got %s, %v", options, err)
	}
	if _, port, err := net.SplitHostPort(s.addr); err != nil || strings.Contains(string(options), port) {
		t.Errorf("the port is still %s, %v", port, err)
	}
}
