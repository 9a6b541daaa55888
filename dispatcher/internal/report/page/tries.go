package page

import (
	"strconv"
	"strings"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

// messageShown bounds the message of one attempt, in characters.
const messageShown = 200

// hashShown is how many digits of an answer's hash stand on a large page.
const hashShown = 16

// tries writes every attempt of a store: how it ended and why, from grant to end, where,
// and what proves it.
func (t *table) tries(row *protocol.StoreRow) {
	list := line.Tries(row)
	if len(list) == 0 {
		t.write("–")
		return
	}
	t.write(`<ol>`)
	for i := range list {
		try := &list[i]
		t.write("<li>#" + strconv.Itoa(try.Attempt) + " " + string(both(words.Ended(try))))
		if try.Code != "" {
			t.cell(` · `, words.Visible(string(try.Code)))
		}
		if try.Message != "" && (i < len(list)-1 || row.Error == nil) { // else the row has it beside its outcome
			t.cell(` `, shortenTo(words.Visible(try.Message), messageShown))
		}
		t.cell(` · `, t.span(try))
		t.cell(` · `, words.Visible(try.TerminalID))
		if try.ExitCode != nil {
			t.write(` · exit ` + strconv.Itoa(*try.ExitCode))
		}
		t.proof(try)
		t.write("</li>")
	}
	t.write("</ol>")
}

// span is from the grant to the end; the day of the end is named if it is another one.
func (t *table) span(try *protocol.Try) string {
	from, to := moment(try.GrantedAt, t.zone), moment(try.EndedAt, t.zone)
	if day, _, _ := strings.Cut(from, " "); day != "" {
		to = strings.TrimPrefix(to, day+" ")
	}
	return from + " → " + to
}

func (t *table) proof(try *protocol.Try) {
	if sum := try.SHA256; sum != "" {
		if t.large {
			sum = sum[:hashShown] + "…"
		}
		t.write(` · SHA-256 <code>` + sum + `</code>`)
	}
}
