package checker

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

func jsonClaim(content []byte, zone *time.Location) (claim, error) {
	var r protocol.Report
	if err := json.Unmarshal(content, &r); err != nil {
		return claim{}, err
	}
	c := claim{counts: &r.Counts, targets: r.Targets, rows: map[string]claimRow{}, verdict: r.Verdict}
	for _, row := range r.Stores {
		if _, twice := c.rows[row.StoreID]; twice {
			return claim{}, fmt.Errorf("store %s stands in it twice", row.StoreID)
		}
		c.rows[row.StoreID] = claimRow{outcome: row.Outcome, reason: row.Reason, atBarrier: row.AtBarrier}
	}
	var err error
	c.amounts, err = jsonAmounts(&r.ReportHead, zone)
	return c, err
}

func csvClaim(content []byte, columns []protocol.Column) (claim, error) {
	text, ok := bytes.CutPrefix(content, []byte("\ufeff"))
	if !ok {
		return claim{}, errors.New("it has no byte order mark")
	}
	table, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return claim{}, err
	}
	if len(table) == 0 {
		return claim{}, errors.New("it has no header line")
	}
	column := map[string]int{}
	for i, name := range table[0] {
		column[name] = i
	}
	needed := []string{"store_id", "outcome", "reason", "outcome_at_barrier", "attempts"}
	for _, c := range columns {
		needed = append(needed, "job."+c.Name)
	}
	for _, name := range needed {
		if _, there := column[name]; !there {
			return claim{}, fmt.Errorf("it has no column %s", name)
		}
	}
	c := claim{rows: map[string]claimRow{}}
	for _, row := range table[1:] {
		// An id has one line: one apostrophe in front is the file's own.
		id := strings.TrimPrefix(row[column["store_id"]], "'")
		if _, twice := c.rows[id]; twice {
			return claim{}, fmt.Errorf("store %s stands in it twice", id)
		}
		r := claimRow{task.Outcome(row[column["outcome"]]), task.Reason(row[column["reason"]]),
			task.Outcome(row[column["outcome_at_barrier"]]), make([]string, len(columns)), nil}
		if r.tries, err = csvTries(row[column["attempts"]]); err != nil {
			return claim{}, fmt.Errorf("of store %s %w", id, err)
		}
		for i, job := range columns {
			r.values[i] = apostrophe.ReplaceAllString(row[column["job."+job.Name]], "")
		}
		c.rows[id] = r
	}
	return c, nil
}

// apostrophe stands in front of a line that a spreadsheet would change.
var apostrophe = regexp.MustCompile(`(?m)^'`)

// The page's two tables, as docs/protocol/report.md promises them: the counts,
// and all stores.
var (
	htmlTable = regexp.MustCompile(`(?s)<table id="(counts|stores)">.*?<tbody>(.*?)</tbody>`)
	htmlCount = regexp.MustCompile(`<tr(?: class="sum")?><th scope="row">[^\n]*?<span lang="en">([a-z ]+)</span>[^\n]*?</th><td class="n"><data value="(\d+)">([\d,]+)</data></td>`)
	htmlStore = regexp.MustCompile(`<tr><td><bdi>([^<]*)</bdi></td><td><bdi>[^<]*</bdi></td><td>[^<]*<span lang="en">([a-z ]+)</span>[^\n]*?</td><td>([a-z_]*)</td>`)
)

func htmlClaim(content []byte, columns []protocol.Column) (claim, error) {
	tables := map[string]string{}
	for _, found := range htmlTable.FindAllSubmatch(content, -1) {
		tables[string(found[1])] = string(found[2])
	}
	if len(tables) != 2 {
		return claim{}, errors.New("it has not the tables of the counts and of all stores")
	}
	c := claim{counts: &protocol.Counts{}, rows: map[string]claimRow{}}
	buckets := map[string]*int{"succeeded": &c.counts.Succeeded, "failed": &c.counts.Failed, "timed out": &c.counts.TimedOut,
		"offline": &c.counts.Offline, "cancelled": &c.counts.Cancelled, "targets": &c.targets}
	counts := htmlCount.FindAllStringSubmatch(tables["counts"], -1)
	for _, row := range counts {
		into, known := buckets[row[1]]
		n, err := strconv.Atoi(strings.ReplaceAll(row[3], ",", "")) // what people read
		if !known || err != nil {
			return claim{}, fmt.Errorf("it counts %q", row[1])
		}
		if strconv.Itoa(n) != row[2] {
			return claim{}, fmt.Errorf("it shows %s %s, and means %s", row[3], row[1], row[2])
		}
		*into = n
	}
	if len(counts) != len(buckets) {
		return claim{}, fmt.Errorf("it has %d counts, not %d", len(counts), len(buckets))
	}
	for _, row := range htmlStore.FindAllStringSubmatch(tables["stores"], -1) {
		id := html.UnescapeString(row[1])
		if _, twice := c.rows[id]; twice {
			return claim{}, fmt.Errorf("store %s stands in it twice", id)
		}
		c.rows[id] = claimRow{outcome: task.Outcome(strings.ReplaceAll(row[2], " ", "_")), reason: task.Reason(row[3])}
	}
	var err error
	c.amounts, err = htmlAmounts(content, columns)
	return c, err
}
