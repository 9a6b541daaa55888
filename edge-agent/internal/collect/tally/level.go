// Package tally counts what a day's log lines say: how severe they are, which error messages are the most frequent,
// and which lines are worth showing. It must not know files, encodings or time zones, and what it keeps is bounded
// whatever it is fed.
package tally

import (
	"bytes"
	"unicode/utf8"
)

// Level is how severe a line says it is.
type Level int

// The levels, most severe first. Other is a line that names none.
const (
	Fatal Level = iota
	Error
	Warn
	Info
	Debug
	Trace
	Other
	levels
)

// String returns the name under which the level is reported.
func (l Level) String() string {
	if l < Fatal || l >= Other {
		return "other"
	}
	return [...]string{"fatal", "error", "warn", "info", "debug", "trace"}[l]
}

const (
	// levelBytes and levelWords bound how far behind the time stamp a level is looked for: host, program, thread and
	// logger come before it, the message after it.
	levelBytes = 160
	levelWords = 16
	// fieldBytes bounds how far into a JSON or logfmt line its level field is looked for.
	fieldBytes = 1024
)

// LevelOf returns the level that a line states and where the text behind it begins. rest is where the text behind the
// time stamp begins. A level counts where loggers put it: as a field of its own, in brackets, in capitals, as the
// first word or before a colon. The word "error" in the prose of a message does not make the line one.
func LevelOf(line []byte, rest int) (level Level, message int) {
	if level, message, ok := fieldLevel(line, rest); ok {
		return level, message
	}
	if level, message, ok := wordLevel(line, rest, min(len(line), rest+levelBytes)); ok {
		return level, message
	}
	if level, _, ok := wordLevel(line, 0, min(rest, 24)); ok {
		return level, rest
	}
	if level, ok := prioritySeverity(line); ok {
		return level, rest
	}
	return Other, rest
}

// word maps a level's word, in lower case, to its level.
func word(w []byte) (Level, bool) {
	switch string(w) {
	case "fatal", "critical", "crit", "emerg", "emergency", "alert", "panic", "致命", "严重", "嚴重":
		return Fatal, true
	case "error", "err", "severe", "错误", "錯誤", "异常", "異常":
		return Error, true
	case "warn", "warning", "警告":
		return Warn, true
	case "info", "information", "informational", "notice", "信息", "資訊", "訊息", "通知":
		return Info, true
	case "debug", "dbg", "fine", "调试", "偵錯", "除錯":
		return Debug, true
	case "trace", "verbose", "finer", "finest", "跟踪", "追蹤":
		return Trace, true
	default:
		return Other, false
	}
}

// wordLevel looks for a level's word between two offsets.
func wordLevel(line []byte, from, until int) (level Level, message int, ok bool) {
	words, numeric := 0, true
	for i := from; i < until && words < levelWords; {
		size := wordSize(line[i:])
		if size == 0 {
			i++
			continue
		}
		end := i + size
		if level, ok := judge(line, i, end, words, numeric); ok {
			return level, skipSeparators(line, end), true
		}
		numeric = numeric && isNumber(line[i:end])
		words++
		i = end
	}
	return Other, from, false
}

// judge decides whether the word between two offsets is the line's level.
func judge(line []byte, start, end, index int, afterNumbers bool) (Level, bool) {
	before, after := byte(' '), byte(' ')
	if start > 0 {
		before = line[start-1]
	}
	if end < len(line) {
		after = line[end]
	}
	size := end - start
	if size == 1 {
		// Android and glog write one letter behind the process number.
		if afterNumbers && (before == ' ' || before == '[' || before == '|') && (after == ' ' || after == ']' || after == '|' || after == '/') {
			return letterLevel(line[start])
		}
		return Other, false
	}
	if size > 15 || !isBefore(before) || !isAfter(after) {
		return Other, false
	}
	var lower [15]byte
	capitals := true
	for k, c := range line[start:end] {
		capitals = capitals && (c < 'a' || c > 'z')
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower[k] = c
	}
	level, known := word(lower[:size])
	switch {
	case !known:
		return Other, false
	case capitals, index == 0:
		return level, true
	case isBracket(before) && isBracket(after):
		return level, true
	default:
		return level, after == ':' && index < 6
	}
}

func letterLevel(c byte) (Level, bool) {
	switch c {
	case 'F':
		return Fatal, true
	case 'E':
		return Error, true
	case 'W':
		return Warn, true
	case 'I':
		return Info, true
	case 'D':
		return Debug, true
	case 'V':
		return Trace, true
	default:
		return Other, false
	}
}

