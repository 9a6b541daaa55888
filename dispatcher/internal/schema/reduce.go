package schema

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"muster/internal/protocol"
)

// maxRequired is how many members have a bit of their own.
const maxRequired = 64

// reducer makes a sure of a schema that inspect let pass and the library compiled.
type reducer struct {
	root any
	done map[string]*sure // by the place that a $ref names
}

func reduce(root any) *sure { return (&reducer{root, map[string]*sure{}}).schema(root) }

func (r *reducer) schema(value any) *sure {
	object, isObject := value.(map[string]any)
	if !isObject {
		if value == true {
			return nil
		}
		return &sure{doubt: true}
	}
	if ref, has := object["$ref"].(string); has {
		return r.reference(ref)
	}
	s := &sure{length: anyNumber, items: anyNumber, members: anyNumber}
	checks := false
	for keyword, value := range object {
		if kind := shapeOf(keyword); kind == note || kind == rootOnly || kind == definition {
			continue
		}
		checks = true
		if !r.keyword(s, keyword, value) {
			s.doubt = true
		}
	}
	if !checks {
		return nil
	}
	return s.demand(object["required"])
}

// reference follows a $ref, which cannot come back to itself.
func (r *reducer) reference(ref string) *sure {
	if known, done := r.done[ref]; done {
		return known
	}
	r.done[ref] = &sure{doubt: true}
	if at := referred(r.root, ref); at != nil {
		r.done[ref] = r.schema(at)
	}
	return r.done[ref]
}

// keyword adds one keyword. It returns false for one that is left to the library.
func (r *reducer) keyword(s *sure, keyword string, value any) bool {
	switch keyword {
	case "type":
		return s.addTypes(value)
	case "enum":
		list, isList := value.([]any)
		return isList && s.list(list...)
	case "const":
		return s.list(value)
	case "minLength", "maxLength":
		return s.length.set(keyword, value)
	case "minItems", "maxItems":
		return s.items.set(keyword, value)
	case "minProperties", "maxProperties":
		return s.members.set(keyword, value)
	case "pattern":
		source, _ := value.(string)
		pattern, err := regexp.Compile(source)
		s.pattern = pattern
		return err == nil
	case "format":
		s.format, _ = value.(string)
		return s.format != ""
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return s.bound(keyword, value)
	case "items":
		s.item = r.schema(value) // of a list: doubt
	case "additionalProperties":
		s.other = r.schema(value)
	case "properties":
		members, isObject := value.(map[string]any)
		for name, value := range members {
			s.name(name, member{check: r.schema(value)})
		}
		return isObject
	case "allOf", "anyOf":
		list, isList := value.([]any)
		for _, value := range list {
			if keyword == "allOf" {
				s.all = append(s.all, r.schema(value))
			} else {
				s.any = append(s.any, r.schema(value))
			}
		}
		return isList
	case "required": // see demand
	default:
		return false
	}
	return true
}

func (s *sure) name(name string, m member) {
	if s.named == nil {
		s.named = map[string]member{}
	}
	s.named[name] = m
}

// demand adds the members that are required. Those that no schema names are like the
// others.
func (s *sure) demand(required any) *sure {
	list, _ := required.([]any)
	for i, value := range list {
		name, isText := value.(string)
		if !isText || i >= maxRequired {
			s.doubt = true
			break
		}
		m, known := s.named[name]
		if !known {
			m.check = s.other
		}
		m.bit |= 1 << i
		s.required |= 1 << i
		s.name(name, m)
	}
	return s
}

func (s *sure) addTypes(value any) bool {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	for _, value := range list {
		switch value {
		case "object":
			s.kinds |= object
		case "array":
			s.kinds |= array
		case "string":
			s.kinds |= text
		case "number":
			s.kinds |= number
		case "integer":
			s.kinds |= integer
		case "boolean":
			s.kinds |= boolean
		case "null":
			s.kinds |= null
		default:
			return false
		}
	}
	return len(list) > 0
}

// list takes the values of enum or of const. A number counts as listed only if it is
// written alike, and a list or an object never does.
func (s *sure) list(values ...any) bool {
	if s.listed {
		return false // both at once
	}
	s.listed, s.texts, s.literals = true, map[string]bool{}, map[string]bool{}
	for _, value := range values {
		switch v := value.(type) {
		case string:
			s.texts[v] = true
		case json.Number:
			s.literals[v.String()] = true
		case bool:
			s.literals[strconv.FormatBool(v)] = true
		case nil:
			s.literals["null"] = true
		}
	}
	return true
}

func (s *span) set(keyword string, value any) bool {
	literal, _ := value.(json.Number)
	n, plain := protocol.PlainInt([]byte(literal))
	if !plain || n < 0 {
		return false
	}
	if strings.HasPrefix(keyword, "min") {
		s.least = int(n)
	} else {
		s.most = int(n)
	}
	return true
}

func (s *sure) bound(keyword string, value any) bool {
	literal, _ := value.(json.Number)
	b := bound{upper: strings.HasSuffix(strings.ToLower(keyword), "maximum"), open: strings.HasPrefix(keyword, "exclusive")}
	b.whole, b.plain = protocol.PlainInt([]byte(literal))
	f, err := literal.Float64()
	b.float = f
	s.bounds = append(s.bounds, b)
	return err == nil
}
