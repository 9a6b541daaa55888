package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/redact/find"
	"muster/internal/redact/words"
)

// JSON is Text for a JSON document. Beside what it finds in every string by itself, a string or number is a secret when
// the key that it stands under names one, or the name beside it does ({"name": "DB_PASSWORD", "value": "…"}); switches
// and measures are not ("passwordPolicy": "none", "tokenTtl": 30). A secret string or number becomes the string Mark.
// All other bytes stay as they are: order, space, escapes, the spelling of numbers. clean is doc itself when count is 0.
//
// What is no JSON is read as text. A document without any word that a secret is known by costs one pass over its bytes.
func JSON(doc []byte) (clean []byte, count int) {
	if names, marks := words.Look(doc); names|marks == 0 {
		return doc, 0
	}
	if json.Valid(doc) {
		return inJSON(doc)
	}
	text, count := Text(string(doc))
	if count == 0 {
		return doc, 0
	}
	return []byte(text), count
}

// Document is JSON for a document that is known to be one.
func Document(doc protocol.Document) (clean []byte, count int) { return inJSON(doc.Bytes()) }

func inJSON(doc []byte) (clean []byte, count int) {
	clean = doc
	for range maxPasses {
		edits := inspect(clean)
		if len(edits) == 0 {
			return clean, count
		}
		count += len(edits)
		clean = apply(clean, edits)
	}
	return []byte(`"` + Mark + `"`), count
}

// edit is a place in a document and what is to stand there instead.
type edit struct {
	start, end int
	text       string
}

func apply(doc []byte, edits []edit) []byte {
	out := make([]byte, 0, len(doc)+len(edits)*len(Mark))
	done := 0
	for _, e := range edits {
		out = append(append(out, doc[done:e.start]...), e.text...)
		done = e.end
	}
	return append(out, doc[done:]...)
}

// span is a part of a document, or of its scalars: from and until.
type span struct{ start, end int }

// scalar is a string or a number of a document, or the key of a member. key is the nearest key above it.
type scalar struct {
	start, end int
	key        span
	secret     bool
	isKey      bool
}

// level is an object or a list that is open.
type level struct {
	object bool
	// secret: it stands under a secret's name.
	secret bool
	// key is the key of the member that is read, or of the list itself; keyed says that it names a secret.
	key   span
	keyed bool
	// named: one of its members says that the object is about a secret. labelled says that such a member is read, and
	// valued that one is read that holds the value.
	named, labelled, valued bool
	// values are the scalars that are secret if it is named, from and until.
	values []span
	// webKey: it is a JSON web key (RFC 7517). part says that one of a key's private members is read, parts are those.
	webKey, part bool
	parts        []int
}

// reader walks a valid document.
type reader struct {
	doc     []byte
	at      int
	levels  []level
	scalars []scalar
	// block counts how many of the next strings may belong to a private key whose lines are strings of their own.
	block int
}

// MayBe bits of what a document's structure has a part in, as it has in names.
const structural = words.MayBeEscaped | words.MayBeWebKey | words.MayBePrivateKey

// inspect returns what has to be replaced in a valid document, in order.
func inspect(doc []byte) []edit {
	r := &reader{doc: doc}
	switch names, marks := words.Look(doc); {
	case names|marks == 0:
		return nil
	case names == 0 && marks&structural == 0:
		return r.strings()
	}
	r.levels = []level{{}}
	for r.at < len(doc) {
		switch c := doc[r.at]; c {
		case '{', '[':
			r.open(c == '{')
		case '}', ']':
			r.close()
		case '"':
			r.text()
		case ' ', '\t', '\r', '\n', ',', ':':
			r.at++
		default:
			r.word()
		}
	}
	var edits []edit
	for _, s := range r.scalars {
		edits = r.judge(edits, s)
	}
	return edits
}

// strings returns what has to be replaced where each string stands for itself.
func (r *reader) strings() (edits []edit) {
	for r.at < len(r.doc) {
		if r.doc[r.at] != '"' {
			r.at++
			continue
		}
		start := r.at
		r.pass()
		edits = r.look(edits, start, r.at)
	}
	return edits
}

// pass passes a string.
func (r *reader) pass() {
	for r.at++; r.doc[r.at] != '"'; r.at++ {
		if r.doc[r.at] == '\\' {
			r.at++
		}
	}
	r.at++
}

func (r *reader) top() *level { return &r.levels[len(r.levels)-1] }

func (r *reader) open(object bool) {
	parent := r.top()
	if parent.valued {
		parent.values = append(parent.values, span{len(r.scalars), len(r.scalars)})
	}
	r.levels = append(r.levels, level{object: object, secret: parent.secret || parent.keyed, key: parent.key})
	r.at++
}

