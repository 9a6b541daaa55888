package wish

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// Content is what a request asks for, however often and in whatever form it comes.
type Content struct {
	Hash    string // SHA-256, in hex
	Members string // a short hash of each member, as store.Request keeps them
}

// shortHash is how much of a member's SHA-256 is kept, in hex digits: it is compared
// with one other alone, and only when the whole differs.
const shortHash = 8

// contentOf is the content of a request that has neither id nor deadline: those say
// which request it is and how old it may be, not what is asked for.
func contentOf(request any) (Content, error) {
	doc, err := protocol.Encode(request)
	if err != nil {
		return Content{}, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return Content{}, err
	}
	parts := make([]string, 0, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		parts = append(parts, name+":"+sum(members[name])[:shortHash])
	}
	return Content{Hash: sum(doc), Members: strings.Join(parts, " ")}, nil
}

// Differing lists the members in which two contents differ, as Content.Members has
// them; nil when either is not known.
func Differing(a, b string) []string {
	if a == "" || b == "" {
		return nil
	}
	once := map[string]bool{}
	for _, part := range append(strings.Fields(a), strings.Fields(b)...) {
		once[part] = !once[part] // what both have is struck out
	}
	var names []string
	for part, differs := range once {
		if name, _, _ := strings.Cut(part, ":"); differs {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// contentOfRun leaves out what does not count: white space, the order of members, of
// stores and of doubles. Numbers count as they are written.
func contentOfRun(request protocol.RunRequest) (Content, error) {
	request.RequestID, request.Deadline = "", 0
	for _, ids := range []*[]string{&request.Stores.Stores, &request.Stores.AllBut} {
		*ids = slices.Compact(slices.Sorted(slices.Values(*ids)))
	}
	input, err := canonical(request.Input)
	if err != nil {
		return Content{}, err
	}
	request.Input = input
	return contentOf(request)
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
	return sum(doc), nil
}

func sum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
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
			Hint:      within("/input", "document", refusal.Hint),
			HintZh:    within("/input", "整个文档", refusal.HintZh),
		}
	}
	if err != nil {
		return nil, err
	}
	return compact, nil
}

// within says a hint about a whole document of the part that it is.
func within(part, whole, hint string) string {
	if rest, ok := strings.CutPrefix(hint, whole); ok {
		return part + rest
	}
	return hint
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
