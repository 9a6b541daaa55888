package collect

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"muster/edge-agent/internal/collect/tally"
)

var errTooLarge = errors.New("it cannot be made small enough")

// fit writes the result in at most limit bytes. What is cut, and in which order, depends on the result alone: lines of
// the excerpt (the oldest first, those without warning or error before those with one), then the contents of
// configuration files (the longest first), then examples and long messages, then the rarest messages, then problems,
// then log files without and with lines of the day, then configuration files.
func fit(out *result, limit int) (json.RawMessage, error) {
	steps := []func(*result) bool{}
	for _, most := range []int{64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10, 2 << 10, 1 << 10, 0} {
		steps = append(steps, func(r *result) bool { return cutContents(r, most) })
	}
	for _, most := range []int{200, 100, 40} {
		steps = append(steps, func(r *result) bool { return cutMessages(r, most) })
	}
	steps = append(steps, halveErrors, halveProblems, dropIdleLogs, halveLogs, halveConfig)
	countCuts(out)
	encoded, err := encode(out)
	if err != nil || len(encoded) <= limit {
		return encoded, err
	}
	if err := cutExcerpt(out, len(encoded)-limit); err != nil {
		return nil, err
	}
	for {
		countCuts(out)
		if encoded, err = encode(out); err != nil || len(encoded) <= limit {
			return encoded, err
		}
		// A step that has nothing left to give is done with; the halving ones come again.
		for len(steps) > 0 && !steps[0](out) {
			steps = steps[1:]
		}
		if len(steps) == 0 {
			return encoded, errTooLarge
		}
	}
}

// encode leaves the signs of HTML alone: as escapes they would take six bytes each.
func encode(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte{'\n'}), nil
}

// countCuts brings the counts of what is cut up to date with the entries' own flags.
func countCuts(r *result) {
	t := &r.Truncated
	t.ConfigContents, t.Messages = 0, 0
	for _, entry := range r.Config {
		if entry.ContentTruncated {
			t.ConfigContents++
		}
	}
	for _, entry := range r.TopErrors {
		if entry.Cut {
			t.Messages++
		}
	}
	t.Any = t.ExcerptLines+t.UngroupedLines > 0 ||
		t.ConfigContents+t.Messages+t.ErrorGroups+t.Problems+t.Logs+t.Config+t.UnreadFiles > 0 ||
		slices.ContainsFunc(r.Logs, func(log logEntry) bool { return log.Truncated.Content || log.Truncated.LongLines > 0 })
}

// cutExcerpt drops lines until at least so many bytes are saved or none is left.
func cutExcerpt(r *result, excess int) error {
	// The digits of the counts that change take a few bytes more.
	const slack = 64
	saved := -slack
	drop := make(map[int]bool)
	important := func(line excerptLine) bool {
		return line.Level == tally.Fatal.String() || line.Level == tally.Error.String() || line.Level == tally.Warn.String()
	}
	for _, round := range []bool{false, true} {
		for i, line := range r.Excerpt {
			if saved >= excess {
				break
			}
			if important(line) != round {
				continue
			}
			encoded, err := encode(line)
			if err != nil {
				return err
			}
			saved += len(encoded) + len(",")
			drop[i] = true
		}
	}
	kept := make([]excerptLine, 0, len(r.Excerpt)-len(drop))
	for i, line := range r.Excerpt {
		if !drop[i] {
			kept = append(kept, line)
		}
	}
	r.Excerpt = kept
	r.Truncated.ExcerptLines += int64(len(drop))
	return nil
}

// cutContents cuts the contents that are longer than most, at the end of a line where there is one.
func cutContents(r *result, most int) bool {
	changed := false
	for i := range r.Config {
		entry := &r.Config[i]
		if len(entry.Content) <= most {
			continue
		}
		head := cutText(entry.Content, most)
		if end := strings.LastIndexByte(head, '\n'); end > 0 {
			head = head[:end]
		}
		entry.Content, entry.ContentTruncated = head, true
		changed = true
	}
	return changed
}

func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}

func cutMessages(r *result, most int) bool {
	changed := false
	for i := range r.TopErrors {
		entry := &r.TopErrors[i]
		message, example := cutText(entry.Message, most), cutText(entry.Example, most)
		if message == entry.Message && example == entry.Example {
			continue
		}
		entry.Message, entry.Example, entry.Cut = message, example, true
		changed = true
	}
	return changed
}

func halveErrors(r *result) bool {
	dropped := halve(&r.TopErrors)
	r.Truncated.ErrorGroups += dropped
	return dropped > 0
}

func halveProblems(r *result) bool {
	dropped := halve(&r.Problems)
	r.Truncated.Problems += dropped
	return dropped > 0
}

func halveLogs(r *result) bool {
	dropped := halve(&r.Logs)
	r.Truncated.Logs += dropped
	return dropped > 0
}

func halveConfig(r *result) bool {
	dropped := halve(&r.Config)
	r.Truncated.Config += dropped
	return dropped > 0
}

// halve drops the second half of a list and returns how many that were.
func halve[T any](list *[]T) int {
	keep := len(*list) / 2
	dropped := len(*list) - keep
	*list = (*list)[:keep]
	return dropped
}

func dropIdleLogs(r *result) bool {
	before := len(r.Logs)
	r.Logs = slices.DeleteFunc(r.Logs, func(log logEntry) bool { return log.LinesInRange == 0 })
	r.Truncated.Logs += before - len(r.Logs)
	return len(r.Logs) < before
}
