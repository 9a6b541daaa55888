package e2e_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/tests/programs"
)

// shell runs one command of the dispatcher's program to its end.
func (s *site) shell(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), programs.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "dispatcher"), args...)
	cmd.Dir = s.dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Fatalf("dispatcher %v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestCommandLineOrdersEveryFormOfTargetsAndEndsWithTheVerdict: the word all, a
// list, a label expression and a file, each waited for, over every broker; the
// exit code tells what came of it.
func TestCommandLineOrdersEveryFormOfTargetsAndEndsWithTheVerdict(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil, start(t))
			s.write("stores.csv", "store_id,name,time_zone,labels\n"+
				"007,七号店,Asia/Shanghai,region=east;format=mall\n1E5,=1+1,Asia/Shanghai,region=east;format=kiosk\n06-8108,离线店,Asia/Shanghai,region=west;format=mall\n")
			s.write("missing.txt", "\ufeffstore_id,name\r\n# those of yesterday\r\n007,七号店\r\n\r\n1E5,x\r\n")
			s.serve()
			for _, store := range []string{"007", "1E5"} {
				s.write("agents/"+store+"/logs/pos.log", "2026-09-17 00:00:00 INFO 开店\n2026-09-18 00:00:00 INFO next day\n")
				s.write("agents/"+store+"/pos.ini", "a=1\n")
				s.agent(store, collectSettings)
			}
			for _, c := range []struct {
				name string
				args string
				code int
				say  []string
			}{
				{"list", "run collect_log --stores 007,1E5 --input date=2026-09-17 --wait", 0, []string{"2 stores, report by", "verdict complete"}},
				{"file", "run collect_log --stores @missing.txt --input date=2026-09-17 --wait", 0, []string{"verdict complete"}},
				{"labels", "run collect_log --stores label:region=east,format!=kiosk --input date=2026-09-17 --wait", 0, []string{"1 store", "verdict complete"}},
				{"all", "run collect_log --stores all --input date=2026-09-17 --barrier 3s --wait", 3, []string{"3 stores, report by", "verdict partial", "offline 1", "missing 06-8108"}},
				{"nobody there", "run collect_log --stores label:region=west --barrier 1s --wait", 4, []string{"verdict below_quorum"}},
				{"without waiting", "run collect_log --stores 007 --input date=2026-09-16", 0, []string{"1 store"}},
				{"unknown store", "run collect_log --stores 7 --wait", 2, []string{"UNKNOWN_STORE", "未知门店", "hint: "}},
				{"no such label", "run collect_log --stores label:region=north --wait", 2, []string{"NO_TARGETS"}},
				{"bad expression", "run collect_log --stores label:region --wait", 2, []string{"SCHEMA", "label expression"}},
				{"unknown job", "run collect_logs --stores all --wait", 2, []string{"UNKNOWN_JOB"}},
				{"bad input", "run collect_log --stores all --input date=17.9.2026 --wait", 2, []string{"SCHEMA", "/input/date"}},
				{"bad flag", "run collect_log --wait", 2, []string{"stores"}},
			} {
				args := strings.Fields(c.args)
				if c.name != "bad flag" {
					args = append(args, "--broker", "mqtt://"+s.addr, "--user", "wang")
				}
				out, errs, code := s.shell(args...)
				if code != c.code {
					t.Errorf("%s: exit code %d, want %d: %q, %q", c.name, code, c.code, out, errs)
				}
				for _, say := range c.say {
					if !strings.Contains(out+errs, say) {
						t.Errorf("%s: %q, %q lack %q", c.name, out, errs, say)
					}
				}
			}
		})
	}
}

func TestCommandLineSaysThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"A"}, "")
	_, errs, code := s.shell("run", "probe", "--stores", "all", "--wait", "--broker", "mqtt://"+s.addr, "--user", "wang", "--timeout", "1s")
	if code != 5 || !strings.Contains(errs, "no answer") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	addr := standAlone(t) // a broker without headquarters
	_, errs, code = s.shell("run", "probe", "--stores", "all", "--wait", "--broker", "mqtt://"+addr, "--user", "wang", "--timeout", "1s")
	if code != 5 || !strings.Contains(errs, "no answer") {
		t.Errorf("without headquarters: exit code %d, %q", code, errs)
	}
}
