package protocol_test

import (
	"errors"
	"reflect"
	"testing"

	"muster/internal/protocol"
)

func TestTargetsSurviveTheWire(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]protocol.Targets{
		`"all"`:                       {All: true},
		`["007","1E5"]`:               {Stores: []string{"007", "1E5"}},
		`[]`:                          {Stores: []string{}},
		`{"labels":"region=华东,a!=b"}`: {Labels: "region=华东,a!=b"},
	} {
		var request protocol.RunRequest
		if err := protocol.Decode([]byte(`{"job":"j","stores":`+text+`}`), limit, &request); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !reflect.DeepEqual(request.Stores, want) {
			t.Errorf("%s: got %+v", text, request.Stores)
		}
		if back, err := protocol.Encode(request.Stores); err != nil || string(back) != text {
			t.Errorf("%s: came back as %s, %v", text, back, err)
		}
	}
}

func TestOtherTargetsAreRefusedAtTheirPlace(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"everyone"`, `"ALL"`, `7`, `[7]`, `["a",null]`, `null`, `true`, `{}`, `{"labels":""}`, `{"labels":"a=b","x":"y"}`,
		`{"label":"a=b"}`, `[["a"]]`} {
		var request protocol.RunRequest
		err := protocol.Decode([]byte(`{"job":"j","stores":`+text+`}`), limit, &request)
		var refusal *protocol.Error
		if !errors.As(err, &refusal) || refusal.Code != protocol.CodeSchema || refusal.Path != "/stores" || refusal.Hint == "" {
			t.Errorf("%s: got %v, %+v", text, err, request.Stores)
		}
	}
}

func TestARejectedReplyCarriesTheWholeRefusal(t *testing.T) {
	t.Parallel()
	got, err := protocol.Encode(protocol.Rejected(&protocol.Error{Code: protocol.CodeNoTargets, Message: "m", MessageZh: "中", Hint: "h", HintZh: "文", Path: "/stores"}))
	want := `{"ok":false,"status":"rejected","code":"NO_TARGETS","message":"m","messageZh":"中","hint":"h","hintZh":"文","path":"/stores"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
