package find

import (
	"regexp"
	"strconv"
	"sync"
)

type keyForms struct{ begin, end, putty *regexp.Regexp }

var keyForm = sync.OnceValue(func() keyForms {
	return keyForms{
		begin: regexp.MustCompile(`-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-{4,5}`),
		end:   regexp.MustCompile(`-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-{4,5}`),
		putty: regexp.MustCompile(`Private-Lines:[ \t]*([0-9]{1,4})[ \t]*\n`),
	}
})

// privateKeys notes the inside of private keys. One without an end takes the rest of the text.
func (f *finder) privateKeys() {
	form := keyForm()
	for i := 0; i < len(f.text); {
		begin := form.begin.FindStringIndex(f.text[i:])
		if begin == nil {
			break
		}
		begin[1] += i
		i = len(f.text)
		if at := form.end.FindStringIndex(f.text[begin[1]:]); at != nil {
			i = begin[1] + at[0]
		}
		f.add(begin[1], i)
	}
	done := 0
	for _, at := range form.putty.FindAllStringSubmatchIndex(f.text, -1) {
		lines, err := strconv.Atoi(f.text[at[2]:at[3]])
		if err != nil || at[1] < done {
			continue
		}
		end := at[1]
		for range lines {
			end = min(len(f.text), end+len(lineAt(f.text, min(end, len(f.text))))+1)
		}
		f.add(at[1], end)
		done = end
	}
}
