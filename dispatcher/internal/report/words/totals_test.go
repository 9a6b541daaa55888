package words_test

import (
	"encoding/json"
	"testing"

	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

func TestNumbersAreSaidAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_234_567: "1,234,567"} {
		if said := words.Count(n); said != want {
			t.Errorf("%d is said as %s", n, said)
		}
	}
	for number, want := range map[string]string{"6490.904545": "6490.9", "-1.005001": "-1.01", "12.5": "12.5", "7": "7", "0.000123": "0.000123", "1234567890.125": "1234567890.13"} {
		if said := string(words.Rounded(json.RawMessage(number))); said != want {
			t.Errorf("%s is rounded to %s, want %s", number, said, want)
		}
	}
	head := protocol.ReportHead{Verdict: protocol.VerdictPartial, Targets: 12_000, Counts: protocol.Counts{Succeeded: 10_500, Offline: 1_500}}
	en, zh := words.Sentence(head)
	if en != "Partial: 10,500 of 12,000 stores succeeded; 1,500 offline." || zh != "不完整：12,000 家门店中 10,500 家成功；离线 1,500 家。" {
		t.Errorf("the verdict is %q, %q", en, zh)
	}
	head = protocol.ReportHead{Verdict: protocol.VerdictBelowQuorum, Quorum: 0.5, Targets: 1, Counts: protocol.Counts{Offline: 1}}
	if en, _ := words.Sentence(head); en != "Below quorum: 0 of 1 store succeeded; 1 offline. The job asks for 50.0 %." {
		t.Errorf("the verdict is %q", en)
	}
	for stores, want := range map[int]string{0: "0 of 0 stores", 1: "1 of 1 store", 1200: "1,200 of 1,200 stores"} {
		if said := words.Coverage(&protocol.Total{Stores: stores, Of: stores}); said.En != want {
			t.Errorf("%d stores are said as %q", stores, said.En)
		}
	}
	for _, c := range []struct {
		values, stores int
		en, zh         string
	}{{1, 1, "1 other value at 1 store", "另有 1 个值，1 家门店"}, {1, 1200, "1 other value at 1,200 stores", "另有 1 个值，1,200 家门店"}, {2, 2, "2 other values at 2 stores", "另有 2 个值，2 家门店"}} {
		if said := words.OtherValues(c.values, c.stores); said != words.Of(c.zh, c.en) {
			t.Errorf("%d at %d are said as %q", c.values, c.stores, said)
		}
	}
}
