package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"muster/dispatcher/internal/report/line"
	"muster/internal/protocol"
)

// csvColumns is the header of every CSV report; the job's columns follow it as
// "job." and their name.
func csvColumns() []string {
	return []string{"store_id", "name", "outcome", "reason", "outcome_at_barrier", "late", "online",
		"last_seen_at", "claimed_at", "granted_at", "started_at", "last_sign_at", "ready_at", "finished_at",
		"attempts_used", "attempts_allowed", "clock_skew_ms", "terminal_id", "task_id", "status", "attempt",
		"result_bytes", "result_sha256", "error_code", "error_path", "error_message", "labels", "attempts", "error_detail"}
}

// CSV writes the report for exchange: one header line, then one row a store.
func CSV(w io.Writer, head protocol.ReportHead, rows Rows) error {
	out := &csvWriter{out: bufio.NewWriter(w)}
	_, _ = out.out.WriteString("\ufeff")
	for _, name := range csvColumns() {
		out.cell(name)
	}
	for _, column := range head.Columns {
		out.cell(textCell("job." + column.Name))
	}
	out.end()
	var in line.Reader
	for raw, err := range rows {
		if err != nil {
			return err
		}
		row, err := in.Read(raw)
		if err != nil {
			return err
		}
		if err := out.row(row); err != nil {
			return err
		}
	}
	if err := out.out.Flush(); err != nil { // bufio keeps the first error
		return fmt.Errorf("cannot write a report as CSV: %w", err)
	}
	return nil
}

// csvWriter writes by RFC 4180. The standard library's writer drops a lone
// carriage return inside a cell when lines end with CRLF.
type csvWriter struct {
	out  *bufio.Writer
	cols int
}

func (c *csvWriter) row(row *protocol.StoreRow) error {
	e := &row.Evidence
	c.cell(nameCell(row.StoreID))
	c.cell(nameCell(row.Name))
	for _, text := range []string{string(row.Outcome), string(row.Reason), string(row.AtBarrier)} {
		c.cell(textCell(text))
	}
	c.cell(strconv.FormatBool(row.Late))
	c.cell(strconv.FormatBool(e.Online))
	for _, at := range []protocol.Time{e.LastSeenAt, e.ClaimedAt, e.GrantedAt, e.StartedAt, e.LastSignAt, e.ReadyAt, row.FinishedAt} {
		c.cell(line.Moment(at))
	}
	c.cell(strconv.Itoa(e.Attempts))
	c.cell(strconv.Itoa(e.AttemptsOf))
	c.cell(intCell(e.ClockSkewMs))
	c.cell(nameCell(row.TerminalID))
	c.cell(nameCell(row.TaskID))
	c.cell(textCell(string(row.Status)))
	c.cell(strconv.Itoa(row.Attempt))
	c.cell(strconv.FormatInt(row.Bytes, 10))
	c.cell(textCell(row.SHA256))
	failure := protocol.Failure{}
	if row.Error != nil {
		failure = *row.Error
	}
	for _, text := range []string{string(failure.Code), failure.Path, failure.Message, line.Labels(row.Labels)} {
		c.cell(textCell(text))
	}
	tries, err := triesCell(row.Tries)
	if err != nil {
		return err
	}
	c.cell(tries)
	c.cell(textCell(failure.Detail))
	for _, value := range row.Columns {
		c.cell(valueCell(value))
	}
	c.end()
	return nil
}

func (c *csvWriter) cell(s string) {
	if c.cols > 0 {
		_ = c.out.WriteByte(',')
	}
	c.cols++
	if !strings.ContainsAny(s, ",\"\r\n") && strings.TrimSpace(s) == s {
		_, _ = c.out.WriteString(s)
		return
	}
	_ = c.out.WriteByte('"')
	_, _ = c.out.WriteString(strings.ReplaceAll(s, `"`, `""`))
	_ = c.out.WriteByte('"')
}

func (c *csvWriter) end() {
	_, _ = c.out.WriteString("\r\n")
	c.cols = 0
}

// triesCell is the list of the JSON file, on one line that begins with its bracket;
// nothing for none.
func triesCell(tries []protocol.Try) (string, error) {
	if len(tries) == 0 {
		return "", nil
	}
	list, err := protocol.Encode(tries)
	return textCell(string(list)), err
}

func valueCell(raw json.RawMessage) string {
	value, text := line.Text(raw)
	if text {
		return textCell(value)
	}
	return value
}

func intCell(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
