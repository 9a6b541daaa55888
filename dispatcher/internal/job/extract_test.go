package job_test

import (
	"encoding/json"
	"strings"
	"testing"

	"muster/dispatcher/internal/job"
	"muster/internal/protocol"
)

func TestExtractKeepsTheBytesOfTheResult(t *testing.T) {
	t.Parallel()
	result := `{"big":9007199254740993,"one":1.0,"exp":1E5,"neg":-0,"text":"<a> & \u4e2d","t":true,"n":null,
		"list":[{"x": 1, "y" : [ 1 , 2 ]},7],"a/b":{"m~n":"deep"},"":{"":"blank"},"0":"zero"}`
	for pointer, want := range map[string]string{
		"/big": "9007199254740993", "/one": "1.0", "/exp": "1E5", "/neg": "-0", "/text": `"<a> & \u4e2d"`, "/t": "true", "/n": "null",
		"/list/0": `{"x":1,"y":[1,2]}`, "/list/0/y/1": "2", "/list/1": "7", "/a~1b/m~0n": `"deep"`, "//": `"blank"`, "/0": `"zero"`,
		"/absent": "null", "/list/2": "null", "/list/-1": "null", "/list/01": "null", "/list/-": "null", "/list/x": "null",
		"/big/x": "null", "/Big": "null", "no pointer": "null", "/list/0/y/1/z": "null", "/text/0": "null",
	} {
		got := job.Extract([]protocol.Column{{Pointer: pointer}}, json.RawMessage(result))
		if len(got) != 1 || string(got[0]) != want {
			t.Errorf("%s: got %s, want %s", pointer, got, want)
		}
	}
}

func TestExtractReturnsOneValueAColumn(t *testing.T) {
	t.Parallel()
	columns := []protocol.Column{{Pointer: "/a/b/0"}, {Pointer: "/a/b/1"}, {Pointer: "/a"}, {Pointer: ""}}
	for doc, want := range map[string]string{
		`{"a":{"b":[1.0,2]}}`: `[1.0 2 {"b":[1.0,2]} {"a":{"b":[1.0,2]}}]`,
		"\t[ 1 ]\n":           `[null null null [1]]`,
		`7`:                   `[null null null 7]`,
		``:                    `[null null null null]`,
		`{"a":`:               `[null null null null]`,
	} {
		var got []string
		for _, value := range job.Extract(columns, json.RawMessage(doc)) {
			got = append(got, string(value))
		}
		if text := "[" + strings.Join(got, " ") + "]"; text != want {
			t.Errorf("%q: got %s, want %s", doc, text, want)
		}
	}
}

func TestExtractBoundsWhatAReportShows(t *testing.T) {
	t.Parallel()
	long := func(text string) string {
		doc, _ := json.Marshal(map[string]any{"v": text})
		return string(doc)
	}
	for name, c := range map[string]struct{ doc, prefix, suffix string }{
		"long text":            {long(strings.Repeat("a", 5000)), `"aaa`, `a…"`},
		"Chinese text":         {long(strings.Repeat("店", 5000)), `"店店`, `店…"`},
		"escapes":              {long(strings.Repeat("\x01\"", 5000)), `"\u0001\"`, `…"`},
		"just fits":            {long(strings.Repeat("a", 1022)), `"aaa`, `a"`},
		"short, but escaped":   {`{"v":"` + strings.Repeat(`\r\n`, 300) + `"}`, `"\r\n\r`, `…"`},
		"nearly 1 KiB, quoted": {long(strings.Repeat(`"`, 1023)), `"\"\"`, `…"`},
		"escaped for nothing":  {`{"v":"` + strings.Repeat(`\u0061`, 300) + `"}`, `"aaa`, `aaa"`},
		"large list":           {`{"v":[` + strings.Repeat("1,", 999) + `1]}`, `"… 2001 bytes, see the result"`, ``},
		"large object":         {`{"v":{"x":"` + strings.Repeat("y", 2000) + `"}}`, `"… 2008 bytes, see the result"`, ``},
	} {
		got := string(job.Extract([]protocol.Column{{Pointer: "/v"}}, json.RawMessage(c.doc))[0])
		if len(got) > job.MaxColumnBytes || !strings.HasPrefix(got, c.prefix) || !strings.HasSuffix(got, c.suffix) || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %d bytes, %s", name, len(got), got)
		}
	}
}
