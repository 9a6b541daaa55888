package workbook

import (
	"encoding/json"
	"iter"
	"strings"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Widths in characters.
const (
	narrow = 12
	middle = 18
	wide   = 24
	widest = 40
)

// storeColumn is a column of the stores: its header, and what stands in it. To
// put means one cell, written or left out.
type storeColumn struct {
	sheetColumn
	put func(*cells, *protocol.StoreRow)
}

func storesSheet(head *protocol.ReportHead, rows rowSeq) sheet {
	return storeSheet("门店 stores", storeColumns(head), head.Targets, picked(rows, (*line.Reader).Verdict, nil))
}

// missingSheet has the stores that did not succeed, as everywhere in a report.
func missingSheet(head *protocol.ReportHead, rows rowSeq) sheet {
	return storeSheet("未成功 missing", missingColumns(head), head.Targets-head.Counts.Succeeded, picked(rows, (*line.Reader).Verdict,
		func(row *protocol.StoreRow) bool { return row.Outcome != task.OutcomeSucceeded }))
}

// storeSheet has so many lines, each of a store.
func storeSheet(name string, columns []storeColumn, count int, lines lineSeq) sheet {
	s := sheet{name: name, rows: count, filter: true}
	for _, column := range columns {
		s.columns = append(s.columns, column.sheetColumn)
	}
	s.fill = func(c *cells) error {
		number := 1
		for row, err := range lines {
			if err != nil {
				return err
			}
			number++
			c.begin(number)
			for _, column := range columns {
				column.put(c, row)
			}
			c.end()
		}
		return nil
	}
	return s
}

// lineSeq are the stores of a sheet's lines, each valid until the next.
type lineSeq = iter.Seq2[*protocol.StoreRow, error]

// picked are the stores that belong there, which the part of their row that look reads
// tells; nil: all.
func picked(rows rowSeq, look func(*line.Reader, json.RawMessage) (*protocol.StoreRow, error), belongs func(*protocol.StoreRow) bool) lineSeq {
	return func(yield func(*protocol.StoreRow, error) bool) {
		var in line.Reader
		for raw, err := range rows {
			var row *protocol.StoreRow
			if err == nil && belongs != nil {
				if row, err = look(&in, raw); err == nil && !belongs(row) {
					continue
				}
			}
			if err == nil {
				row, err = in.Read(raw)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func storeColumns(head *protocol.ReportHead) []storeColumn {
	list := verdictColumns()
	for i, column := range head.Columns {
		list = append(list, jobColumn(i, column))
	}
	list = append(list,
		outcomeColumn("截止时结果", "At the barrier", func(r *protocol.StoreRow) string { return both(words.Outcome(r.AtBarrier)) }),
		textColumn("补传", "Late", narrow, func(r *protocol.StoreRow) string { return both(words.YesNo(r.Late)) }))
	list = append(list, evidenceColumns(head.TimeZone)...)
	return append(list,
		textColumn("任务编号", "Task", wide, func(r *protocol.StoreRow) string { return r.TaskID }),
		textColumn("状态", "Status", narrow, func(r *protocol.StoreRow) string { return string(r.Status) }),
		numberColumn("第几次", "Attempt", func(r *protocol.StoreRow) *int64 { return whole(r.Attempt) }),
		numberColumn("结果字节", "Result bytes", func(r *protocol.StoreRow) *int64 { return &r.Bytes }),
		textColumn("结果摘要", "Result SHA-256", wide, func(r *protocol.StoreRow) string { return r.SHA256 }),
		textColumn("标签", "Labels", wide, func(r *protocol.StoreRow) string { return line.Labels(r.Labels) }))
}

func missingColumns(head *protocol.ReportHead) []storeColumn {
	list := append(verdictColumns(), evidenceColumns(head.TimeZone)...)
	return append(list, textColumn("标签", "Labels", wide, func(r *protocol.StoreRow) string { return line.Labels(r.Labels) }))
}

func verdictColumns() []storeColumn {
	failure := func(r *protocol.StoreRow) protocol.Failure {
		if r.Error == nil {
			return protocol.Failure{}
		}
		return *r.Error
	}
	return []storeColumn{
		textColumn("门店编号", "Store", middle, func(r *protocol.StoreRow) string { return r.StoreID }),
		textColumn("门店名称", "Name", wide, func(r *protocol.StoreRow) string { return r.Name }),
		outcomeColumn("结果", "Outcome", func(r *protocol.StoreRow) string { return both(words.Outcome(r.Outcome)) }),
		textColumn("原因", "Reason", widest, func(r *protocol.StoreRow) string { return both(words.Reason(r.Reason)) }),
		textColumn("原因代码", "Reason code", wide, func(r *protocol.StoreRow) string { return string(r.Reason) }),
		textColumn("错误代码", "Error code", middle, func(r *protocol.StoreRow) string { return string(failure(r).Code) }),
		textColumn("错误位置", "Error path", middle, func(r *protocol.StoreRow) string { return failure(r).Path }),
		textColumn("错误说明", "Error message", widest, func(r *protocol.StoreRow) string { return failure(r).Message }),
		textColumn("错误详情", "Error detail", widest, func(r *protocol.StoreRow) string { return failure(r).Tail(protocol.MaxOutputTailBytes) }),
	}
}

func evidenceColumns(zone string) []storeColumn {
	return []storeColumn{
		textColumn("在线", "Online", narrow, func(r *protocol.StoreRow) string { return both(words.YesNo(r.Evidence.Online)) }),
		numberColumn("已用次数", "Attempts used", func(r *protocol.StoreRow) *int64 { return whole(r.Evidence.Attempts) }),
		numberColumn("允许次数", "Attempts allowed", func(r *protocol.StoreRow) *int64 { return whole(r.Evidence.AttemptsOf) }),
		momentColumn("最后在线", "Last seen", zone, func(r *protocol.StoreRow) protocol.Time { return r.Evidence.LastSeenAt }),
		momentColumn("领取", "Claimed", zone, func(r *protocol.StoreRow) protocol.Time { return r.Evidence.ClaimedAt }),
		momentColumn("放行", "Granted", zone, func(r *protocol.StoreRow) protocol.Time { return r.Evidence.GrantedAt }),
		momentColumn("开始", "Started", zone, func(r *protocol.StoreRow) protocol.Time { return r.Evidence.StartedAt }),
		momentColumn("最后信号", "Last sign", zone, func(r *protocol.StoreRow) protocol.Time { return r.Evidence.LastSignAt }),
		momentColumn("结果待传", "Ready", zone, func(r *protocol.StoreRow) protocol.Time { return r.Evidence.ReadyAt }),
		momentColumn("结束", "Finished", zone, func(r *protocol.StoreRow) protocol.Time { return r.FinishedAt }),
		numberColumn("时钟偏差毫秒", "Clock skew ms", func(r *protocol.StoreRow) *int64 { return r.Evidence.ClockSkewMs }),
		textColumn("终端", "Terminal", middle, func(r *protocol.StoreRow) string { return r.TerminalID }),
	}
}

func textColumn(zh, en string, width float64, of func(*protocol.StoreRow) string) storeColumn {
	return storeColumn{sheetColumn{title: words.Of(zh, en), width: width}, func(c *cells, r *protocol.StoreRow) { c.plain(of(r)) }}
}

func outcomeColumn(zh, en string, of func(*protocol.StoreRow) string) storeColumn {
	column := textColumn(zh, en, middle, of)
	column.coloured = true
	return column
}

func momentColumn(zh, en, zone string, of func(*protocol.StoreRow) protocol.Time) storeColumn {
	return storeColumn{sheetColumn{title: words.Of(zh, en+" ("+zone+")"), width: wide},
		func(c *cells, r *protocol.StoreRow) { c.moment(of(r)) }}
}

func numberColumn(zh, en string, of func(*protocol.StoreRow) *int64) storeColumn {
	return storeColumn{sheetColumn{title: words.Of(zh, en), width: narrow}, func(c *cells, r *protocol.StoreRow) {
		if n := of(r); n != nil {
			c.integer(*n)
			return
		}
		c.none()
	}}
}

func jobColumn(i int, column protocol.Column) storeColumn {
	return storeColumn{sheetColumn{title: words.Titled(&column), width: middle},
		func(c *cells, r *protocol.StoreRow) {
			if i < len(r.Columns) {
				c.typed(column.Type, r.Columns[i])
				return
			}
			c.none()
		}}
}

func both(w words.Pair) string { return strings.TrimSpace(w.Zh + " " + w.En) }

func whole(n int) *int64 {
	wide := int64(n)
	return &wide
}
