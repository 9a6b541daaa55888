package schema

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/xeipuuv/gojsonschema"

	"muster/internal/protocol"
	"muster/internal/usage"
)

const (
	// maxLines bounds the lines of one refusal: more help nobody.
	maxLines = 20
	// maxText bounds what a line repeats of a document or a schema, in bytes.
	maxText = 200
	// separator cannot occur in a member name, because documents are UTF-8.
	separator = "\xff"
)

// what is said of a member that a schema does not allow.
const (
	notAllowed   = "is not allowed"
	notAllowedZh = "不允许出现该字段"
)

// fault is one line of a refusal.
type fault struct {
	pointer  string
	reason   string
	reasonZh string
	stranger string // a member of the document's own object that is not allowed
	forms    bool   // it says all that the value may be
}

func (s *Schema) refusal(list []fault) *protocol.Error {
	en, zh := make([]string, 0, len(list)), make([]string, 0, len(list))
	for _, f := range list[:min(len(list), maxLines)] {
		if meant := usage.Nearest(f.stranger, s.members); f.stranger != "" && meant != "" {
			f.reason += fmt.Sprintf("; did you mean %q?", meant)
			f.reasonZh += fmt.Sprintf("，是否应为 %q？", meant)
		}
		en = append(en, orDocument(f.pointer, "document")+": "+f.reason)
		zh = append(zh, orDocument(f.pointer, "整个文档")+"："+f.reasonZh)
	}
	hint, hintZh := s.hint()
	return &protocol.Error{
		Code:      protocol.CodeSchema,
		Path:      list[0].pointer,
		Message:   strings.Join(en, "\n"),
		MessageZh: strings.Join(zh, "\n"),
		Hint:      hint,
		HintZh:    hintZh,
	}
}

// hint lists the members that the schema names, for a reader who does not have it. Like a
// line of a refusal it begins with "document".
func (s *Schema) hint() (en, zh string) {
	if len(s.names) == 0 {
		return protocol.MendIt, protocol.MendItZh
	}
	return "document: takes " + clip(strings.Join(s.names, ", ")), "整个文档：可用字段为 " + clip(strings.Join(s.names, "、"))
}

func orDocument(pointer, word string) string {
	if pointer == "" {
		return word
	}
	return pointer
}

// faults turns the library's errors into sorted lines without repetition.
// Lines that only say that a part failed go when the part's own line is there, and those
// of one form that a value might have when a line has all its forms.
func (s *Schema) faults(errs []gojsonschema.ResultError) []fault {
	var out, framing []fault
	told := map[string]bool{}
	for _, e := range errs {
		f := fault{pointer: pointerOf(e)}
		f.reason, f.reasonZh = reasonOf(e)
		f.stranger = stranger(e)
		if en, zh := s.fitting(e, len(errs)); en != "" {
			f.reason, f.reasonZh, f.forms = en, zh, e.Type() == "number_any_of"
			told[f.pointer] = told[f.pointer] || f.forms
		}
		switch e.Type() {
		case "number_all_of", "condition_then", "condition_else":
			framing = append(framing, f)
		default:
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		out = framing
	}
	out = slices.DeleteFunc(out, func(f fault) bool { return told[f.pointer] && !f.forms })
	slices.SortFunc(out, func(a, b fault) int {
		if c := strings.Compare(a.pointer, b.pointer); c != 0 {
			return c
		}
		return strings.Compare(a.reason, b.reason)
	})
	return slices.Compact(out)
}

// strangers are the members of the document's own object that are not allowed, in order;
// of more than one refusal has lines for, one more than that.
func (s *Schema) strangers(document any) (list []fault) {
	object, _ := document.(map[string]any)
	if s.members == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(list) > maxLines {
			break
		}
		if _, allowed := slices.BinarySearch(s.members, name); !allowed {
			list = append(list, fault{pointer: "/" + escape(clip(name)), reason: notAllowed, reasonZh: notAllowedZh, stranger: clip(name)})
		}
	}
	return list
}

