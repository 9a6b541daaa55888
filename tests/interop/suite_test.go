package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"muster/broker/server"
)

const (
	suiteVar = "MUSTER_INTEROP_SUITE"
	cases    = 27
	// suiteTime bounds one run of all cases; most of it is their own waiting.
	suiteTime = 8 * time.Minute
)

// The broker passes every case of the public suite, each guard in its place.
func TestEveryCaseOfTheSuitePasses(t *testing.T) {
	verdicts := runSuite(t, bent(true))
	if len(verdicts) != cases {
		t.Errorf("%d cases ran, not %d", len(verdicts), cases)
	}
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		if verdicts[name] == "ok" {
			continue
		}
		// Some cases do not wait for what they build on; README.md says which. One
		// that fails for another reason fails again.
		t.Logf("%s: %s; once more", name, verdicts[name])
		if again := runSuite(t, bent(true), "Test.test_basic", "Test."+name)[name]; again != "ok" {
			t.Errorf("%s: %s, and once more: %s", name, verdicts[name], again)
		}
	}
}

// With the quotas of clients taken out of CONNECT, as in production, exactly the
// cases that test those quotas do not hold. README.md says why.
func TestWithoutClientQuotasOnlyTheirCasesDiffer(t *testing.T) {
	verdicts := runSuite(t, bent(false), "Test.test_basic", "Test.test_flow_control1", "Test.test_flow_control2",
		"Test.test_server_topic_alias", "Test.test_client_topic_alias")
	for name, ok := range map[string]bool{
		"test_basic": true, "test_flow_control2": true, "test_client_topic_alias": true,
		"test_flow_control1": false, "test_server_topic_alias": false,
	} {
		if got := verdicts[name]; (got == "ok") != ok || got == "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// runSuite returns the verdict of each case by its name.
func runSuite(t *testing.T, bent *server.Interop, only ...string) map[string]string {
	t.Helper()
	folder := os.Getenv(suiteVar)
	if folder == "" {
		t.Skipf("the suite is not part of this repository: set %s to a clone of it (tests/interop/README.md says how)", suiteVar)
	}
	_, port, err := net.SplitHostPort(start(t, bent))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), suiteTime)
	defer cancel()
	args := append([]string{"-u", "-W", "ignore", "client_test5.py", "-p", port, "-v"}, only...)
	cmd := exec.CommandContext(ctx, "python3", args...)
	cmd.Dir = filepath.Join(folder, "interoperability")
	out, err := cmd.CombinedOutput()
	t.Logf("client_test5.py ended with %v:\n%s", err, out)
	return verdictsOf(out)
}

var (
	caseLine    = regexp.MustCompile(`^(test_\w+) \(`)
	verdictLine = regexp.MustCompile(`(?:^|\.\.\. )(ok|FAIL|ERROR|skipped .*)$`)
)

// verdictsOf reads what unittest prints: the verdict ends the line that names
// the case, or stands further down when the case has a description or printed
// something itself.
func verdictsOf(out []byte) map[string]string {
	verdicts := map[string]string{}
	running := ""
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		line := lines.Text()
		if m := caseLine.FindStringSubmatch(line); m != nil {
			running = m[1]
		}
		if m := verdictLine.FindStringSubmatch(line); m != nil && running != "" {
			verdicts[running], running = m[1], ""
		}
	}
	return verdicts
}

func TestVerdictsAreReadFromUnittest(t *testing.T) {
	got := verdictsOf([]byte("clean up finished\ntest_basic (__main__.Test.test_basic) ... ok\n" +
		"test_b (__main__.Test.test_b) ... noise\nmore\nFAIL\ntest_c (__main__.Test) ... ERROR\nok\n" +
		"test_d (__main__.Test.test_d)\nwhat it is for ... ok\ntest_e (__main__.Test.test_e) ... dies\n\nRan 5 tests\nOK\n"))
	want := map[string]string{"test_basic": "ok", "test_b": "FAIL", "test_c": "ERROR", "test_d": "ok"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
