package protocol

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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

// Decode is the one way a payload becomes a value. It applies Scan, refuses a
// member whose name differs from one of dst's only in case (BAD_JSON), because
// encoding/json would take it for that one, and refuses a value that does not
// fit dst (SCHEMA with its path). Other unknown members are ignored. What dst holds
// after a refusal is of no use.
func Decode(data []byte, limit int, dst any) error {
	return decode(data, limit, dst, json.Unmarshal)
}

func decode(data []byte, limit int, dst any, unmarshal func(doc []byte, dst any) error) error {
	s := takeScanner()
	defer s.giveBack()
	if err := s.scan(data, limit, reflect.TypeOf(dst)); err != nil {
		return err
	}
	if err := unmarshal(s.without(), dst); err != nil {
		return unmarshalError(err, reflect.TypeOf(dst))
	}
	for _, r := range s.raw {
		reflect.ValueOf(dst).Elem().Field(r.field).SetBytes(bytes.Clone(s.data[r.start:r.end]))
	}
	return nil
}

// without is the document with null for what is decoded as it is: the library would
// read that twice more.
func (s *scanner) without() []byte {
	if len(s.raw) == 0 {
		return s.data
	}
	size, done := len(s.data), 0
	for _, r := range s.raw {
		size += len("null") - (r.end - r.start)
	}
	short := make([]byte, 0, size)
	for _, r := range s.raw {
		short = append(append(short, s.data[done:r.start]...), "null"...)
		done = r.end
	}
	return append(short, s.data[done:]...)
}

// Scan strips a UTF-8 byte order mark and white space and returns the document
// that is left; it aliases data. It refuses, with an *Error: an empty document
// (EMPTY_PAYLOAD), more than limit bytes (TOO_LARGE), and (BAD_JSON) UTF-16 and
// UTF-32, bad UTF-8, half a surrogate pair, depth over MaxDepth, duplicate member names
// or names equal but for case, numbers over MaxLiteral characters or outside
// float64, and anything after the document.
func Scan(data []byte, limit int) ([]byte, error) {
	s := takeScanner()
	defer s.giveBack()
	err := s.scan(data, limit, nil)
	return s.data, err
}

func (s *scanner) scan(data []byte, limit int, into reflect.Type) error {
	if len(data) > limit {
		return &Error{Code: CodeTooLarge,
			Message:   fmt.Sprintf("the payload has %d bytes; at most %d are taken", len(data), limit),
			MessageZh: fmt.Sprintf("消息有 %d 字节，最多接受 %d 字节", len(data), limit),
			Hint:      "send less, or split the request",
			HintZh:    "请减少内容，或拆分请求"}
	}
	if kind, kindZh := foreignEncoding(data); kind != "" {
		return badJSON("", "the payload is "+kind+", not UTF-8", "消息是 "+kindZh+" 编码，应为 UTF-8", asUTF8, asUTF8Zh)
	}
	clean := bytes.Trim(bytes.TrimPrefix(data, []byte(string(byteOrderMark))), " \t\r\n")
	if len(clean) == 0 {
		return &Error{Code: CodeEmptyPayload,
			Message:   "the payload is empty",
			MessageZh: "消息内容为空",
			Hint:      `mosquitto_rr sends nothing with -f or -s; use -m "$(cat file)"`,
			HintZh:    `mosquitto_rr 用 -f 或 -s 时发送的是空消息；请用 -m "$(cat file)"`}
	}
	s.data, s.root = clean, into
	s.stack, s.names, s.raw = s.fewFrames[:0], s.fewNames[:0], s.fewRaw[:0]
	err := s.document()
	if err == nil {
		return nil
	}
	s.data = nil
	// What cannot be read at all is said first, wherever it stands.
	switch {
	case !utf8.Valid(clean):
		return notUTF8(clean)
	case errors.Is(err, errSyntax), !json.Valid(clean):
		return syntaxError(clean)
	}
	return err
}

func badJSON(path, message, messageZh, hint, hintZh string) *Error {
	return &Error{Code: CodeBadJSON, Path: path, Message: message, MessageZh: messageZh, Hint: hint, HintZh: hintZh}
}

func tooDeep(path string) *Error {
	return badJSON(path, fmt.Sprintf("it is nested deeper than %d levels", MaxDepth),
		fmt.Sprintf("嵌套超过 %d 层", MaxDepth), "flatten the document", "请减少文档的嵌套层数")
}

