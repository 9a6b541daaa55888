package intake

import (
	"bytes"
	"encoding/json"

	"muster/internal/protocol"
)

// salvage reads from a payload that is refused as a whole which attempt it
// answers, as far as it goes: the top-level members up to the first place that
// is no JSON. Of a member that stands twice the first counts. It returns false
// when no attempt is named.
func salvage(payload []byte, into *protocol.Result) bool {
	*into = protocol.Result{}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(payload, []byte("\xef\xbb\xbf"))))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		value, err := skipValue(dec)
		if err != nil {
			break
		}
		keep(into, key, value)
	}
	return protocol.ValidID(into.TaskID) && into.Attempt > 0
}

// skipValue passes one value, however deep, and returns it if it is a scalar.
func skipValue(dec *json.Decoder) (json.Token, error) {
	depth := 0
	for {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return token, nil
		}
	}
}

func keep(into *protocol.Result, key, value json.Token) {
	text, _ := value.(string)
	switch {
	case key == "taskId" && into.TaskID == "":
		into.TaskID = text
	case key == "sha256" && into.SHA256 == "":
		into.SHA256 = text
	case key == "outcome" && into.Outcome == "":
		into.Outcome = protocol.Answer(text)
	case key == "attempt" && into.Attempt == 0:
		if number, ok := value.(json.Number); ok {
			if n, err := number.Int64(); err == nil && n > 0 && n < 1<<31 {
				into.Attempt = int(n)
			}
		}
	}
}
