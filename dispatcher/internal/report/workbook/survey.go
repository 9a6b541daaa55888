package workbook

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
	"muster/internal/task"
)

// survey is what a look at all rows finds that a sheet has to know before its first row.
type survey struct {
	moved   int                         // stores of the revisions' sheet
	tries   int                         // attempts that are told one by one
	regions map[string]*protocol.Counts // by label; "" for the stores without one
}

func look(head *protocol.ReportHead, rows rowSeq) (survey, error) {
	found := survey{regions: map[string]*protocol.Counts{}}
	moves := moves{changes: head.Changes}
	var in line.Reader
	for raw, err := range rows {
		if err != nil {
			return found, err
		}
		row, err := in.Evidence(raw)
		if err != nil {
			return found, err
		}
		if moves.of(row) {
			found.moved++
		}
		counts := found.regions[row.Labels[words.RegionLabel]]
		if counts == nil {
			counts = &protocol.Counts{}
			found.regions[strings.Clone(row.Labels[words.RegionLabel])] = counts
		}
		counts.Add(row.Outcome)
		if line.Unfolds(head.Targets, row) {
			if row, err = in.Read(raw); err != nil {
				return found, err
			}
			found.tries += len(line.Tries(row))
		}
	}
	return found, nil
}

// moves tells of one store after the other, in the order of their ids, whether it answered
// after the barrier or differs from the revision before.
type moves struct {
	changes []protocol.Change // not yet met
	change  *protocol.Change  // of the last store; nil: as before
}

func (m *moves) of(row *protocol.StoreRow) bool {
	for len(m.changes) > 0 && m.changes[0].StoreID < row.StoreID {
		m.changes = m.changes[1:]
	}
	m.change = nil
	if len(m.changes) > 0 && m.changes[0].StoreID == row.StoreID {
		m.change = &m.changes[0]
	}
	return row.Late || m.change != nil
}

// revisionsSheet has the stores whose row is another one than at the barrier, with what
// this revision changed.
func revisionsSheet(head *protocol.ReportHead, rows rowSeq, count int) sheet {
	moves := moves{changes: head.Changes}
	before := func(of func(*protocol.Change) string) func(*protocol.StoreRow) string {
		return func(*protocol.StoreRow) string {
			if moves.change == nil {
				return ""
			}
			return of(moves.change)
		}
	}
	columns := []storeColumn{
		textColumn("门店编号", "Store", middle, func(r *protocol.StoreRow) string { return r.StoreID }),
		textColumn("门店名称", "Name", wide, func(r *protocol.StoreRow) string { return r.Name }),
		outcomeColumn("截止时结果", "At the barrier", func(r *protocol.StoreRow) string { return both(words.Outcome(r.AtBarrier)) }),
		outcomeColumn("上一版结果", "In the revision before", before(func(c *protocol.Change) string { return both(words.Outcome(c.From)) })),
		textColumn("上一版原因代码", "Reason code before", wide, before(func(c *protocol.Change) string { return string(c.FromReason) })),
		outcomeColumn("结果", "Outcome", func(r *protocol.StoreRow) string { return both(words.Outcome(r.Outcome)) }),
		textColumn("原因代码", "Reason code", wide, func(r *protocol.StoreRow) string { return string(r.Reason) }),
		textColumn("补传", "Late", narrow, func(r *protocol.StoreRow) string { return both(words.YesNo(r.Late)) }),
		textColumn("本版变化", "Changed by this revision", middle, func(*protocol.StoreRow) string { return both(words.YesNo(moves.change != nil)) }),
		momentColumn("结束", "Finished", head.TimeZone, func(r *protocol.StoreRow) protocol.Time { return r.FinishedAt }),
		numberColumn("已用次数", "Attempts used", func(r *protocol.StoreRow) *int64 { return whole(r.Evidence.Attempts) }),
	}
	return storeSheet("补传与版本 revisions", columns, count, picked(rows, (*line.Reader).Verdict, moves.of))
}

// regionsSheet counts the stores by their label.
func regionsSheet(regions map[string]*protocol.Counts) sheet {
	s := sheet{name: "地区 regions", rows: len(regions), filter: true, columns: []sheetColumn{{title: words.Of("地区", "Region"), width: wide}}}
	for _, outcome := range task.Outcomes() {
		s.columns = append(s.columns, sheetColumn{title: words.Outcome(outcome), width: narrow})
	}
	s.columns = append(s.columns, sheetColumn{title: words.Of("目标合计", "Targets"), width: narrow}, sheetColumn{title: words.Of("成功率", "Succeeded, of all"), width: narrow})
	s.fill = func(c *cells) error {
		last := func(name string) int {
			if name == "" {
				return 1
			}
			return 0
		}
		names := slices.SortedFunc(maps.Keys(regions), func(a, b string) int { return cmp.Or(last(a)-last(b), strings.Compare(a, b)) })
		for i, name := range names {
			c.begin(i + 2)
			c.plain(cmp.Or(name, both(words.NoRegion())))
			counts := regions[name]
			for _, b := range words.Buckets(*counts) {
				c.integer(int64(b.Count))
			}
			c.integer(int64(counts.Sum()))
			c.share(words.Share(counts.Succeeded, counts.Sum()))
			c.end()
		}
		return nil
	}
	return s
}

// metadataSheet tells of what run and revision the workbook is, what its columns are, and
// how it is written.
func metadataSheet(head *protocol.ReportHead) sheet {
	lines := []summaryLine{
		textLine("格式", "schema", head.Schema), textLine("编号", "run", head.RunID), textLine("作业", "job", head.Job),
		numberLine("作业版本", "job version", head.JobVersion), numberLine("版本", "revision", head.Revision),
		textLine("版本原因代码", "revision reason code", string(head.RevisionWhy)), textLine("结论代码", "verdict code", string(head.Verdict)),
		textLine("发起人", "asked by", head.RequestedBy), textLine("批准人", "approved by", cmp.Or(head.ApprovedBy, both(words.NoApproval()))), textLine("事由", "because", head.Reason),
		textLine("输入", "input", string(head.Input)),
		momentLine("发起时间", "asked at", head.CreatedAt), momentLine("截止时间", "barrier", head.BarrierAt), momentLine("截至", "as of", head.AsOf),
		textLine("时区", "time zone", head.TimeZone),
	}
	for i := range head.Columns {
		c := &head.Columns[i]
		said := []string{c.Pointer, string(c.Type), c.Unit, c.UnitZh}
		for _, a := range c.Aggregate {
			said = append(said, string(a))
		}
		said = slices.DeleteFunc(said, func(s string) bool { return s == "" })
		lines = append(lines, textLine("作业列", "column "+c.Name, strings.Join(said, " ")))
	}
	return linesSheet("元数据 metadata", append(lines, textLine("写法", "how it is written", Rules)))
}