// syntaxError says where and why a document is no JSON. It is called for those
// alone.
func syntaxError(data []byte) *Error {
	var (
		value  json.RawMessage
		syntax *json.SyntaxError
		offset = len(data)
		why    = "the document ends too early"
		whyZh  = "文档不完整，过早结束"
		odd    rune
	)
	if err := json.Unmarshal(data, &value); errors.As(err, &syntax) {
		if strings.HasSuffix(syntax.Error(), "exceeded max depth") { // 10,000 levels
			return tooDeep("")
		}
		offset = min(int(syntax.Offset), len(data))
		if text := syntax.Error(); text != "unexpected end of JSON input" {
			odd, _ = utf8.DecodeRune(data[max(offset, 1)-1:])
			why, whyZh = misplaced(odd, text)
		}
	}
	if strings.Contains(why, "after top-level value") {
		return badJSON("", "something follows the document", "JSON 文档之后还有多余内容", "send one JSON document a message", "每条消息只发送一个 JSON 文档")
	}
	line := 1 + bytes.Count(data[:offset], []byte("\n"))
	hint, hintZh := misspelt(odd, data[0] == '{' && len(data) > len("{}") && !bytes.ContainsRune(data, '"'))
	if hint == "" {
		hint, hintZh = "check the document with a JSON tool", "请用 JSON 工具检查该文档"
	}
	return badJSON("", fmt.Sprintf("line %d, byte %d: %s", line, offset, why),
		fmt.Sprintf("不是有效的 JSON：第 %d 行，第 %d 字节：%s", line, offset, whyZh), hint, hintZh)
}

// misplaced says in English and in Chinese what encoding/json says of the byte with which
// a character begins.
func misplaced(r rune, text string) (en, zh string) {
	const before = "invalid character "
	_, after, _ := strings.Cut(text, before)
	quoted, err := strconv.QuotedPrefix(after)
	switch name, nameZh := character(r); {
	case err != nil:
		return text, "此处的字符不符合 JSON 语法"
	case r < utf8.RuneSelf:
		return text, "此处不应出现字符 " + quoted
	default:
		return before + name + strings.TrimPrefix(after, quoted), "此处不应出现字符 " + nameZh
	}
}

func unmarshalError(err error, t reflect.Type) error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal
	}
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		path := pointerOf(typeErr.Field, t)
		want, wantZh := jsonName(typeErr.Type)
		given, givenZh := givenName(typeErr.Value)
		return &Error{Code: CodeSchema, Path: path,
			Message:   fmt.Sprintf("%s: must be %s, not %s", cmp.Or(path, "document"), want, given),
			MessageZh: fmt.Sprintf("%s：类型应为%s，实际为%s", cmp.Or(path, "整个文档"), wantZh, givenZh),
			Hint:      MendIt, HintZh: MendItZh}
	}
	why := clip(strings.TrimPrefix(err.Error(), "json: "))
	return &Error{Code: CodeSchema, Message: "a value does not fit: " + why, MessageZh: "有字段的值不符合要求",
		Hint: MendIt, HintZh: MendItZh}
}

// MendIt and MendItZh are what to do about a value that does not fit, where nothing more
// is known of it.
const (
	MendIt   = "mend what is named, and send it again"
	MendItZh = "请修改所指之处后重发"
)

// givenName is what encoding/json says of a value, in English and in Chinese. Of a number
// it says the number.
func givenName(value string) (en, zh string) {
	switch value {
	case "string":
		return "a string", "字符串"
	case "bool":
		return "true or false", " true 或 false"
	case "array":
		return "an array", "数组"
	case "object":
		return "an object", "对象"
	}
	number := strings.TrimPrefix(value, "number ")
	return number, " " + number
}

// jsonName is what a type is in JSON, in English and in Chinese.
func jsonName(t reflect.Type) (en, zh string) {
	switch t.Kind() {
	case reflect.String:
		return "a string", "字符串"
	case reflect.Bool:
		return "true or false", " true 或 false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number", "整数"
	case reflect.Float32, reflect.Float64:
		return "a number", "数字"
	case reflect.Slice, reflect.Array:
		return "an array", "数组"
	case reflect.Pointer:
		return jsonName(t.Elem())
	default:
		return "an object", "对象"
	}
}

// Encode marshals v as one line of compact JSON without escaping <, > and &,
// so that a json.RawMessage inside it keeps its bytes if it was compact.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(512) // most messages have less
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
