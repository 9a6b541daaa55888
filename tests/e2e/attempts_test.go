package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/programs"
)

// TestKilledAgentsCountAsAttempts kills the agent in the middle of each
// execution of a job that may be repeated after a crash: as many executions
// happen as attempts are allowed, and not one more.
func TestKilledAgentsCountAsAttempts(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A"}, "")
			s.write("jobs/probe.yaml", `name: probe
version: 1
title: Probe
title_zh: 探测
input_schema: probe_input.json
output_schema: probe_output.json
policy:
  retry_interrupted: true
  run_timeout: 30s
  lease: 10s
  barrier: 50s
  retry_first: 100ms
  retry_max: 200ms
columns: []
`)
			s.serve()
			settings, markers, gate := markingExecutor(s, "A")
			agent := s.agent("A", settings)
			reply := s.ask("run", fmt.Sprintf(`{"job":"probe","stores":"all","attempts":%d}`, attempts))
			if !reply.OK {
				t.Fatalf("reply %+v", reply)
			}
			for n := 1; n <= attempts; n++ {
				programs.Eventually(t, fmt.Sprintf("execution %d", n), func() bool { return len(lines(t, markers)) == n })
				agent.Kill()
				agent = s.agent("A", settings)
			}
			report, _ := s.report(reply.RunID, 1)
			row := report.Stores[0]
			if row.Outcome != task.OutcomeFailed || row.Attempt != attempts || row.Error == nil || row.Error.Code != protocol.CodeInterrupted {
				t.Errorf("row %+v, error %+v", row, row.Error)
			}
			touch(t, gate)
			if next := s.ask("run", `{"requestId":"next","job":"probe","stores":"all","attempts":1}`); next.OK {
				s.report(next.RunID, 1) // the terminal had time to repeat what it must not
			}
			got := lines(t, markers)
			ours := 0
			seen := map[string]bool{}
			for _, mark := range got {
				if strings.HasPrefix(mark, row.TaskID+"/") {
					ours++
				}
				if seen[mark] {
					t.Errorf("%s ran twice", filepath.Base(mark))
				}
				seen[mark] = true
			}
			if ours != attempts {
				t.Errorf("%d executions where %d attempts are allowed: %v", ours, attempts, got)
			}
		})
	}
}
