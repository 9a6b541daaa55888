package find

import (
	"regexp"
	"strings"
	"sync"
)

// passwordOption is an option by which a command takes a password as its next word or, where attached, without a space.
type passwordOption struct {
	command, flag string
	attached      bool
}

func passwordOptions() []passwordOption {
	return []passwordOption{
		{"sshpass", "-p", true}, {"sqlcmd", "-P", true}, {"isql", "-P", true}, {"osql", "-P", true}, {"mosquitto_pub", "-P", false},
		{"mosquitto_sub", "-P", false}, {"redis-cli", "-a", false}, {"psexec", "-p", false}, {"unzip", "-P", false},
		{"mongosh", "-p", false}, {"mongodump", "-p", false}, {"mongorestore", "-p", false}, {"ldapsearch", "-w", false},
	}
}

// option is the password that the command whose name ends at end takes.
func (f *finder) option(end int) (start, until int) {
	const longest = len("mosquitto_pub")
	name := strings.ToLower(f.text[max(0, end-longest):end])
	for _, o := range passwordOptions() {
		begin := end - len(o.command)
		if strings.HasSuffix(name, o.command) && (begin == 0 || !isWordByte(f.text[begin-1])) {
			return f.optionValue(end, o)
		}
	}
	switch {
	case strings.HasSuffix(name, "net user") && f.beginsCommand(end-len("net user")):
		return f.matched(netUser(), end)
	case strings.HasSuffix(name, "net use"):
		return f.matched(netUse(), end)
	}
	return 0, 0
}

// optionValue looks for the option in what follows the command on its line.
func (f *finder) optionValue(end int, o passwordOption) (start, until int) {
	const window = 512
	part := f.text[end:min(len(f.text), end+window)]
	f.work -= len(part) / 4
	if at := strings.IndexAny(part, "\n|;"); at >= 0 {
		part = part[:at]
	}
	for i := 0; ; {
		at := strings.Index(part[i:], o.flag)
		if at < 0 {
			return 0, 0
		}
		start, i = i+at, i+at+len(o.flag)
		after := skipSpaces(part, i)
		if start == 0 || strings.IndexByte(" \t\"'", part[start-1]) < 0 || after == len(part) || after == i && !o.attached {
			continue
		}
		start = end + after
		inner, until, ok := f.quotedAt(start)
		if !ok {
			inner, until = start, f.wordEnd(start)
		}
		if word := f.text[inner:until]; strings.HasPrefix(word, "$(") || strings.HasPrefix(word, "${") {
			return 0, 0 // where the password is, not the password
		}
		return inner, until
	}
}

// beginsCommand reports whether a command may begin at i: at the start of a line, behind a prompt or another command.
func (f *finder) beginsCommand(i int) bool {
	for i > 0 && (f.text[i-1] == ' ' || f.text[i-1] == '\t') {
		i--
		f.work--
	}
	return i == 0 || strings.IndexByte("\n>&|;\"'`$#(", f.text[i-1]) >= 0 || strings.EqualFold(f.text[max(0, i-2):i], "/c")
}

var netUser = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s+[^\s/]\S*\s+([^\s/*]\S*)(?:\s+/\S+)*\s*(?:$|[&|;"'])`)
})

var netUse = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\s.*?(?:/user:\S+\s+([^\s/*]\S*)|\s\\\\\S+\s+([^\s/*]\S*)\s+/user:)`)
})
