package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxDepth bounds the nesting of a document; real ones stay below 10.
	MaxDepth = 32
	// MaxLiteral bounds a number's characters: a longer one only burns time.
	MaxLiteral = 40
	// MaxKeys bounds the members of one object, so that the duplicate check
	// stays linear in memory.
	MaxKeys = 65_536
)

// Decode is the one way a payload becomes a value. It strips a UTF-8 byte
// order mark and white space, then refuses, with an *Error: an empty document
// (EMPTY_PAYLOAD), more than limit bytes (TOO_LARGE), and (BAD_JSON) UTF-16,
// bad UTF-8, depth over MaxDepth, duplicate keys or keys equal but for case,
// numbers over MaxLiteral characters or outside float64, and anything after the
// document. A value that does not fit dst is refused with SCHEMA and its path.
// Unknown members are ignored.
func Decode(data []byte, limit int, dst any) error {
	clean, err := Scan(data, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(clean, dst); err != nil {
		return unmarshalError(err)
	}
	return nil
}

// Scan applies every check of Decode that needs no destination and returns the
// document without byte order mark and surrounding white space. The returned
// bytes alias data.
func Scan(data []byte, limit int) ([]byte, error) {
	if len(data) > limit {
		return nil, &Error{Code: CodeTooLarge,
			Message:   fmt.Sprintf("the payload has %d bytes; at most %d are taken", len(data), limit),
			MessageZh: fmt.Sprintf("消息有 %d 字节，最多接受 %d 字节", len(data), limit),
			Hint:      "send less, or split the request"}
	}
	if kind := foreignEncoding(data); kind != "" {
		return nil, badJSON("", "the payload is "+kind+", not UTF-8", "save the file as UTF-8 and send it again")
	}
	clean := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if len(clean) == 0 {
		return nil, &Error{Code: CodeEmptyPayload,
			Message:   "the payload is empty",
			MessageZh: "消息内容为空",
			Hint:      `mosquitto_rr sends nothing with -f or -s; use -m "$(cat file)"`}
	}
	if !utf8.Valid(clean) {
		return nil, badJSON("", "the payload is not valid UTF-8", "save the file as UTF-8 and send it again")
	}
	if err := scanDocument(clean); err != nil {
		return nil, err
	}
	return clean, nil
}

func badJSON(path, message, hint string) *Error {
	return &Error{Code: CodeBadJSON, Path: path, Message: message, MessageZh: "消息不是有效的 JSON：" + message, Hint: hint}
}

// foreignEncoding recognises UTF-16 by its byte order mark or by a NUL beside
// the first character: JSON opens with an ASCII character.
func foreignEncoding(data []byte) string {
	if len(data) < 2 {
		return ""
	}
	switch {
	case data[0] == 0xff && data[1] == 0xfe, data[0] != 0 && data[1] == 0:
		return "UTF-16 (little endian)"
	case data[0] == 0xfe && data[1] == 0xff, data[0] == 0 && data[1] != 0:
		return "UTF-16 (big endian)"
	}
	return ""
}

// frame is one open object or array during the scan.
type frame struct {
	keys  map[string]struct{} // nil in an array; lower-cased names in an object
	name  string              // the member the scan is in
	index int
	key   bool // the next string is a member name
}

func scanDocument(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var stack []*frame
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) && len(stack) == 0 {
			return nil
		}
		if err != nil {
			return syntaxError(err, data, dec.InputOffset(), stack)
		}
		if stack, err = scanToken(stack, token); err != nil {
			return err
		}
		if len(stack) == 0 {
			return onlySpaceAfter(data[dec.InputOffset():])
		}
	}
}

func scanToken(stack []*frame, token json.Token) ([]*frame, error) {
	switch v := token.(type) {
	case json.Delim:
		switch v {
		case '{', '[':
			if len(stack) >= MaxDepth {
				return nil, badJSON(pointer(stack), fmt.Sprintf("it is nested deeper than %d levels", MaxDepth), "flatten the document")
			}
			f := &frame{}
			if v == '{' {
				f.keys, f.key = map[string]struct{}{}, true
			}
			return append(stack, f), nil
		default:
			stack = stack[:len(stack)-1]
		}
	case string:
		if f := top(stack); f != nil && f.key {
			return stack, f.enter(v, stack)
		}
	case json.Number:
		if err := checkNumber(v, stack); err != nil {
			return nil, err
		}
	}
	if f := top(stack); f != nil {
		f.index++
		f.key = f.keys != nil
	}
	return stack, nil
}

func (f *frame) enter(name string, stack []*frame) error {
	f.name, f.key = name, false
	folded := strings.ToLower(name)
	if _, twice := f.keys[folded]; twice {
		return badJSON(pointer(stack), "the member "+strconv.Quote(clip(name))+" stands twice (names that differ only in case count as one)",
			"keep one of them")
	}
	if len(f.keys) >= MaxKeys {
		return badJSON(pointer(stack), fmt.Sprintf("an object has more than %d members", MaxKeys), "split the document")
	}
	f.keys[folded] = struct{}{}
	return nil
}

func top(stack []*frame) *frame {
	if len(stack) == 0 {
		return nil
	}
	return stack[len(stack)-1]
}

func checkNumber(n json.Number, stack []*frame) error {
	if len(n) > MaxLiteral {
		return badJSON(pointer(stack), fmt.Sprintf("a number has %d characters; at most %d are taken", len(n), MaxLiteral), "send it as a string")
	}
	if _, err := strconv.ParseFloat(string(n), 64); err != nil {
		return badJSON(pointer(stack), "the number "+string(n)+" is out of range", "send a finite number below 1.8e308")
	}
	return nil
}

func onlySpaceAfter(rest []byte) error {
	if len(bytes.TrimSpace(rest)) > 0 {
		return badJSON("", "something follows the document", "send one JSON document a message")
	}
	return nil
}

func syntaxError(err error, data []byte, offset int64, stack []*frame) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	line := 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
	message := strings.TrimPrefix(err.Error(), "json: ")
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		message = "the document ends too early"
	}
	return badJSON(pointer(stack), fmt.Sprintf("line %d, byte %d: %s", line, offset, message), "check the document with a JSON tool")
}

func pointer(stack []*frame) string {
	var b strings.Builder
	for _, f := range stack {
		b.WriteByte('/')
		if f.keys != nil {
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(clip(f.name)))
		} else {
			b.WriteString(strconv.Itoa(f.index))
		}
	}
	return strings.TrimSuffix(b.String(), "/")
}

// clip keeps an error line short whatever a sender put into a name.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func unmarshalError(err error) error {
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		path := ""
		if typeErr.Field != "" {
			path = "/" + strings.ReplaceAll(typeErr.Field, ".", "/")
		}
		want := jsonName(typeErr.Type)
		return &Error{Code: CodeSchema, Path: path,
			Message:   fmt.Sprintf("it must be %s, not %s", want, typeErr.Value),
			MessageZh: fmt.Sprintf("字段 %s 的类型不对：应为 %s", path, want),
			Hint:      "see the message's schema"}
	}
	return badJSON("", strings.TrimPrefix(err.Error(), "json: "), "check the document with a JSON tool")
}

func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Pointer:
		return jsonName(t.Elem())
	default:
		return "an object"
	}
}

// Encode marshals v as one line of compact JSON without escaping <, > and &,
// so that a json.RawMessage inside it keeps its bytes if it was compact.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Compact returns doc without insignificant white space; tokens, numbers above
// all, keep their bytes.
func Compact(doc json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return nil, fmt.Errorf("cannot compact a document: %w", err)
	}
	return b.Bytes(), nil
}
