package verify

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// sameRows compares the lines of a JSON report with the rows of the database, and its
// counts with what they sum to. It returns how many rows there are.
func sameRows(file io.Reader, name string, manifest *protocol.Manifest, rows iter.Seq2[store.OutcomeRow, error]) (int, error) {
	in := bufio.NewReader(file)
	head, err := protocol.ReadReportHead(in)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrUntrue, name, err)
	}
	if head.RunID != manifest.RunID || head.Revision != manifest.Revision {
		return 0, fmt.Errorf("%w: %s is revision %d of run %s, its manifest says %d of %s",
			ErrUntrue, name, head.Revision, head.RunID, manifest.Revision, manifest.RunID)
	}
	var counts protocol.Counts
	n := 0
	for row, err := range rows {
		if err != nil {
			return n, fmt.Errorf("cannot read the database: %w", err)
		}
		line, err := in.ReadBytes('\n')
		if err != nil {
			return n, fmt.Errorf("%w: %s ends before store %s", ErrUntrue, name, row.StoreID)
		}
		if !bytes.Equal(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte(",")), row.Row) {
			return n, fmt.Errorf("%w: %s and the database differ in store %s", ErrUntrue, name, row.StoreID)
		}
		counts.Add(row.Outcome)
		n++
	}
	if rest, err := io.ReadAll(io.LimitReader(in, int64(len(tail))+1)); err != nil || string(rest) != tail {
		return n, fmt.Errorf("%w: %s holds more than the %d rows of the database", ErrUntrue, name, n)
	}
	if counts != head.Counts || head.Counts.Sum() != head.Targets || n != head.Targets {
		return n, fmt.Errorf("%w: %s says %+v of %d stores, the database has %+v of %d", ErrUntrue, name, head.Counts, head.Targets, counts, n)
	}
	return n, nil
}

// tail is what stands behind the last row.
const tail = "]}\n"
