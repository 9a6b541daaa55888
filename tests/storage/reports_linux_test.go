package storage_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/tests/chaos/site"
	"muster/tests/disk"
	"muster/tests/programs"
)

// TestReportThatCannotBeWrittenIsPublishedWhenItCan: the reports folder is full,
// frozen, and a share that is away. Each time the alarm says so, health
// tells which run waits, deadlines are kept, and the report is published by
// itself, the manifest last, and the same as ever.
func TestReportThatCannotBeWrittenIsPublishedWhenItCan(t *testing.T) {
	t.Parallel()
	s, eye := newStand(t, site.Config{Claims: site.Executed()})
	disk.Small(t, s.Reports(), 1)
	s.Serve()
	alarms := s.Alarms()
	s.Agent("A")
	s.wantSuccess("before", s.ask(30)) // makes the month's folder
	months, err := filepath.Glob(filepath.Join(s.Reports(), "*", "[01]*"))
	if err != nil || len(months) != 1 {
		t.Fatal(months, err)
	}
	for _, c := range []struct {
		name       string
		begin, end func()
	}{
		{"full", func() { disk.Fill(t, s.Reports()) }, func() { disk.Free(t, s.Reports()) }},
		{"frozen", func() { disk.Freeze(t, months[0], true) }, func() { disk.Freeze(t, months[0], false) }},
		{"away", func() { mountOver(t, s.Reports()) }, func() { unmount(t, s.Reports()) }},
	} {
		c.begin()
		run := s.ask(30)
		alarms.Await("report_not_published", false)
		if health := s.health(); !strings.Contains(health, "report_not_published: run "+run) {
			t.Errorf("%s: health says %q", c.name, health)
		}
		if left := programs.Manifests(s.Reports(), run+"*"); len(left) != 0 {
			t.Errorf("%s: there is a manifest: %v", c.name, left)
		}
		c.end()
		alarms.Await("report_not_published", true)
		s.wantSuccess(c.name, run)
		if health := s.health(); health != "" {
			t.Errorf("%s: health says %q when it is over", c.name, health)
		}
	}
	s.Judge(eye)
}

// health is what dispatcher health says, on the machine of headquarters.
func (s *stand) health() string {
	s.t.Helper()
	said, code := dispatcher(s.t, "health", "--data", s.Data())
	if code != 0 {
		s.t.Errorf("health ends with %d: %s", code, said)
	}
	return said
}

// mountOver puts a disk without room for a file in the folder's place, as an empty
// mount point that nobody may write to is.
func mountOver(t *testing.T, folder string) {
	t.Helper()
	if err := unix.Mount("none", folder, "tmpfs", unix.MS_RDONLY, "mode=700"); err != nil {
		programs.Lack(t, "nothing can be mounted: %v", err)
	}
}

func unmount(t *testing.T, folder string) {
	t.Helper()
	if err := unix.Unmount(folder, 0); err != nil {
		t.Error(err)
	}
}
