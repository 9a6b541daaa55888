package protocol_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"muster/internal/protocol"
)

func TestSeqOfReadsWhatDecodeReads(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]int64{
		`{"seq":7}`: 7, ` { "a":{"seq":1}, "seq" : 42 ,"b":[]} `: 42, `{"seq":-3}`: -3, `{"\u0073eq":5}`: 5, "\ufeff{\"seq\":9}": 9, "\ufeff {\"seq\":9223372036854775807}": 9223372036854775807,
		`{}`: 0, `null`: 0, `{"seq":null}`: 0, `{"SEQ":4}`: 4, `{"seq":1,"seq":2}`: 2, `{"seq":123456789012345678}`: 123456789012345678,
	} {
		if got, readable := protocol.SeqOf([]byte(doc)); !readable || got != want {
			t.Errorf("%s: got %d, %t", doc, got, readable)
		}
	}
	for _, doc := range []string{``, `7`, `[]`, `{"seq":"7"}`, `{"seq":1.5}`, `{"seq":1e3}`, `{"seq":9223372036854775808}`, `{"seq":1`, `{"seq":1} x`, `{"seq":01}`, `{"seq":{}}`} {
		if got, readable := protocol.SeqOf([]byte(doc)); readable {
			t.Errorf("%s: got %d", doc, got)
		}
	}
}

// FuzzSeqOf holds the short way against the library, but for the byte order mark,
// which Decode takes.
func FuzzSeqOf(f *testing.F) {
	for _, seed := range []string{`{"seq":7}`, `{"seq":1,"a":"x"}`, `{"SEQ":1,"seq":2}`, `{"a":[{"seq":3}],"seq":-0}`, `null`, `{"seq":null}`, `{"seq":1.0}`, `{"seq":1}}`, `{"\u0073eq":00}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want struct {
			Seq int64 `json:"seq"`
		}
		err := json.Unmarshal([]byte(strings.TrimPrefix(string(data), "\ufeff")), &want)
		got, readable := protocol.SeqOf(data)
		if readable != (err == nil) || readable && got != want.Seq {
			t.Fatalf("%q: got %d, %t; the library %d, %v", data, got, readable, want.Seq, err)
		}
		var m protocol.Progress
		if protocol.Decode(data, len(data), &m) == nil && (!readable || got != m.Seq) {
			t.Fatalf("%q: got %d, %t; Decode %d", data, got, readable, m.Seq)
		}
	})
}

func TestAResultIsScannedWithItsMessage(t *testing.T) {
	t.Parallel()
	m := protocol.Result{TaskID: "old", Result: json.RawMessage(`1`)}
	doc, err := protocol.DecodeResult([]byte(`{"attempt":1,"result": {"a" : [1.0]} ,"error":null}`), limit, &m)
	if err != nil || string(doc.Bytes()) != `{"a" : [1.0]}` || string(m.Result) != `{"a" : [1.0]}` || string(m.Error) != "null" || m.TaskID != "" {
		t.Errorf("got %q of %+v, %v", doc.Bytes(), m, err)
	}
	for _, payload := range []string{`{"attempt":1}`, `{"result":{"a":1,"A":2}}`, `{"result":[1e400]}`, `{"result":1,"attempt":"x"}`} {
		if doc, _ := protocol.DecodeResult([]byte(payload), limit, &m); doc.Bytes() != nil {
			t.Errorf("%s gave %s", payload, doc.Bytes())
		}
	}
}

func TestOnlyTheOutermostMembersAreLeftToThemselves(t *testing.T) {
	t.Parallel()
	type part struct {
		Raw  json.RawMessage `json:"raw"`
		More []part          `json:"more"`
	}
	var got, want part
	doc := []byte(`{"more":[{"raw":{"raw":1}},{"more":[{"raw":null}]}], "raw" : [ {"raw":2} ]}`)
	if err := protocol.Decode(doc, limit, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v, %v", got, want, err)
	}
}

// FuzzDecode holds Decode against the library: what it takes, it reads alike.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"runId":"a","raw":{"b":[1,"\u00e9"]},"count":1}`, `{"raw" : null , "raW":1}`, `{"raw":[],"list":[{"name":"x"}]}`, `{"one":{"name":"raw"},"\u0072aw":7}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want outer
		if protocol.Decode(data, limit, &got) != nil {
			return
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(string(data), "\ufeff")), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %+v, want %+v, %v", data, got, want, err)
		}
	})
}

// FuzzCursor walks anything to its end, and a valid document from token to token.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{`{"a" : [1, "\"x", {"b":null}] , "c":{} }`, `[`, `"\`, `{"a"`, `[1,]`, `]`, `::`, "\"\xff", "\"1\t]", "\"\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := protocol.NewCursor(data)
		built := rebuild(&c, 0)
		if doc, err := protocol.Scan(data, len(data)); err == nil {
			compact, err := protocol.Compact(doc)
			if err != nil || built != string(compact) {
				t.Fatalf("%q became %q, want %q", doc, built, compact)
			}
			whole := protocol.NewCursor(doc)
			if got := whole.Literal(); string(got) != string(doc) || whole.Kind() != 0 {
				t.Fatalf("%q was passed as %q", doc, got)
			}
		}
	})
}

// rebuild writes the value at hand without white space.
func rebuild(c *protocol.Cursor, depth int) string {
	kind := c.Kind()
	if depth > protocol.MaxDepth || kind != protocol.KindObject && kind != protocol.KindList {
		return string(c.Literal())
	}
	var parts []string
	for c.Enter(); c.More(); {
		part := ""
		if kind == protocol.KindObject {
			start := *c
			part = string(start.Literal()) + ":"
			c.Name()
		}
		parts = append(parts, part+rebuild(c, depth+1))
	}
	if kind == protocol.KindObject {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}
