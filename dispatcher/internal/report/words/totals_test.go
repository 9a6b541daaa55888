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
}
