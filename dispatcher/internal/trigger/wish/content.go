package wish

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// contentHash is the SHA-256 of what a request asks for. White space, the
// order of members, of stores and of doubles, and members that nobody knows do
// not count; numbers count as they are written.
func contentHash(request protocol.RunRequest) (string, error) {
	request.RequestID = ""
	for _, ids := range []*[]string{&request.Stores.Stores, &request.Stores.AllBut} {
		*ids = slices.Compact(slices.Sorted(slices.Values(*ids)))
	}
	input, err := canonical(request.Input)
	if err != nil {
		return "", err
	}
	request.Input = input
	return Digest(request)
}

// canonical writes an input without white space and with its members in order.
func canonical(input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		return nil, nil
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("cannot read an input: %w", err)
	}
	return protocol.Encode(value) // maps are encoded in the order of their keys
}

// Digest is the SHA-256 of v as JSON, in hex.
func Digest(v any) (string, error) {
	doc, err := protocol.Encode(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:]), nil
}

// checkInput validates the input by the job's bound and schema and returns it
// without white space, which is how terminals get it.
func checkInput(spec job.Spec, input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	compact, err := protocol.Compact(input)
	if err != nil {
		return nil, err
	}
	if most := cmp.Or(spec.MaxInputBytes, job.DefaultInputBytes); len(compact) > most {
		return nil, refuse.InputTooLarge(spec.Name, len(compact), most)
	}
	err = spec.Input.Validate(compact)
	var refusal *protocol.Error
	if errors.As(err, &refusal) {
		return nil, &protocol.Error{
			Code:      refusal.Code,
			Path:      "/input" + refusal.Path,
			Message:   under("/input", "document", refusal.Message),
			MessageZh: under("/input", "整个文档", refusal.MessageZh),
			Hint:      refusal.Hint,
			HintZh:    refusal.HintZh,
		}
	}
	if err != nil {
		return nil, err
	}
	return compact, nil
}

// under puts a prefix before the pointer of each line; whole stands for the
// pointer of the whole document.
func under(prefix, whole, lines string) string {
	list := strings.Split(lines, "\n")
	for i, line := range list {
		list[i] = prefix + strings.TrimPrefix(line, whole)
	}
	return strings.Join(list, "\n")
}
