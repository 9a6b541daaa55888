package screen_test

import (
	"bytes"
	"strings"
	"testing"

	"muster/dispatcher/internal/cli/screen"
)

func TestTablesAlignWideCharacters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := screen.NewTable(&out, "STORE", "NAME", "STATE")
	table.Row("SH_0312", "上海南京东路店", "online")
	table.Row("007", "Kiosk\x1b[2J", "offline")
	table.Flush()
	want := "STORE    NAME            STATE\n" +
		"SH_0312  上海南京东路店  online\n" +
		"007      Kiosk\ufffd[2J       offline\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestTablesFitTheScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := screen.NewTable(&out, "STORE", "NAME", "REASON").Within(40)
	table.Row("SH_0312", strings.Repeat("店", 30), strings.Repeat("x", 60))
	table.Flush()
	for line := range strings.Lines(out.String()) {
		if got := screen.Width(strings.TrimSuffix(line, "\n")); got > 40 {
			t.Errorf("%d columns: %s", got, line)
		}
	}
	if !strings.Contains(out.String(), "SH_0312  ") || strings.Count(out.String(), "…") != 2 {
		t.Errorf("got\n%s", out.String())
	}
	out.Reset()
	table = screen.NewTable(&out, "A", "B").Within(4)
	table.Row(strings.Repeat("a", 20), strings.Repeat("b", 20))
	table.Flush()
	if !strings.Contains(out.String(), "aaaaaaa…  bbbbbbb…\n") {
		t.Errorf("the narrowest: %s", out.String())
	}
}
