package tally

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"muster/internal/redact"
)

const (
	// maxGroups bounds how many different messages are told apart; after normalising, programs have hundreds.
	maxGroups = 4096
	// maxMessageBytes bounds how much of a message tells it from others.
	maxMessageBytes = 300
	// maxExampleBytes bounds the one message that is kept as it was written.
	maxExampleBytes = 500
)

// Group is the messages that are alike once numbers and ids are taken out.
type Group struct {
	// Message is the message with every number and id replaced by "#".
	Message string
	// Example is the first such message as it was written.
	Example         string
	Level           Level
	Count           int64
	FirstMs, LastMs int64
}

// Messages groups alike messages. It is not safe for concurrent use.
type Messages struct {
	groups  map[string]*Group
	dropped int64
	key     []byte
}

// NewMessages returns an empty set of groups.
func NewMessages() *Messages { return &Messages{groups: make(map[string]*Group)} }

// Add counts one message.
func (m *Messages) Add(message []byte, level Level, atMs int64) {
	m.key = normalise(m.key[:0], message)
	group, ok := m.groups[string(m.key)]
	if !ok {
		if len(m.groups) >= maxGroups {
			m.dropped++
			return
		}
		group = &Group{
			Message: string(m.key), Example: string(redact.Clip(message, maxExampleBytes)), Level: level,
			FirstMs: atMs, LastMs: atMs,
		}
		m.groups[group.Message] = group
	}
	group.Count++
	if atMs < group.FirstMs {
		group.FirstMs = atMs
		group.Example = string(redact.Clip(message, maxExampleBytes))
	}
	group.LastMs = max(group.LastMs, atMs)
	group.Level = min(group.Level, level)
}

// Dropped returns how many messages were not counted because there were too many different ones.
func (m *Messages) Dropped() int64 { return m.dropped }

// Top returns the most frequent groups, at most limit, and how many more there are. clean is applied to every
// message first, and what is alike after that is one group. Draws go by message, so that the order is always the same.
func (m *Messages) Top(limit int, clean func(string) string) (top []Group, more int) {
	merged := make(map[string]Group, len(m.groups))
	for _, key := range slices.Sorted(maps.Keys(m.groups)) {
		group := *m.groups[key]
		// Cleaned first: a secret whose digits are taken out may no longer look like one.
		group.Example = clean(group.Example)
		group.Message = string(normalise(nil, []byte(group.Example)))
		if other, ok := merged[group.Message]; ok {
			group.Count += other.Count
			group.Level = min(group.Level, other.Level)
			if other.FirstMs <= group.FirstMs {
				group.FirstMs, group.Example = other.FirstMs, other.Example
			}
			group.LastMs = max(group.LastMs, other.LastMs)
		}
		merged[group.Message] = group
	}
	top = slices.SortedFunc(maps.Values(merged), func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Message, b.Message))
	})
	if len(top) > limit {
		more = len(top) - limit
		top = top[:limit:limit]
	}
	return top, more
}

// normalise appends the message with its numbers and ids replaced by "#" and its white space narrowed.
func normalise(dst, message []byte) []byte {
	message = bytes.TrimSpace(message)
	for i := 0; i < len(message) && len(dst) < maxMessageBytes+64; {
		c := message[i]
		switch {
		case c == ' ' || c == '\t':
			if len(dst) > 0 && dst[len(dst)-1] != ' ' {
				dst = append(dst, ' ')
			}
			i++
		case isAlphanumeric(c):
			end := i
			for end < len(message) && isAlphanumeric(message[end]) {
				end++
			}
			if n := uuidLen(message[i:]); n > 0 {
				dst, end = append(dst, '#'), i+n
			} else {
				dst = normaliseWord(dst, message[i:end])
			}
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return redact.Clip(dst, maxMessageBytes)
}

// normaliseWord appends a word of letters and digits: an id is all "#", in others each number is.
func normaliseWord(dst, w []byte) []byte {
	numbers, hexadecimal := 0, true
	for _, c := range w {
		if c >= '0' && c <= '9' {
			numbers++
			continue
		}
		hexadecimal = hexadecimal && (c|0x20) >= 'a' && (c|0x20) <= 'f'
	}
	isID := hexadecimal && len(w) >= 6 || len(w) > 2 && w[0] == '0' && w[1]|0x20 == 'x' || len(w) >= 16 && numbers >= 4
	switch {
	case numbers == 0:
		return append(dst, w...)
	case isID || numbers == len(w):
		return appendMark(dst)
	}
	for i, c := range w {
		if c < '0' || c > '9' {
			dst = append(dst, c)
		} else if i == 0 || w[i-1] < '0' || w[i-1] > '9' {
			dst = append(dst, '#')
		}
	}
	return dst
}

// appendMark appends "#", narrowing what numbers are made of: 10.0.0.1, 12:30:45 and 1,234.50 are one "#".
func appendMark(dst []byte) []byte {
	if n := len(dst); n >= 2 && dst[n-2] == '#' && bytes.IndexByte([]byte(".:,"), dst[n-1]) >= 0 {
		return dst[:n-1]
	}
	return append(dst, '#')
}

func uuidLen(b []byte) int {
	const size = 36
	if len(b) < size {
		return 0
	}
	for i, c := range b[:size] {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return 0
			}
		} else if c < '0' || c > '9' && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0
		}
	}
	return size
}

func isAlphanumeric(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' }
