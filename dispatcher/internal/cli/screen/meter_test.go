package screen_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/cli/screen"
)

// standing is what a screen shows after everything that was written to its one line.
func standing(written string) string {
	line, at := []rune{}, 0
	for _, c := range written {
		if c == '\r' {
			at = 0
			continue
		}
		if at == len(line) {
			line = append(line, ' ')
		}
		line[at] = c
		at++
	}
	return strings.TrimRight(string(line), " ")
}

func TestLongWorkShowsHowFarItIsAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m := screen.NewMeter(&out, 60)
		look := func(want string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if got := standing(out.String()); got != want {
				t.Errorf("the screen shows %q, want %q", got, want)
			}
		}
		m.Note("copies the database", 25, 100)
		look("[######------------------]  25 %  copies the database, 1 s")
		m.Note("copies the database", 200, 100) // it grew meanwhile
		look("[########################] 100 %  copies the database, 2 s")
		m.Note("reads every page", 0, 0)
		look("reads every page, 1 s")
		m.Note(strings.Repeat("long ", 30), 0, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := standing(out.String()); screen.Width(got) > 61 || !strings.HasSuffix(got, "…") {
			t.Errorf("the screen shows %q", got)
		}
		m.Stop()
		m.Stop()
		if got := standing(out.String()); got != "" || !strings.HasSuffix(out.String(), "\r") {
			t.Errorf("%q stays on the screen", got)
		}
	})
}

func TestShortWorkShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m := screen.NewMeter(&out, 60)
		m.Note("reads every page", 0, 0)
		time.Sleep(300 * time.Millisecond)
		m.Stop()
		if out.Len() > 0 {
			t.Errorf("showed %q", out.String())
		}
	})
}
