package protocol_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"muster/internal/protocol"
)

// TestAWholeNumberMayBeWrittenWithAPoint or an exponent in a request, as JSON Schema has
// it; what is kept as it came keeps its bytes. Programs write digits alone.
func TestAWholeNumberMayBeWrittenWithAPoint(t *testing.T) {
	t.Parallel()
	type numbers struct {
		Count  int               `json:"count"`
		Signed *int64            `json:"signed"`
		Plain  uint8             `json:"plain"`
		Rate   float64           `json:"rate"`
		List   []int             `json:"list"`
		Text   map[string]string `json:"text"`
		Raw    json.RawMessage   `json:"raw"`
	}
	var got numbers
	doc := `{"count":10.0,"signed":-1.50e2,"plain":7,"rate":1e1,"list":[1E+1,2,0.0],"text":{"a\"1e1":"\\","b":"10.0, 1e1"},"raw":{"n":[1e1,10.0]}}`
	if err := protocol.DecodeRequest([]byte(doc), limit, &got); err != nil {
		t.Fatal(err)
	}
	signed := int64(-150)
	want := numbers{10, &signed, 7, 10, []int{10, 2, 0}, map[string]string{`a"1e1`: `\`, "b": "10.0, 1e1"}, json.RawMessage(`{"n":[1e1,10.0]}`)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var refusal *protocol.Error
	if err := protocol.Decode([]byte(doc), limit, &numbers{}); !errors.As(err, &refusal) || refusal.Path != "/count" {
		t.Errorf("between programs: %v", err)
	}
	for _, bad := range []string{`{"count":1.5}`, `{"count":1e-1}`, `{"count":1e19}`, `{"count":9223372036854775808}`, `{"plain":2.56e2}`, `{"plain":-1.0}`, `{"count":10.0,"list":[1.5]}`, `{"count":1.00000000000000000001}`} {
		if err := protocol.DecodeRequest([]byte(bad), limit, &numbers{}); !errors.As(err, &refusal) || refusal.Code != protocol.CodeSchema {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// TestAValueOfAnotherTypeIsNamedInBothLanguages, with its member.
func TestAValueOfAnotherTypeIsNamedInBothLanguages(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string][2]string{
		`{"count":1.5}`:  {"/count: must be a whole number, not 1.5", "/count：类型应为整数，实际为 1.5"},
		`{"count":true}`: {"/count: must be a whole number, not true or false", "/count：类型应为整数，实际为 true 或 false"},
		`{"name":[]}`:    {"/name: must be a string, not an array", "/name：类型应为字符串，实际为数组"},
		`{"list":{}}`:    {"/list: must be an array, not an object", "/list：类型应为数组，实际为对象"},
		`"x"`:            {"document: must be an object, not a string", "整个文档：类型应为对象，实际为字符串"},
	} {
		var refusal *protocol.Error
		if err := protocol.Decode([]byte(doc), limit, &outer{}); !errors.As(err, &refusal) || refusal.Message != want[0] || refusal.MessageZh != want[1] {
			t.Errorf("%s: got %+v", doc, refusal)
		}
	}
}
