package totals_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/report/totals"
	"muster/internal/protocol"
)

// amount is the total of one column, and its JSON, over the values of as many stores.
func amount(t *testing.T, of protocol.ColumnType, aggregates []protocol.Aggregate, values []string) (protocol.Total, string) {
	t.Helper()
	head := protocol.ReportHead{Targets: len(values), AsOf: protocol.At(time.Date(2026, 9, 17, 0, 0, 0, 0, time.FixedZone("", 8*3600))),
		Columns: []protocol.Column{{Name: "other"}, {Name: "c", Type: of, Aggregate: aggregates}}}
	sums := totals.New(&head)
	for i, v := range values {
		sums.Add(&protocol.StoreRow{StoreID: fmt.Sprintf("S%d", i), Columns: []json.RawMessage{json.RawMessage("1"), json.RawMessage(v)}})
	}
	all := sums.All()
	if len(all) != 1 {
		t.Fatalf("%d totals of one column with a type", len(all))
	}
	doc, err := protocol.Encode(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return all[0], string(doc)
}

func TestATotalIsExactAndSaysOfHowManyStores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of     protocol.ColumnType
		ask    string
		values string
		want   string
	}{
		"integers": {"integer", "sum mean min max p50 p95 distinct", `3 null 1.0 1 2e1 1.5 "4" -0`,
			`"stores":5,"of":8,"wrongType":2,"wrongTypeIds":["S5","S6"],"sum":25,"mean":5,"min":0,"max":20,"p50":1,"p95":20,"distinct":4`},
		"beyond a double": {"integer", "sum", `9007199254740993 9007199254740993 1`,
			`"stores":3,"of":3,"wrongType":0,"wrongTypeIds":[],"sum":18014398509481987`},
		"beyond 64 bits": {"integer", "sum max", strings.Repeat("999999999999999999 ", 20) + "1000000000000000000",
			`"stores":20,"of":21,"wrongType":1,"wrongTypeIds":["S20"],"sum":19999999999999999980,"max":999999999999999999`},
		"money": {"number", "sum mean p50", `0.1 0.2 -2.50 1E-2 true`,
			`"stores":4,"of":5,"wrongType":1,"wrongTypeIds":["S4"],"sum":-2.19,"mean":-0.5475,"p50":0.01`},
		"tiny and rounded": {"number", "sum mean", `1e-400 0.3333333333333333 1e300 2e-12`,
			`"stores":3,"of":4,"wrongType":1,"wrongTypeIds":["S2"],"sum":0.333333333335,"mean":0.111111`},
		"bytes": {"bytes", "sum top", `5 -1 7 7`,
			`"stores":3,"of":4,"wrongType":1,"wrongTypeIds":["S1"],"sum":19,"largest":[{"storeId":"S2","value":7},{"storeId":"S3","value":7},{"storeId":"S0","value":5}]`},
		"texts": {"text", "distinct top", `"a" "\u0061" "b" 1 {}`,
			`"stores":3,"of":5,"wrongType":2,"wrongTypeIds":["S3","S4"],"distinct":2,"values":[{"value":"a","stores":2},{"value":"b","stores":1}]`},
		"truths": {"bool", "count", `true false true "true" 0`,
			`"stores":3,"of":5,"wrongType":2,"wrongTypeIds":["S3","S4"],"values":[{"value":true,"stores":2},{"value":false,"stores":1}]`},
		"days": {"date", "min max count", `"2026-09-17" "2026-02-30" "2026-09-16" "2026-09-17" 20260917`,
			`"stores":3,"of":5,"wrongType":2,"wrongTypeIds":["S1","S4"],"min":"2026-09-16","max":"2026-09-17","values":[{"value":"2026-09-17","stores":2},{"value":"2026-09-16","stores":1}]`},
		"moments": {"time", "min max distinct", `"2026-09-17T01:00:00Z" "2026-09-17T09:00:00+08:00" "2026-09-17T00:30:00-02:00" "2026-09-17 01:00:00"`,
			`"stores":3,"of":4,"wrongType":1,"wrongTypeIds":["S3"],"min":"2026-09-17T09:00:00.000+08:00","max":"2026-09-17T10:30:00.000+08:00","distinct":2`},
		"a histogram": {"integer", "histogram", `-3 0 4 5 9 41`,
			`"stores":6,"of":6,"wrongType":0,"wrongTypeIds":[],"histogram":[{"from":-5,"to":0,"stores":1},{"from":0,"to":5,"stores":2},` +
				`{"from":5,"to":10,"stores":2},{"from":10,"to":15,"stores":0},{"from":15,"to":20,"stores":0},{"from":20,"to":25,"stores":0},` +
				`{"from":25,"to":30,"stores":0},{"from":30,"to":35,"stores":0},{"from":35,"to":40,"stores":0},{"from":40,"to":45,"stores":1}]`},
		"tenths": {"number", "histogram", `0.1 0.2 0.3`,
			`"stores":3,"of":3,"wrongType":0,"wrongTypeIds":[],"histogram":[{"from":0.1,"to":0.15,"stores":1},{"from":0.15,"to":0.2,"stores":0},` +
				`{"from":0.2,"to":0.25,"stores":1},{"from":0.25,"to":0.3,"stores":0},{"from":0.3,"to":0.35,"stores":1}]`},
		"large and near":    {"number", "histogram", `100000000000000000.5 100000000000000000.5`, `"stores":2,"of":2,"wrongType":0,"wrongTypeIds":[],"histogram":[{"from":100000000000000000,"to":100000000000000001,"stores":2}]`},
		"nobody":            {"integer", "sum mean min p50 distinct top count histogram", `null null`, `"stores":0,"of":2,"wrongType":0,"wrongTypeIds":[]`},
		"nothing asked for": {"text", "", `"a"`, `"stores":1,"of":1,"wrongType":0,"wrongTypeIds":[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ask []protocol.Aggregate
			for _, a := range strings.Fields(c.ask) {
				if ask = append(ask, protocol.Aggregate(a)); !slices.Contains(c.of.Aggregates(), ask[len(ask)-1]) {
					t.Fatalf("%s is no aggregate of %s", a, c.of)
				}
			}
			values := strings.Fields(c.values)
			if name == "moments" {
				values = []string{`"2026-09-17T01:00:00Z"`, `"2026-09-17T09:00:00+08:00"`, `"2026-09-17T00:30:00-02:00"`, `"2026-09-17 01:00:00"`}
			}
			if _, got := amount(t, c.of, ask, values); got != `{"column":"c",`+c.want+`}` {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestListsAreBoundedAndSayWhatIsBeyond: what is not listed is counted.
func TestListsAreBoundedAndSayWhatIsBeyond(t *testing.T) {
	t.Parallel()
	var numbers, texts, wrong []string
	for i := range 1000 {
		numbers, texts, wrong = append(numbers, fmt.Sprint(i)), append(texts, fmt.Sprintf(`"v%d"`, i%300)), append(wrong, "[]")
	}
	got, _ := amount(t, protocol.ColumnInteger, []protocol.Aggregate{"top", "count", "histogram", "p95"}, numbers)
	if len(got.Largest) != 10 || string(got.Largest[9].Value) != "990" || len(got.Values) != 50 || got.OtherValues != 950 || got.OtherStores != 950 ||
		len(got.Histogram) != 10 || string(got.P95) != "949" {
		t.Errorf("numbers: %+v", got)
	}
	if got, _ = amount(t, protocol.ColumnText, []protocol.Aggregate{"top"}, texts); len(got.Values) != 10 || got.OtherValues != 290 || got.OtherStores != 960 {
		t.Errorf("texts: %+v", got)
	}
	if got, _ = amount(t, protocol.ColumnText, nil, wrong); got.WrongType != 1000 || len(got.WrongTypeIDs) != 100 {
		t.Errorf("wrong: %d, %d named", got.WrongType, len(got.WrongTypeIDs))
	}
}

// TestTooMuchDifferentTextIsSaidAndNotGuessed: the memory of a column is bounded.
func TestTooMuchDifferentTextIsSaidAndNotGuessed(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 20_000 {
		texts = append(texts, fmt.Sprintf(`"%01000d"`, i))
	}
	got, _ := amount(t, protocol.ColumnText, []protocol.Aggregate{"distinct", "count"}, texts)
	if !got.TooVaried || got.Distinct != 0 || got.Values != nil || got.OtherStores != 0 || got.Stores != 20_000 {
		t.Errorf("got too varied %v, distinct %d, %d values, %d stores", got.TooVaried, got.Distinct, len(got.Values), got.Stores)
	}
}
