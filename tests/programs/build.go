package programs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/gofrs/flock"
)

// folderVariable names a folder, below the repository or anywhere, in which the
// programs stay: what one package's tests have linked the next finds there. Without
// it each builds for itself, into a folder that goes with it.
const folderVariable = "MUSTER_BIN"

// Programs are main packages of one module. Each executable has the name of its
// package's folder.
type Programs struct {
	Packages []string // import paths
	Module   string   // its folder below the repository; "": Muster's own
	Into     string   // below the folder of the programs; "": that itself
}

// BuildAndRun builds broker, dispatcher and edge-agent, and what else is asked for,
// tells use in which folder they are, runs the tests and returns the exit code for
// TestMain. The folder is to be read only.
func BuildAndRun(m *testing.M, use func(folder string), more ...Programs) int {
	folder := os.Getenv(folderVariable)
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "muster-programs-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(folder)
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(repository(), folder)
	}
	if err := build(folder, append(more, Programs{Packages: []string{"muster/broker", "muster/dispatcher", "muster/edge-agent"}})); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(folder)
	return m.Run()
}

// SideBySide lets so many tests of a package run at a time, however few cores there
// are: theirs mostly wait, for a program's start, a barrier or the end of a grace
// time. TestMain calls it before BuildAndRun.
func SideBySide(tests int) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err) // package testing has had it since Go 1
	}
}

// build brings each program in the folder up to date; one that is so already is
// not linked again. Who else builds there waits.
func build(folder string, all []Programs) (err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("cannot build the programs: %w", err)
	}
	lock := flock.New(filepath.Join(folder, ".lock"))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("cannot build the programs: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for _, p := range all {
		// Symbols would double the time of linking; a stamp of the checkout would
		// have every program linked again after each commit.
		into := filepath.Join(folder, p.Into) + string(os.PathSeparator)
		cmd := exec.CommandContext(context.Background(), "go", append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", into}, p.Packages...)...)
		cmd.Dir = filepath.Join(repository(), p.Module)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w\n%s", p.Packages, err, out)
		}
	}
	return nil
}

// repository is the folder of this checkout.
func repository() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..")
}
