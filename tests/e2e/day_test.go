package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones below, on any machine

	"muster/internal/protocol"
)

// TestYesterdayIsEachStoresOwn orders "yesterday" for stores around the world:
// each takes its own day before the moment of the order, from its first
// midnight up to, and without, its last.
func TestYesterdayIsEachStoresOwn(t *testing.T) {
	t.Parallel()
	zones := map[string]string{"SHA": "Asia/Shanghai", "LAX": "America/Los_Angeles", "LON": "Europe/London", "CXI": "Pacific/Kiritimati"}
	var stores []string
	for store := range zones {
		stores = append(stores, store)
	}
	s := newSite(t, stores, "")
	s.serve()
	for store, zone := range zones {
		place, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		first := time.Now().In(place).AddDate(0, 0, -4)
		for day := range 7 { // two lines a day, one of them at midnight
			at := time.Date(first.Year(), first.Month(), first.Day()+day, 0, 0, 0, 0, place)
			fmt.Fprintf(&log, "%s INFO midnight\n%s ERROR noon\n", at.Format(time.DateTime), at.Format(time.DateOnly)+" 12:00:00")
		}
		s.write("agents/"+store+"/logs/pos.log", log.String())
		s.agent(store, "collect:\n  time_zone: "+zone+"\n  logs: [ \"logs/*.log\" ]\n")
	}
	reply := s.ask("run", `{"job":"collect_log","stores":"all","input":{"date":"yesterday"},"barrierSeconds":40}`)
	if !reply.OK {
		t.Fatalf("reply %+v", reply)
	}
	report, _ := s.report(reply.RunID, 1)
	if report.Counts != (protocol.Counts{Succeeded: len(zones)}) {
		t.Fatalf("counts %+v", report.Counts)
	}
	for _, row := range report.Stores {
		place, err := time.LoadLocation(zones[row.StoreID])
		if err != nil {
			t.Fatal(err)
		}
		ordered := report.CreatedAt.In(place)
		want := `"` + time.Date(ordered.Year(), ordered.Month(), ordered.Day()-1, 12, 0, 0, 0, place).Format(time.DateOnly) + `"`
		if got := column(t, report, row, "date"); got != want {
			t.Errorf("store %s in %s collected %s, want %s", row.StoreID, zones[row.StoreID], got, want)
		}
		if got := column(t, report, row, "lines"); got != "2" {
			t.Errorf("store %s in %s has %s lines in its day, want 2", row.StoreID, zones[row.StoreID], got)
		}
	}
}
