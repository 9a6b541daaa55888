package checker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xuri/excelize/v2"

	"muster/internal/protocol"
)

// sheetAttempts is where a workbook has the attempts.
const sheetAttempts = "各次执行 attempts"

// loneUpTo is up to how many stores a workbook has a lone attempt that succeeded, which
// the store's row tells too.
const loneUpTo = 10_000

// tryText is an attempt as files of all kinds tell it.
func tryText(attempt, terminal, code, sha256, bytes string) string {
	return strings.Join([]string{"#" + attempt, terminal, code, short(sha256), bytes}, " ")
}

func tryTexts(tries []protocol.Try) []string {
	texts := []string{}
	for _, t := range tries {
		texts = append(texts, tryText(fmt.Sprint(t.Attempt), t.TerminalID, string(t.Code), t.SHA256, fmt.Sprint(t.Bytes)))
	}
	return texts
}

// csvTries reads the cell of a store's attempts.
func csvTries(cell string) ([]string, error) {
	var tries []protocol.Try
	if cell != "" {
		if err := json.Unmarshal([]byte(cell), &tries); err != nil {
			return nil, fmt.Errorf("the attempts are %q: %w", clip(cell), err)
		}
	}
	return tryTexts(tries), nil
}

// workbookTries gives each store its attempts.
func workbookTries(book *excelize.File, stores map[string]claimRow) error {
	lines, err := book.GetRows(sheetAttempts, excelize.Options{RawCellValue: true})
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return errors.New("the sheet of the attempts has no header")
	}
	header, err := workbookHeader(lines[0], nil)
	if err != nil {
		return err
	}
	tries := map[string][]string{}
	for _, line := range lines[1:] {
		cell := func(name string) string {
			if i, there := header[name]; there && i < len(line) {
				return line[i]
			}
			return ""
		}
		id := cell("Store")
		if _, there := stores[id]; !there {
			return fmt.Errorf("store %q is on the sheet of the attempts alone", id)
		}
		tries[id] = append(tries[id], tryText(cell("Attempt"), cell("Terminal"), cell("Error code"), cell("Result SHA-256"), cell("Result bytes")))
	}
	for id, row := range stores {
		row.tries = append([]string{}, tries[id]...)
		stores[id] = row
	}
	return nil
}

// compareTries: a file has the attempts that the store's row lists; where it lists none, a
// workbook has the one that the row is.
func (b *book) compareTries(tries []string, inCells bool, where Finding, stored Outcome) {
	var row protocol.StoreRow
	if json.Unmarshal([]byte(stored.Row), &row) != nil {
		return // jsonRows says so
	}
	want := row.Tries
	if lone := row.Attempt > 0 && !row.Evidence.GrantedAt.IsZero(); len(want) == 0 && lone && inCells && b.runs[stored.RunID].Targets <= loneUpTo {
		want = []protocol.Try{{Attempt: row.Attempt, TerminalID: row.TerminalID, SHA256: row.SHA256, Bytes: row.Bytes}}
		if row.Error != nil {
			want[0].Code = row.Error.Code
		}
	}
	if texts := tryTexts(want); !slices.Equal(tries, texts) {
		b.broken(where, "it has store %s with the attempts %q, the store has %q", stored.StoreID, tries, texts)
	}
}
