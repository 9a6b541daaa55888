package page_test

import (
	"bytes"
	"html/template"
	"testing"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/report/page"
)

func TestASkewIsSaidInAUnitInWhichItCanBeRead(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{0: "+0 ms", -120: "-120 ms", 9_999: "+9999 ms", 42_000: "+42.0 s", -600_000: "-10.0 min", 93_600_000: "+26.0 h"} {
		if said := page.Skew(&ms); said != want {
			t.Errorf("%d ms is said as %s, want %s", ms, said, want)
		}
	}
	if said := page.Skew(nil); said != "–" {
		t.Errorf("none is said as %s", said)
	}
}

func TestThePageEscapesAsTemplatesDo(t *testing.T) {
	t.Parallel()
	like := template.Must(template.New("cell").Parse(`<td class="v"><bdi>{{.}}</bdi></td>`))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("aZ09._-=+'\"\\<>&/\u0000\u001f\u2028\ufffd店😀\t\r\n")), 0, 70, -1), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		var want, got bytes.Buffer
		if err := like.Execute(&want, text); err != nil {
			t.Fatal(err)
		}
		page.Cell(&got, `<td class="v"><bdi>`, text)
		if got.String()+"</bdi></td>" != want.String() {
			t.Fatalf("%q became %q, want %q", text, got.String(), want.String())
		}
	})
}
