package cases_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/tests/programs"
)

// TestTwelveHundredTasksOfAnOfflineStoreAreAllDoneOnce: runs pile up for a store
// whose only terminal is away. When it comes back, everything is done once, in
// order, under the cap and the rate, which both hold something back, and in memory
// that grows with the tasks by little.
func TestTwelveHundredTasksOfAnOfflineStoreAreAllDoneOnce(t *testing.T) {
	t.Parallel()
	tasks := full(1200, 100)
	admitted := limits{running: 3, rate: float64(full(10, 5)), burst: 5} // less than three shells do on a slow machine
	h := newHouse(t, admitted, []string{"AWAY"})
	h.serve()
	for range tasks {
		h.run(`["AWAY"]`)
	}
	marks := h.path("marks")
	script := h.write("work.sh", fmt.Sprintf("echo \"$MUSTER_TASK_ID $MUSTER_ATTEMPT\" >> %q\necho '{\"value\":\"done\"}'\n", marks))
	config := h.write("agent/edge-agent.yaml", fmt.Sprintf(`store: AWAY
terminal: pos1
time_zone: Asia/Shanghai
work_folder: work
max_parallel: 8
broker: {url: "mqtt://%s"}
executors:
  - {type: probe, version: 1, command: [sh, %q]}
log: {level: warn}
`, h.addr, script))
	agent := programs.Launch(t, filepath.Join(bin, "edge-agent"), "-config", config)
	last := -1
	for done := 0; done < tasks; { // each stretch has the whole patience
		programs.Seldom(t, fmt.Sprintf("progress after %d of %d tasks", last, tasks), func() bool {
			done = h.number(`SELECT count(*) FROM tasks WHERE status = 'SUCCEEDED'`)
			return done == tasks || done > last+50
		})
		last = done
	}
	h.published(tasks)

	executed := strings.Fields(readFile(t, marks))
	if len(executed) != 2*tasks {
		t.Errorf("%d executions of %d tasks", len(executed)/2, tasks)
	}
	once := map[string]bool{}
	for i := 0; i+1 < len(executed); i += 2 {
		if once[executed[i]] || executed[i+1] != "1" {
			t.Errorf("task %s was executed again, as attempt %s", executed[i], executed[i+1])
		}
		once[executed[i]] = true
	}
	if n := h.number(`SELECT count(*) FROM attempts`); n != tasks || len(once) != tasks {
		t.Errorf("%d attempts, %d tasks executed, want %d", n, len(once), tasks)
	}
	h.keptTo(admitted)
	h.inOrder(tasks)
	a, q := agent.Peak(), h.hq.Peak()
	t.Logf("%d tasks: the agent's peak %d MiB, headquarters' %d MiB", tasks, a, q)
	if bound := 24 + tasks/64; a > bound { // 16 KiB a task, and what there is without any
		t.Errorf("the agent needed %d MiB, more than %d", a, bound)
	}
	if bound := 96 + tasks/32; q > bound {
		t.Errorf("headquarters needed %d MiB, more than %d", q, bound)
	}
}

// keptTo checks from the attempts how many ran at a time and were granted in any
// stretch of time. An attempt ends, in its record, before its slot is free.
func (h *house) keptTo(l limits) {
	h.t.Helper()
	var granted []int64
	type moment struct {
		at int64
		by int
	}
	var moments []moment
	for _, row := range h.rows(`SELECT granted_at, ended_at FROM attempts ORDER BY granted_at`) {
		var from, to int64
		if _, err := fmt.Sscan(row, &from, &to); err != nil {
			h.t.Fatal(err)
		}
		granted = append(granted, from)
		moments = append(moments, moment{from, 1}, moment{to, -1})
	}
	slices.SortFunc(moments, func(a, b moment) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.by - b.by
	})
	running, most := 0, 0
	for _, m := range moments {
		running += m.by
		most = max(most, running)
	}
	var longest int64
	used, level := 0, float64(l.burst) // how often the grants left no whole token, and how many there are
	for i := range granted {
		pause := granted[i] - granted[max(i-1, 0)]
		longest = max(longest, pause)
		level = min(float64(l.burst), level+l.rate*float64(pause)/1000) - 1
		if level < 1 {
			used++
		}
	}
	h.t.Logf("at most %d ran at a time; %d grants used up what the rate allowed; the longest pause between two grants is %d ms", most, used, longest)
	if most != l.running {
		h.t.Errorf("%d ran at a time under a cap of %d", most, l.running)
	}
	if used == 0 { // nothing was held back, and nothing proved
		h.t.Errorf("no grant used up what a rate of %g allows", l.rate)
	}
	for i := range granted {
		for j := i + l.burst; j < len(granted); j++ {
			allowed := float64(l.burst) + 1 + l.rate*float64(granted[j]-granted[i]+1)/1000 // moments are whole milliseconds
			if float64(j-i+1) > allowed {
				h.t.Fatalf("%d grants within %d ms", j-i+1, granted[j]-granted[i])
			}
		}
	}
}

// inOrder checks that no task waited behind many that were asked for later.
func (h *house) inOrder(tasks int) {
	h.t.Helper()
	ids := h.rows(`SELECT a.task_id FROM attempts a ORDER BY a.granted_at, a.task_id`)
	asked := slices.Sorted(slices.Values(ids)) // ids are ordered by time
	rank := map[string]int{}
	for i, id := range asked {
		rank[id] = i
	}
	worst := 0
	for i, id := range ids {
		worst = max(worst, i-rank[id])
	}
	h.t.Logf("a task was overtaken by at most %d of %d", worst, tasks)
	if worst > 32 {
		h.t.Errorf("a task was overtaken by %d later ones", worst)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alive reports whether the process is there and no zombie.
func alive(pid string) bool {
	if _, err := strconv.Atoi(pid); err != nil {
		return false
	}
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}
