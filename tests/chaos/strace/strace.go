// Package strace runs a program under strace(1) and reads what it wrote: which
// system calls a program made, on which files, with which bytes, and in which
// order over all its threads.
//
// It changes no program: whoever is looked at does not know. Where ptrace is not
// permitted the test is skipped.
package strace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"muster/tests/programs"
)

// maxLine bounds one line, in bytes: a page of a database, each byte as \ooo.
const maxLine = 1 << 20

// Needs skips the test where strace is not there or may not trace.
func Needs(t testing.TB) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "strace", "-f", "-o", filepath.Join(t.TempDir(), "probe"), "true").CombinedOutput(); err != nil {
		programs.Lack(t, "strace cannot trace: %v %s", err, out)
	}
}

// Run gives the command line that runs command under strace, which writes to
// file. The program stays the direct child, so that a kill meets it.
func Run(file string, options, command []string) []string {
	line := append([]string{"strace", "-D", "-f", "-yy", "-o", file}, options...)
	return append(line, command...)
}

// Attach gives the command line that traces a running process.
func Attach(file string, options []string, pid int) []string {
	return append([]string{"strace", "-f", "-yy", "-o", file, "-p", strconv.Itoa(pid)}, options...)
}

// Call is one system call. Begin and End are the lines at which it was entered
// and had returned: what ends before another begins was done before it. End is 0
// when it never returned.
type Call struct {
	PID        int
	Begin, End int
	Name, Args string
	Return     string // with the error's name; "" when it never returned
}

var (
	whole   = regexp.MustCompile(`^(\w+)\((.*)\)\s+= (.*)$`)
	entered = regexp.MustCompile(`^(\w+)\((.*?)\s*(?:<unfinished \.\.\.>|\(INJECTED\))?$`)
	resumed = regexp.MustCompile(`^<\.\.\. (\w+) resumed>(.*)\)\s+= (.*)$`)
)

// Parse reads the output of strace -f -o.
func Parse(r io.Reader) ([]Call, error) {
	var calls []Call
	open := map[int]int{} // pid: index of the call that has not returned
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine)
	for line := 1; scan.Scan(); line++ {
		head, text, _ := strings.Cut(scan.Text(), " ")
		pid, err := strconv.Atoi(head)
		if err != nil {
			return nil, fmt.Errorf("cannot read line %d of a trace: no process id in %.80q", line, scan.Text())
		}
		text = strings.TrimSpace(text)
		if m := resumed.FindStringSubmatch(text); m != nil {
			if i, known := open[pid]; known && calls[i].Name == m[1] {
				calls[i].Args, calls[i].Return, calls[i].End = calls[i].Args+m[2], m[3], line
				delete(open, pid)
			}
		} else if m := whole.FindStringSubmatch(text); m != nil {
			calls = append(calls, Call{PID: pid, Begin: line, End: line, Name: m[1], Args: m[2], Return: m[3]})
		} else if m := entered.FindStringSubmatch(text); m != nil {
			open[pid] = len(calls)
			calls = append(calls, Call{PID: pid, Begin: line, Name: m[1], Args: m[2]})
		} // else a signal, or an exit
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("cannot read a trace: %w", err)
	}
	return calls, nil
}

// Path is the file of the first descriptor, "TCP:[a->b]" for a connection, ""
// when there is none.
func (c Call) Path() string {
	number, rest, ok := strings.Cut(c.Args, "<")
	if _, err := strconv.Atoi(number); !ok || err != nil {
		return ""
	}
	if strings.HasPrefix(rest, "TCP:[") {
		path, _, _ := strings.Cut(rest, "]>")
		return path + "]"
	}
	path, _, _ := strings.Cut(rest, ">")
	return path
}

// OK says whether the call returned without an error.
func (c Call) OK() bool {
	return c.End > 0 && !strings.HasPrefix(c.Return, "-1") && !strings.HasPrefix(c.Return, "?")
}

// Data joins the strings among the arguments: the bytes of a write.
func (c Call) Data() []byte {
	var b bytes.Buffer
	for rest := c.Args; ; {
		_, text, found := strings.Cut(rest, `"`)
		if !found {
			return b.Bytes()
		}
		rest = unescape(&b, text)
	}
}

// unescape writes what stands before the closing quote, and returns what is
// behind it. Octal numbers have up to three digits.
func unescape(b *bytes.Buffer, text string) (rest string) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return text[i+1:]
		case text[i] != '\\' || i+1 == len(text):
			b.WriteByte(text[i])
		case text[i+1] >= '0' && text[i+1] <= '7':
			value := byte(0)
			for n := 0; n < 3 && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '7'; n++ {
				value, i = value<<3|(text[i+1]-'0'), i+1
			}
			b.WriteByte(value)
		default:
			i++
			if at := strings.IndexByte("tnvfr", text[i]); at >= 0 {
				b.WriteByte("\t\n\v\f\r"[at])
			} else {
				b.WriteByte(text[i])
			}
		}
	}
	return ""
}
