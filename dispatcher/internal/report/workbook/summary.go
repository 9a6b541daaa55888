package workbook

import (
	"cmp"
	"strconv"

	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

// summaryLine is a line of the summary: what it is about, its value, and its
// share of the targets. To put means one cell, written or left out.
type summaryLine struct {
	about words.Pair
	put   func(*cells)
	share func(*cells) // nil: the line has none
}

// summarySheet tells what the report amounts to. cut is read when the sheet is
// written: cells that were cut in the others.
func summarySheet(head *protocol.ReportHead, cut *int) sheet {
	lines := append(countLines(head), runLines(head)...)
	return linesSheet("汇总 summary", append(lines, summaryLine{about: words.Of("被截断的单元格", "cells that were cut"),
		put: func(c *cells) { c.integer(int64(*cut + c.cut)) }}))
}

func linesSheet(name string, lines []summaryLine) sheet {
	return sheet{name: name, rows: len(lines),
		columns: []sheetColumn{{title: words.Of("项目", "Item"), width: widest, coloured: true}, {title: words.Of("值", "Value"), width: 2 * widest, coloured: true},
			{title: words.Of("占比", "Share"), width: narrow}},
		fill: func(c *cells) error {
			for i, line := range lines {
				c.begin(i + 2)
				c.plain(both(line.about))
				line.put(c)
				if line.share != nil {
					line.share(c)
				}
				c.end()
			}
			return nil
		}}
}

func countLines(head *protocol.ReportHead) []summaryLine {
	lines := []summaryLine{
		textLine("结论", "verdict", both(words.Verdict(head.Verdict))),
		textLine("说明", "in a sentence", head.TextZh),
		textLine("说明（英文）", "in a sentence (English)", head.Text),
	}
	count := func(about words.Pair, n, of int) {
		lines = append(lines, summaryLine{about, func(c *cells) { c.integer(int64(n)) },
			func(c *cells) { c.share(words.Share(of, head.Targets)) }})
	}
	for _, b := range words.Buckets(head.Counts) {
		count(words.Outcome(b.Outcome), b.Count, b.Count)
	}
	count(words.Of("目标合计", "targets"), head.Targets, head.Counts.Sum())
	rate := func(zh, en string, part *float64) {
		lines = append(lines, summaryLine{words.Of(zh, en), (*cells).none, func(c *cells) { c.share(part) }})
	}
	rate("成功率", "succeeded, of all", head.Rates.Succeeded)
	rate("应答率", "answered, of all", head.Rates.Answered)
	rate("应答中的成功率", "succeeded, of those that answered", head.Rates.SucceededOfAnswered)
	rate("要求的成功率", "asked for by the job", &head.Quorum)
	return lines
}

func runLines(head *protocol.ReportHead) []summaryLine {
	lines := []summaryLine{
		textLine("编号", "run", head.RunID),
		numberLine("版本", "revision", head.Revision),
		textLine("版本原因", "why this revision", both(words.Why(head.RevisionWhy))),
	}
	if head.Supersedes != nil {
		before := strconv.Itoa(*head.Supersedes)
		lines = append(lines, numberLine("与 r"+before+" 不同的门店", "stores changed since r"+before, len(head.Changes)))
	}
	if p := head.Previous; p != nil {
		lines = append(lines, textLine("上一批", "the job's run before", p.RunID+" r"+strconv.Itoa(p.Revision)),
			momentLine("上一批截至", "the run before, as of", p.AsOf), numberLine("上一批成功", "succeeded in the run before", p.Counts.Succeeded),
			numberLine("上一批目标", "targets of the run before", p.Targets), numberLine("两批共有", "stores in both", p.Common),
			numberLine("新缺席", "newly missing", p.NewlyMissing), numberLine("恢复", "recovered", p.Recovered))
	}
	return append(lines,
		textLine("作业", "job", head.Job), textLine("发起人", "asked by", head.RequestedBy), textLine("批准人", "approved by", cmp.Or(head.ApprovedBy, both(words.NoApproval()))),
		textLine("事由", "because", head.Reason),
		momentLine("发起时间", "asked at", head.CreatedAt), momentLine("截止时间", "barrier", head.BarrierAt), momentLine("截至", "as of", head.AsOf),
		textLine("时区", "time zone", head.TimeZone))
}

func textLine(zh, en, text string) summaryLine {
	return summaryLine{about: words.Of(zh, en), put: func(c *cells) {
		if text == "" {
			c.none()
			return
		}
		c.text(c.styles.wrapped, text)
	}}
}

func numberLine(zh, en string, n int) summaryLine {
	return summaryLine{about: words.Of(zh, en), put: func(c *cells) { c.integer(int64(n)) }}
}

func momentLine(zh, en string, at protocol.Time) summaryLine {
	return summaryLine{about: words.Of(zh, en), put: func(c *cells) { c.moment(at) }}
}