// fieldLevel reads the level field of a JSON or logfmt line.
func fieldLevel(line []byte, rest int) (level Level, message int, ok bool) {
	head := line[:min(len(line), fieldBytes)]
	if len(head) > 0 && head[0] == '{' {
		for _, label := range [...]string{`"level"`, `"severity"`, `"lvl"`, `"levelname"`, `"loglevel"`, `"logLevel"`, `"@l"`} {
			if i := bytes.Index(head, []byte(label)); i >= 0 {
				if level, ok := valueLevel(head, i+len(label)); ok {
					return level, messageField(head), true
				}
			}
		}
		return Other, 0, false
	}
	if bytes.IndexByte(head, '=') < 0 {
		return Other, 0, false
	}
	for _, label := range [...]string{"level=", "lvl=", "severity="} {
		if i := bytes.Index(head, []byte(label)); i == 0 || i > 0 && head[i-1] == ' ' {
			if level, ok := valueLevel(head, i+len(label)); ok {
				return level, rest, true
			}
		}
	}
	return Other, 0, false
}

// messageField returns where the message of a JSON line begins, or 0.
func messageField(head []byte) int {
	for _, label := range [...]string{`"msg"`, `"message"`, `"@m"`, `"@mt"`} {
		if i := bytes.Index(head, []byte(label)); i >= 0 {
			i += len(label)
			for i < len(head) && (head[i] == ' ' || head[i] == ':' || head[i] == '"') {
				i++
			}
			return i
		}
	}
	return 0
}

func valueLevel(b []byte, i int) (Level, bool) {
	for i < len(b) && (b[i] == ' ' || b[i] == ':' || b[i] == '"') {
		i++
	}
	end := min(len(b), i+min(15, wordSize(b[i:])))
	value := bytes.ToLower(b[i:end])
	if level, ok := word(value); ok {
		return level, true
	}
	// The numbers of bunyan and pino.
	switch string(value) {
	case "10":
		return Trace, true
	case "20":
		return Debug, true
	case "30":
		return Info, true
	case "40":
		return Warn, true
	case "50":
		return Error, true
	case "60":
		return Fatal, true
	default:
		return Other, false
	}
}

// prioritySeverity reads the severity in syslog's <priority> (RFC 5424, section 6.2.1).
func prioritySeverity(line []byte) (Level, bool) {
	if len(line) < 3 || line[0] != '<' {
		return Other, false
	}
	value, i := 0, 1
	for i < len(line) && i < 4 && line[i] >= '0' && line[i] <= '9' {
		value = value*10 + int(line[i]-'0')
		i++
	}
	if i == 1 || i >= len(line) || line[i] != '>' || value > 191 {
		return Other, false
	}
	return [...]Level{Fatal, Fatal, Fatal, Error, Warn, Info, Info, Debug}[value&7], true
}

func isLetter(c byte) bool { return (c|0x20) >= 'a' && (c|0x20) <= 'z' }

func isWordByte(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' || c == '_' }

// wordSize returns the length of the word at the start of b: letters, digits and Chinese characters, but not the
// full-width marks around them.
func wordSize(b []byte) int {
	n := 0
	for n < len(b) {
		if b[n] < utf8.RuneSelf {
			if !isWordByte(b[n]) {
				break
			}
			n++
			continue
		}
		r, size := utf8.DecodeRune(b[n:])
		if r < 0x4E00 || r > 0x9FFF {
			break
		}
		n += size
	}
	return n
}

func isNumber(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// What is no ASCII and no part of a word is a full-width mark.

func isBracket(c byte) bool {
	return c >= utf8.RuneSelf || bytes.IndexByte([]byte(`[(<|"{*])>}`), c) >= 0
}

func isBefore(c byte) bool {
	return c >= utf8.RuneSelf || bytes.IndexByte([]byte(" \t[(<|,:=\"-*}]>{"), c) >= 0
}

func isAfter(c byte) bool {
	return c >= utf8.RuneSelf || bytes.IndexByte([]byte(" \t])>|,:=\"-*[({"), c) >= 0
}

func skipSeparators(line []byte, i int) int {
	for i < len(line) && bytes.IndexByte([]byte(" \t])>|,:-*"), line[i]) >= 0 {
		i++
	}
	return i
}