func (r *reader) close() {
	r.at++
	if len(r.levels) < 2 {
		return
	}
	closed := r.top()
	if closed.named {
		for _, values := range closed.values {
			for i := values.start; i < values.end; i++ {
				r.scalars[i].secret = !r.scalars[i].isKey
			}
		}
	}
	if closed.webKey {
		for _, i := range closed.parts {
			r.scalars[i].secret = true
		}
	}
	r.levels = r.levels[:len(r.levels)-1]
	if parent := r.top(); parent.valued && len(parent.values) > 0 {
		parent.values[len(parent.values)-1].end = len(r.scalars)
	}
}

// text reads a string, which is a key or a value.
func (r *reader) text() {
	start := r.at
	r.pass()
	in := r.top()
	if in.object {
		next := r.at
		for next < len(r.doc) && strings.IndexByte(" \t\r\n", r.doc[next]) >= 0 {
			next++
		}
		if next < len(r.doc) && r.doc[next] == ':' {
			r.key(in, span{start, r.at})
			r.at = next + 1
			return
		}
	}
	if in.labelled && words.IsSecretKey(unquote(r.doc[start:r.at])) {
		in.named = true
	}
	r.scalar(in, start)
}

// key takes the key of the member that follows.
func (r *reader) key(in *level, at span) {
	name := unquote(r.doc[at.start:at.end])
	in.key, in.keyed = at, words.IsSecretKey(name)
	in.labelled, in.valued, in.part = words.IsLabel(name), false, false
	switch strings.ToLower(name) {
	case "value", "val", "default", "content", "data":
		in.valued = true
	case "kty":
		in.webKey = true
	case "d", "p", "q", "dp", "dq", "qi", "k":
		in.part = true
	}
	r.scalars = append(r.scalars, scalar{start: at.start, end: at.end, isKey: true})
}

func (r *reader) scalar(in *level, start int) {
	if in.valued {
		in.values = append(in.values, span{len(r.scalars), len(r.scalars) + 1})
	}
	if in.part {
		in.parts = append(in.parts, len(r.scalars))
	}
	r.scalars = append(r.scalars, scalar{start: start, end: r.at, key: in.key, secret: in.secret || in.keyed})
}

// word reads a number or one of true, false and null.
func (r *reader) word() {
	start := r.at
	for r.at < len(r.doc) && strings.IndexByte(" \t\r\n,:]}", r.doc[r.at]) < 0 {
		r.at++
	}
	if c := r.doc[start]; c == '-' || words.IsDigit(c) {
		r.scalar(r.top(), start)
	}
}

// judge adds what has to be replaced in one scalar.
func (r *reader) judge(edits []edit, s scalar) []edit {
	raw := r.doc[s.start:s.end]
	if raw[0] != '"' {
		if s.secret && !words.IsMeasure(r.name(s), string(raw)) {
			edits = append(edits, edit{s.start, s.end, `"` + Mark + `"`})
		}
		return edits
	}
	inKey := r.block > 0 && isKeyLine(raw[1:len(raw)-1])
	if s.secret || inKey {
		text := unquote(raw)
		if words.IsMeasure(r.name(s), text) || find.IsMarked(text, true) {
			return edits
		}
		return append(edits, edit{s.start + 1, s.end - 1, Mark})
	}
	r.follow(raw)
	return r.look(edits, s.start, s.end)
}

// look adds what has to be replaced in a string whatever its key.
func (r *reader) look(edits []edit, start, end int) []edit {
	raw := r.doc[start:end]
	names, marks := words.Look(raw)
	if names|marks == 0 {
		return edits
	}
	text := unquote(raw)
	if marks&words.MayBeEscaped != 0 {
		names, marks = words.Look(text)
	}
	secrets := find.In(text, names, marks)
	if len(secrets) == 0 {
		return edits
	}
	for i, at := range rawSpans(raw, secrets) {
		var marks strings.Builder
		writeMarks(&marks, text[secrets[i].Start:secrets[i].End])
		edits = append(edits, edit{start + at.start, start + at.end, escapeSpace(marks.String())})
	}
	return edits
}

func (r *reader) name(s scalar) string {
	if s.key.end == 0 {
		return ""
	}
	return unquote(r.doc[s.key.start:s.key.end])
}

// follow notices where a private key begins and ends whose lines are strings of their own.
func (r *reader) follow(raw []byte) {
	r.block = max(0, r.block-1)
	if bytes.Contains(raw, []byte("PRIVATE KEY")) {
		r.block = 0
		if beginsKey(raw) {
			r.block = maxKeyLines
		}
	}
}

// isKeyLine reports whether a string looks like a line of a private key.
func isKeyLine(raw []byte) bool {
	const shortest, longest = 16, 128
	return len(raw) >= shortest && len(raw) <= longest && !slices.ContainsFunc(raw, func(c byte) bool {
		return !words.IsAlphanumeric(c) && strings.IndexByte("+/=", c) < 0
	})
}
