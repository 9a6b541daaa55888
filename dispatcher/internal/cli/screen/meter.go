package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/progress"
	"muster/internal/machine"
)

const (
	// patience is how long work may last before it shows how far it is: what is over
	// sooner flickers only.
	patience = 400 * time.Millisecond
	// redraw is how often it is shown, which also tells that the work lives.
	redraw = 100 * time.Millisecond
	// barRoom is the characters of a bar.
	barRoom = 24
)

// Meter shows on one line how far long work is: a bar where that is known, and the time
// that a step has taken. The line is gone when the work is over.
type Meter struct {
	w    io.Writer
	most int // characters of a line

	mu    sync.Mutex
	step  string
	done  int64
	total int64 // 0: not known
	began time.Time

	shown int // characters that stand on the line
	quit  chan struct{}
	ended sync.WaitGroup
}

// Watched returns a context under which a command's work is shown on stderr, and what
// clears the line, to be called before anything else is said. Nothing is shown with
// --json, nor where stderr is no screen.
func Watched(cmd *cobra.Command, asJSON bool) (ctx context.Context, wipe func()) {
	file, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || asJSON || os.Getenv("TERM") == "dumb" {
		return cmd.Context(), func() {}
	}
	columns := machine.Columns(file)
	if columns == 0 {
		return cmd.Context(), func() {}
	}
	m := NewMeter(file, columns)
	return progress.Heard(cmd.Context(), m.Note), m.Stop
}

// NewMeter starts to show what Note is told, in lines of so many characters. Stop it.
func NewMeter(w io.Writer, columns int) *Meter {
	m := &Meter{w: w, most: columns - 1, quit: make(chan struct{})} // the last column may wrap
	m.ended.Go(m.loop)
	return m
}

// Note is a progress.Listener.
func (m *Meter) Note(step string, done, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if step != m.step {
		m.step, m.began = step, time.Now()
	}
	m.done, m.total = done, total
}

// Stop clears the line. It may be called twice.
func (m *Meter) Stop() {
	m.mu.Lock()
	select {
	case <-m.quit:
	default:
		close(m.quit)
	}
	m.mu.Unlock()
	m.ended.Wait()
}

func (m *Meter) loop() {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		select {
		case <-m.quit:
			m.draw("")
			return
		case <-wait.C:
			m.draw(m.line(time.Now()))
			wait.Reset(redraw)
		}
	}
}

// draw puts a line over the one that stands, by nothing but a carriage return, which
// every screen knows.
func (m *Meter) draw(line string) {
	if line == "" && m.shown == 0 {
		return
	}
	line = clip(line, m.most)
	width := Width(line)
	Say(m.w, "\r%s%s", line, strings.Repeat(" ", max(0, m.shown-width)))
	if width == 0 {
		Say(m.w, "\r")
	}
	m.shown = width
}

func (m *Meter) line(now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.step == "" {
		return ""
	}
	line := fmt.Sprintf("%s, %d s", m.step, now.Sub(m.began)/time.Second)
	if m.total < 1 {
		return line
	}
	share := min(max(float64(m.done)/float64(m.total), 0), 1)
	full := int(share * barRoom)
	return fmt.Sprintf("[%s%s] %3d %%  %s", strings.Repeat("#", full), strings.Repeat("-", barRoom-full), int(share*100), line)
}
