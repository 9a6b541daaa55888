package page_test

import (
	"bytes"
	"html/template"
	"testing"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/report/page"
)

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
