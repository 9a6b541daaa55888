package main

import (
	"fmt"
	"slices"
	"strings"
)

// field is one member of a message, wherever in it: Path is such as open[].taskId, and *
// stands for any name.
type field struct {
	Path, Type, About string
	Required          bool // where what holds it is there
	Rules             []string
}

// body is what a schema says.
type body struct {
	Title, About string
	Type         string
	Rules        []string
	Fields       []field
	Conditions   []string
}

// keywords are those that are shown. Another one stops the program: a page that leaves a
// rule out would be believed.
var keywords = []string{"$schema", "$id", "title", "description", "definitions", "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf",
	"allOf", "if", "then", "else", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "maxProperties",
	"default", "propertyNames", "additionalProperties"}

// reader collects the fields of one schema, and its first fault.
type reader struct {
	root node
	body body
	err  error
}

// readSchema reads a JSON Schema. It fails for a keyword that it does not know.
func readSchema(root node) (body, error) {
	r := reader{root: root}
	r.body = body{Title: root.text("title"), About: root.text("description"), Type: r.typeOf(root), Rules: r.rules(root)}
	r.inside(root, "")
	return r.body, r.err
}

func (r *reader) resolve(n node) node {
	n, err := n.resolve(r.root)
	if err != nil && r.err == nil {
		r.err = err
	}
	for _, member := range n {
		if name, _ := member.Key.(string); r.err == nil && !slices.Contains(keywords, name) {
			r.err = fmt.Errorf("%w: it does not know the keyword %s", errForm, name)
		}
	}
	return n
}

// alternatives are the forms that a value may have: one, or those of anyOf and oneOf.
func (r *reader) alternatives(n node) (all []node) {
	for _, one := range append(n.list("anyOf"), n.list("oneOf")...) {
		all = append(all, r.resolve(asNode(one)))
	}
	if all == nil {
		return []node{n}
	}
	return all
}

// inside adds what stands in a value at path: members, and the members of its elements.
func (r *reader) inside(n node, path string) {
	r.conditions(n, path, "if ")
	for _, one := range n.list("allOf") {
		r.conditions(r.resolve(asNode(one)), path, "if ")
	}
	for _, one := range r.alternatives(n) {
		required := one.list("required")
		for _, member := range one.child("properties") {
			r.member(path+plain(member.Key), asNode(member.Value), slices.Contains(required, member.Key))
		}
		if others := one.child("additionalProperties"); others != nil {
			r.member(path+"*", others, false)
		}
		if items := one.child("items"); items != nil {
			r.inside(r.resolve(items), strings.TrimSuffix(path, ".")+"[].")
		}
	}
}

func (r *reader) member(path string, n node, required bool) {
	n = r.resolve(n)
	r.body.Fields = append(r.body.Fields, field{path, r.typeOf(n), n.text("description"), required, r.rules(n)})
	r.inside(n, path+".")
}

func (r *reader) typeOf(n node) string {
	var forms []string
	for _, one := range r.alternatives(n) {
		switch {
		case one.has("const"):
			forms = append(forms, quoted(one.get("const")))
		case one.has("enum"):
			for _, value := range one.list("enum") {
				forms = append(forms, quoted(value))
			}
		case one.text("type") == "array":
			forms = append(forms, "list of "+r.typeOf(r.resolve(one.child("items"))))
		case one.has("type"):
			for _, name := range one.list("type") {
				forms = append(forms, plain(name))
			}
		default:
			forms = append(forms, "anything")
		}
	}
	return strings.Join(forms, " or ")
}

func (r *reader) rules(n node) (rules []string) {
	forms := r.alternatives(n)
	for _, one := range forms {
		add := func(ok bool, format string, args ...any) {
			if ok {
				rules = append(rules, fmt.Sprintf(format, args...))
			}
		}
		span := func(least, most, what string) {
			from, to := one.text(least), one.text(most)
			add(from != "" && to != "", "%s to %s%s", from, to, what)
			add(from != "" && to == "", "at least %s%s", from, what)
			add(from == "" && to != "", "at most %s%s", to, what)
		}
		span("minimum", "maximum", "")
		span("minLength", "maxLength", " characters")
		span("minItems", "maxItems", " elements")
		span("", "maxProperties", " members")
		add(one.has("pattern"), "fits %s", one.text("pattern"))
		add(one.has("format"), "a %s", one.text("format"))
		add(one.has("uniqueItems"), "each once")
		add(one.has("default"), "if absent: %s", quoted(one.get("default")))
		add(one.text("additionalProperties") == "false", "no other members")
		if names := one.child("propertyNames"); names != nil {
			names = r.resolve(names)
			add(true, "names: %s", strings.Join(append([]string{r.typeOf(names)}, r.rules(names)...), ", "))
		}
		if items := one.child("items"); items != nil {
			for _, rule := range r.rules(r.resolve(items)) {
				add(true, "each: %s", rule)
			}
		}
	}
	if len(forms) > 1 && n.has("default") {
		rules = append(rules, "if absent: "+quoted(n.get("default")))
	}
	return rules
}

// conditions adds a sentence for each if of n.
func (r *reader) conditions(n node, path, begin string) {
	test := n.child("if")
	if test == nil {
		return
	}
	where := ""
	if path != "" {
		where = "in " + strings.TrimSuffix(path, ".") + ", "
	}
	say := func(what string) { r.body.Conditions = append(r.body.Conditions, where+what) }
	say(begin + premise(test) + ": " + consequence(n.child("then")))
	if other := n.child("else"); other.has("if") {
		r.conditions(other, path, "else if ")
	} else if other != nil {
		say("else: " + consequence(other))
	}
}

func premise(n node) string {
	all := values(n)
	for _, name := range n.list("required") {
		if !n.child("properties").has(plain(name)) {
			all = append(all, plain(name)+" is there")
		}
	}
	return strings.Join(all, " and ")
}

func consequence(n node) string {
	all := values(n)
	if required := n.list("required"); len(required) > 0 {
		var names []string
		for _, name := range required {
			names = append(names, plain(name))
		}
		all = append(all, "needs "+strings.Join(names, ", "))
	}
	if all == nil {
		return "nothing more"
	}
	return strings.Join(all, "; ")
}

func values(n node) (all []string) {
	for _, member := range n.child("properties") {
		all = append(all, plain(member.Key)+" is "+quoted(asNode(member.Value).get("const")))
	}
	return all
}
