package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// markers is how the files of executors that are scripts are called.
const markers = ".markers"

// History is all that the participants wrote, in the order of time. Torn names
// the files whose last line was cut off when its writer died.
type History struct {
	Lines []Line
	Torn  []string
}

// Read puts the files *.jsonl and *.markers of a folder together. A torn last
// line is left out and its file named; anything else that cannot be read is an
// error that says where it stands.
func Read(folder string) (History, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return History{}, fmt.Errorf("cannot read a history: %w", err)
	}
	var h History
	for _, entry := range entries {
		parse := parserOf(entry.Name())
		if entry.IsDir() || parse == nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return History{}, fmt.Errorf("cannot read a history: %w", err)
		}
		if err := h.add(entry.Name(), content, parse); err != nil {
			return History{}, err
		}
	}
	Order(h.Lines)
	return h, nil
}

func parserOf(name string) func(file string, text []byte) (Line, error) {
	switch filepath.Ext(name) {
	case ending:
		return parseLine
	case markers:
		return parseMarker
	}
	return nil
}

func (h *History) add(name string, content []byte, parse func(string, []byte) (Line, error)) error {
	whole := bytes.LastIndexByte(content, '\n') + 1
	if whole < len(content) {
		h.Torn = append(h.Torn, name)
	}
	number := 0
	for text := range bytes.Lines(content[:whole]) {
		number++
		line, err := parse(name, bytes.TrimSuffix(text, []byte("\n")))
		line.Source = fmt.Sprintf("%s:%d", name, number)
		if err != nil {
			return fmt.Errorf("cannot read the history at %s: %w", line.Source, err)
		}
		h.Lines = append(h.Lines, line)
	}
	return nil
}

func parseLine(_ string, text []byte) (Line, error) {
	var line Line
	if err := json.Unmarshal(text, &line); err != nil {
		return Line{}, err
	}
	if line.Act == "" || line.AtMs <= 0 {
		return Line{}, fmt.Errorf("a line needs act and at, not %q", text)
	}
	return line, nil
}

// parseMarker reads `task attempt pid when`, with when as epoch milliseconds.
func parseMarker(file string, text []byte) (Line, error) {
	line := Line{Participant: Participant{Who: strings.TrimSuffix(file, markers), Role: RoleExecutor}, Act: ActExecuted}
	fields := strings.Fields(string(text))
	if len(fields) != 4 {
		return Line{}, fmt.Errorf("a marker is `task attempt pid when`, not %q", text)
	}
	line.Task = fields[0]
	var errs [3]error
	line.Attempt, errs[0] = strconv.Atoi(fields[1])
	line.PID, errs[1] = strconv.Atoi(fields[2])
	line.AtMs, errs[2] = strconv.ParseInt(fields[3], 10, 64)
	for _, err := range errs {
		if err != nil {
			return Line{}, fmt.Errorf("a marker is `task attempt pid when` in numbers, not %q", text)
		}
	}
	return line, nil
}

// Order sorts lines of several histories as Read does: by the monotonic clock. A
// line without one is put where its wall clock says, by how far the two clocks
// of the other lines lie apart.
func Order(lines []Line) {
	var apart []int64
	for _, l := range lines {
		if l.MonoUs > 0 {
			apart = append(apart, l.AtMs*1000-l.MonoUs)
		}
	}
	slices.Sort(apart)
	middle := int64(0)
	if len(apart) > 0 {
		middle = apart[len(apart)/2]
	}
	key := func(l Line) int64 {
		if l.MonoUs > 0 {
			return l.MonoUs
		}
		return l.AtMs*1000 - middle
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(key(a), key(b)) })
}