// stranger is the member of the document's own object that an error says is not allowed,
// "" when it says something else.
func stranger(e gojsonschema.ResultError) string {
	if e.Type() != "additional_property_not_allowed" || strings.Contains(e.Context().String(separator), separator) {
		return ""
	}
	name, _ := e.Details()["property"].(string)
	return clip(name)
}

func pointerOf(e gojsonschema.ResultError) string {
	var b strings.Builder
	levels := strings.Split(e.Context().String(separator), separator)
	for _, level := range levels[1:] {
		b.WriteString("/" + escape(clip(level)))
	}
	switch e.Type() {
	case "required", "additional_property_not_allowed", "invalid_property_pattern", "invalid_property_name":
		if name, ok := e.Details()["property"].(string); ok {
			b.WriteString("/" + escape(clip(name)))
		}
	}
	return clip(b.String())
}

// idPattern is that of every id in the schemas: people get its rule in words.
const idPattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`

// reasonOf words one error in English and Chinese. Words of the schema stay as they are:
// they are what must be typed.
func reasonOf(e gojsonschema.ResultError) (en, zh string) {
	detail := func(key string) string { return clip(shown(e.Details()[key])) }
	switch e.Type() {
	case "required":
		return "is required", "缺少必填字段"
	case "additional_property_not_allowed", "invalid_property_pattern":
		return notAllowed, notAllowedZh
	case "invalid_type":
		want, wantZh := typeWords(detail("expected"))
		given, givenZh := givenWords(detail("given"))
		return "must be " + want + ", not " + given, "类型应为" + wantZh + "，实际为" + givenZh
	case "const":
		return "must be " + detail("allowed"), "必须是 " + detail("allowed")
	case "enum":
		return "must be one of " + detail("allowed"), "必须是以下之一：" + detail("allowed")
	case "pattern":
		if detail("pattern") == idPattern {
			return idReason(e.Value())
		}
		return "must match " + detail("pattern"), "格式必须符合 " + detail("pattern")
	case "format":
		en, zh = formatWords(detail("format"))
		return "must be " + en, "应为" + zh
	case "number_gte":
		return "must be at least " + detail("min"), "不能小于 " + detail("min")
	case "number_gt":
		return "must be more than " + detail("min"), "必须大于 " + detail("min")
	case "number_lte":
		return "must be at most " + detail("max"), "不能大于 " + detail("max")
	case "number_lt":
		return "must be less than " + detail("max"), "必须小于 " + detail("max")
	case "multiple_of":
		return "must be a multiple of " + detail("multiple"), "必须是 " + detail("multiple") + " 的倍数"
	}
	return sizeReason(e, detail)
}

// idReason says what an id is, and what keeps a value from being one.
func idReason(value any) (en, zh string) {
	en, zh = "must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", "须由 1 至 63 个 A-Z a-z 0-9 . _ - 组成，以字母或数字开头"
	text, _ := value.(string)
	if odd, oddZh := protocol.OddInID(text); odd != "" {
		return en + "; " + odd, zh + "；" + oddZh
	}
	return en, zh
}

// shown writes a bound as a person would: the library's own way gives a large
// whole number an exponent and an inexact one ten digits.
func shown(detail any) string {
	const plainBits = 80 // up to some 24 digits; longer ones read better with an exponent
	switch v := detail.(type) {
	case float64:
		return shown(big.NewFloat(v))
	case *big.Rat:
		if v.IsInt() {
			return v.Num().String()
		}
		return shown(new(big.Float).SetRat(v))
	case *big.Float:
		if size := v.MantExp(nil); size < -plainBits || size > plainBits {
			return v.Text('g', -1)
		}
		return v.Text('f', -1)
	}
	return fmt.Sprint(detail)
}

func sizeReason(e gojsonschema.ResultError, detail func(string) string) (en, zh string) {
	switch e.Type() {
	case "string_gte":
		return "must have at least " + detail("min") + " characters", "至少 " + detail("min") + " 个字符"
	case "string_lte":
		return "must have at most " + detail("max") + " characters", "最多 " + detail("max") + " 个字符"
	case "array_min_items":
		return "must have at least " + detail("min") + " items", "至少 " + detail("min") + " 项"
	case "array_max_items":
		return "must have at most " + detail("max") + " items", "最多 " + detail("max") + " 项"
	case "array_min_properties":
		return "must have at least " + detail("min") + " members", "至少 " + detail("min") + " 个字段"
	case "array_max_properties":
		return "must have at most " + detail("max") + " members", "最多 " + detail("max") + " 个字段"
	case "unique":
		return "items " + detail("i") + " and " + detail("j") + " are equal", "第 " + detail("i") + " 项与第 " + detail("j") + " 项重复"
	case "array_no_additional_items":
		return "has too many items", "数组项过多"
	case "contains":
		return "must contain a fitting item", "缺少符合要求的项"
	case "missing_dependency":
		return "needs " + detail("dependency") + " beside it", "还需要字段 " + detail("dependency")
	case "number_any_of":
		return "fits none of the allowed forms", "不符合任何一种允许的形式"
	case "number_one_of":
		return "must fit exactly one of the allowed forms", "必须恰好符合一种允许的形式"
	case "number_not", "false":
		return "is not allowed", "不允许"
	case "invalid_property_name":
		return "is no allowed name", "字段名不符合要求"
	}
	return "does not fit the schema", "不符合格式要求"
}

// typesZh are the types of JSON in Chinese. What is Latin there keeps its distance.
var typesZh = map[string]string{"string": "字符串", "integer": "整数", "number": "数字", "array": "数组", "object": "对象",
	"boolean": " true 或 false", "null": " null"}

// typeWords turns the library's list of types, "string,null" or "[string,null]",
// into words, in English and in Chinese.
func typeWords(list string) (en, zh string) {
	types := strings.Split(strings.Trim(list, "[]"), ",")
	named := make([]string, 0, len(types))
	for _, name := range types {
		named = append(named, cmp.Or(typesZh[name], " "+name))
	}
	return strings.Join(types, " or "), strings.Join(named, "或")
}

// givenWords names the type that a value has. A number is one that is not whole: the
// library has another name for those that are.
func givenWords(name string) (en, zh string) {
	if name == gojsonschema.TYPE_NUMBER {
		return name, "小数"
	}
	return typeWords(name)
}

func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// dateTime is RFC 3339, section 5.6, date-time in capitals and without leap
// seconds.
type dateTime struct{}

// IsFormat reports whether input is a date-time.
func (dateTime) IsFormat(input any) bool {
	text, ok := input.(string)
	return ok && isDateTime([]byte(text))
}

func isDateTime(text []byte) bool {
	rest, ok := shaped(text, "0000-00-00T00:00:00")
	if !ok {
		return false
	}
	if len(rest) > 0 && rest[0] == '.' {
		digits := 0
		for digits+1 < len(rest) && rest[digits+1] >= '0' && rest[digits+1] <= '9' {
			digits++
		}
		if digits > 9 { // none is refused below
			return false
		}
		rest = rest[1+digits:]
	}
	if string(rest) != "Z" {
		if len(rest) == 0 || rest[0] != '+' && rest[0] != '-' {
			return false
		}
		if rest, ok = shaped(rest[1:], "00:00"); !ok || len(rest) > 0 {
			return false
		}
	}
	_, err := time.Parse(time.RFC3339, string(text))
	return err == nil
}

// shaped cuts what looks like the shape, in which 0 stands for any digit, off a text.
func shaped(text []byte, shape string) (rest []byte, ok bool) {
	if len(text) < len(shape) {
		return nil, false
	}
	for i := range len(shape) {
		if c := text[i]; c != shape[i] && (shape[i] != '0' || c < '0' || c > '9') {
			return nil, false
		}
	}
	return text[len(shape):], true
}
