package report

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"muster/internal/protocol"
)

const jsonRules = "JSON (RFC 8259), UTF-8 without byte order mark; the head on the first line, then one store a line; " +
	"numbers in job columns keep the digits that the terminal sent"

// JSON writes the report for machines: the head on one line, then one row a
// line with its bytes untouched.
func JSON(w io.Writer, head protocol.ReportHead, rows Rows) error {
	doc, err := protocol.Encode(head)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	_, _ = out.Write(bytes.TrimSuffix(doc, []byte("}")))
	_, _ = out.WriteString(`,"stores":[`)
	separator := "\n"
	for raw, err := range rows {
		if err != nil {
			return err
		}
		_, _ = out.WriteString(separator)
		_, _ = out.Write(raw)
		separator = ",\n"
	}
	_, _ = out.WriteString("\n]}\n")
	if err := out.Flush(); err != nil { // bufio keeps the first error
		return fmt.Errorf("cannot write a report as JSON: %w", err)
	}
	return nil
}
