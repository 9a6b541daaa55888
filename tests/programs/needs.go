package programs

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// strictVariable says that this machine has all that the tests need, as CI's has:
// what is not tried is a failure there.
const strictVariable = "MUSTER_NO_SKIP"

// Lack skips the test for what this machine has not, or does not permit, or fails it
// where nothing may be left out. The arguments say what it is, as for Printf.
func Lack(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(strictVariable) == "1" {
		t.Fatalf("nothing may be left out here ("+strictVariable+"=1), but "+format, args...)
	}
	t.Skipf("not tried: "+format, args...)
}

// Installed is the path of a program of this machine, which the test needs. Debian
// keeps servers where not everybody's path leads.
func Installed(t testing.TB, name string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	Lack(t, "%s is not installed", name)
	return ""
}

// Bare is the environment without any MUSTER_ variable, for a program that is to have its
// own alone.
func Bare() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "MUSTER_") })
}

// BareEnvironment takes every MUSTER_ variable, such as those of a developer or of the
// tests themselves, out of the environment until the test ends.
func BareEnvironment(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "MUSTER_") {
			t.Setenv(name, value) // which puts it back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}
