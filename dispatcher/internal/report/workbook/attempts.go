package workbook

import (
	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

// attemptsSheet has a row for each of the count attempts that the report tells one by one, by
// store id and number. A job has so few for a store that those of all fit on a sheet.
func attemptsSheet(head *protocol.ReportHead, rows rowSeq, count int) sheet {
	var try *protocol.Try
	columns := []storeColumn{
		textColumn("门店编号", "Store", middle, func(r *protocol.StoreRow) string { return r.StoreID }),
		textColumn("门店名称", "Name", wide, func(r *protocol.StoreRow) string { return r.Name }),
		numberColumn("第几次", "Attempt", func(*protocol.StoreRow) *int64 { return whole(try.Attempt) }),
		outcomeColumn("结局", "How it ended", func(*protocol.StoreRow) string { return both(words.Ended(try)) }),
		textColumn("错误代码", "Error code", middle, func(*protocol.StoreRow) string { return string(try.Code) }),
		textColumn("错误说明", "Error message", widest, func(*protocol.StoreRow) string { return try.Message }),
		momentColumn("放行", "Granted", head.TimeZone, func(*protocol.StoreRow) protocol.Time { return try.GrantedAt }),
		momentColumn("开始", "Started", head.TimeZone, func(*protocol.StoreRow) protocol.Time { return try.StartedAt }),
		momentColumn("结束", "Ended", head.TimeZone, func(*protocol.StoreRow) protocol.Time { return try.EndedAt }),
		textColumn("终端", "Terminal", middle, func(*protocol.StoreRow) string { return try.TerminalID }),
		numberColumn("退出码", "Exit code", func(*protocol.StoreRow) *int64 {
			if try.ExitCode == nil {
				return nil
			}
			return whole(*try.ExitCode)
		}),
		numberColumn("结果字节", "Result bytes", func(*protocol.StoreRow) *int64 { return &try.Bytes }),
		textColumn("结果摘要", "Result SHA-256", wide, func(*protocol.StoreRow) string { return try.SHA256 }),
		textColumn("任务编号", "Task", wide, func(r *protocol.StoreRow) string { return r.TaskID }),
	}
	unfolded := picked(rows, (*line.Reader).Evidence, func(r *protocol.StoreRow) bool { return line.Unfolds(head.Targets, r) })
	return storeSheet("各次执行 attempts", columns, count, func(yield func(*protocol.StoreRow, error) bool) {
		if count == 0 { // what the survey found need not be read again
			return
		}
		for row, err := range unfolded {
			if err != nil {
				yield(row, err)
				return
			}
			tries := line.Tries(row)
			for i := range tries {
				if try = &tries[i]; !yield(row, nil) {
					return
				}
			}
		}
	})
}
