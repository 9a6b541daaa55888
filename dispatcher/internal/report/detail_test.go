package report_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/internal/task"
)

// failedWith is the only store of a report, in each of its formats.
func failedWith(t *testing.T, failure protocol.Failure) (csv map[string]string, page string, xlsx book) {
	t.Helper()
	only := row("A", "店", task.OutcomeFailed, task.ReasonExecutionError)
	only.Error = &failure
	r, rows := setup(t), rowsOf(t, only)
	h := build(t, r, head(1), rows, nil)
	lines := readCSV(t, write(t, r, "csv", h, rows))
	csv = map[string]string{}
	for i, name := range lines[0] {
		csv[name] = lines[1][i]
	}
	return csv, write(t, r, "html", h, rows), readXLSX(t, write(t, r, "xlsx", h, rows))
}

// TestWhatTheProgramSaidStandsInEveryFormat, where nothing of it acts.
func TestWhatTheProgramSaidStandsInEveryFormat(t *testing.T) {
	t.Parallel()
	const said = "打印机缺纸\r\n=1+1\n007\n\tat <b>\u202egpj.exe\x1b[2J"
	csv, page, xlsx := failedWith(t, protocol.Failure{Code: protocol.CodeExecution, Message: "the program ended with exit status 3", Detail: said})
	if cell := csv["error_detail"]; unguard(cell) != strings.ReplaceAll(said, "\r\n", "\n") || !strings.Contains(cell, "\n'=1+1\n'007\n'\tat") {
		t.Errorf("CSV %q", cell)
	}
	for _, sheet := range []int{storesSheet, missingSheet} {
		if cell := xlsx.under(sheet, "Error detail", 1); cell.show() != strconv.Quote("打印机缺纸\n=1+1\n007\n    at <b>[U+202E]gpj.exe␛[2J") {
			t.Errorf("XLSX %s", cell.show())
		}
	}
	const want = `<samp><bdi>打印机缺纸</bdi><br/><bdi>=1&#43;1</bdi><br/><bdi>007</bdi><br/><bdi>    at &lt;b&gt;[U&#43;202E]gpj.exe␛[2J</bdi></samp>`
	if !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
	for _, nothing := range []string{"", " \r\n\t"} {
		if _, page, _ := failedWith(t, protocol.Failure{Code: protocol.CodeExecution, Message: "x", Detail: nothing}); strings.Contains(page, "<samp>") {
			t.Errorf("the page shows a detail of %q", nothing)
		}
	}
}

// TestOfALongDetailThePageHasTheEnd, counted in characters.
func TestOfALongDetailThePageHasTheEnd(t *testing.T) {
	t.Parallel()
	said := strings.Repeat("店", 1200) + "\nthe cause"
	csv, page, _ := failedWith(t, protocol.Failure{Code: protocol.CodeExecution, Detail: said})
	want := "<samp><bdi>[1210] … " + strings.Repeat("店", 490) + "</bdi><br/><bdi>the cause</bdi></samp>"
	if csv["error_detail"] != said || !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
}

// TestAFaultNamesItsPlaceOnce on the page, whether its message names it or not.
func TestAFaultNamesItsPlaceOnce(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"/free: must be integer, not text\n/host: is missing": "<bdi>INVALID_RESULT /free: must be integer, not text␊/host: is missing</bdi>",
		"must be integer":  "<bdi>INVALID_RESULT /free must be integer</bdi>",
		"/freeMb: is text": "<bdi>INVALID_RESULT /free /freeMb: is text</bdi>",
	} {
		if _, page, _ := failedWith(t, protocol.Failure{Code: protocol.CodeInvalidResult, Path: "/free", Message: message}); !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestARefusedAnswerIsNoSuccess in the list of attempts, on the page and in the workbook.
func TestARefusedAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	refused := row("A", "店", task.OutcomeFailed, task.ReasonInvalidResult)
	refused.Attempt, refused.Status, refused.TerminalID = 1, task.Failed, "pos-1"
	refused.Tries = []protocol.Try{{Attempt: 1, TerminalID: "pos-1", GrantedAt: at(6), EndedAt: at(9), Answer: protocol.AnswerSucceeded, Code: protocol.CodeInvalidResult, Message: "is text"}}
	r, rows := setup(t), rowsOf(t, refused, row("B", "店", task.OutcomeSucceeded, ""))
	h := build(t, r, head(2), rows, nil)
	page := write(t, r, "html", h, rows)
	for _, want := range []string{`<li>#1 <span lang="zh">结果未被接受</span> <span lang="en">answer refused</span> · INVALID_RESULT`, `<li>#1 <span lang="zh">成功</span> <span lang="en">succeeded</span> · `} {
		if strings.Count(page, want) != 1 {
			t.Errorf("the page has not one %s", want)
		}
	}
	xlsx := readXLSX(t, write(t, r, "xlsx", h, rows))
	ended := []string{xlsx.under(attemptsSheet, "How it ended", 1).show(), xlsx.under(attemptsSheet, "How it ended", 2).show()}
	if !slices.Equal(ended, []string{`"结果未被接受 answer refused"`, `"成功 succeeded"`}) {
		t.Errorf("the workbook says %v", ended)
	}
}

func TestWhoApprovedIsSaidAlikeOnThePageAndInTheWorkbook(t *testing.T) {
	t.Parallel()
	for by, want := range map[string][2]string{
		"":     {`<span lang="zh">无需批准</span> <span lang="en">nobody had to</span>`, `"无需批准 nobody had to"`},
		"chen": {"<bdi>chen</bdi>", `"chen"`},
	} {
		r, rows := setup(t), rowsOf(t, row("A", "店", task.OutcomeSucceeded, ""))
		h := head(1)
		h.ApprovedBy = by
		h = build(t, r, h, rows, nil)
		if page := write(t, r, "html", h, rows); !strings.Contains(page, `<span lang="en">approved by</span></dt><dd>`+want[0]+"</dd>") {
			t.Errorf("the page does not say %s", want[0])
		}
		xlsx := readXLSX(t, write(t, r, "xlsx", h, rows))
		metadata := fmt.Sprint(xlsx.sheets[metadataSheet])
		for _, line := range xlsx.sheets[metadataSheet] {
			if strings.HasSuffix(line.cell("A").show(), ` approved by"`) {
				metadata = line.cell("B").show()
			}
		}
		if summary := xlsx.summary("approved by"); summary != want[1] || metadata != want[1] {
			t.Errorf("the workbook says %s and %s, want %s", summary, metadata, want[1])
		}
	}
}
