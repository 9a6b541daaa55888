package people_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

func verbs() []protocol.Verb {
	return []protocol.Verb{protocol.VerbRun, protocol.VerbCancel, protocol.VerbRetry, protocol.VerbStatus, protocol.VerbApprove, protocol.VerbJobs, protocol.VerbHelp}
}

func chinese(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// refused checks that err is a refusal that a technician can read.
func refused(t *testing.T, err error, path, say string) {
	t.Helper()
	var refusal *protocol.Error
	if !errors.As(err, &refusal) {
		t.Errorf("want a refusal that says %q, got %v", say, err)
		return
	}
	if refusal.Code != protocol.CodeNotAllowed || refusal.Path != path || !strings.Contains(refusal.Message, say) || refusal.Hint == "" ||
		!chinese(refusal.MessageZh) || !chinese(refusal.HintZh) {
		t.Errorf("want %q at %q, got %+v", say, path, refusal)
	}
}

// TestTheDocumentsTableIsTheCodes holds docs/protocol/technician.md to what is
// enforced: a row a role, a column a verb.
func TestTheDocumentsTableIsTheCodes(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/protocol/technician.md")
	if err != nil {
		t.Fatal(err)
	}
	anybody, err := people.Anonymous().Who("anybody")
	if err != nil {
		t.Fatal(err)
	}
	row := func(name string, has []protocol.Verb) string {
		line := "| " + name + " |"
		for _, verb := range verbs() {
			if slices.Contains(has, verb) {
				line += " yes"
			}
			line += " |"
		}
		return line + "\n"
	}
	want := "| role |"
	for _, verb := range verbs() {
		want += " `" + string(verb) + "` |"
	}
	want += "\n|" + strings.Repeat("---|", len(verbs())+1) + "\n"
	for _, role := range people.Roles() {
		want += row(string(role), role.Verbs())
	}
	want += row("anybody, without a users file", anybody.Verbs())
	if !strings.Contains(string(doc), "\n"+want+"\n") {
		t.Errorf("docs/protocol/technician.md does not hold the table\n%s", want)
	}
}

func TestMayIsWhatVerbsLists(t *testing.T) {
	t.Parallel()
	for _, role := range append(people.Roles(), "made_up") {
		person := people.Person{Name: "wang", Role: role}
		for _, verb := range append(verbs(), "made_up") {
			err := person.May(verb)
			if slices.Contains(role.Verbs(), verb) {
				if err != nil {
					t.Errorf("%s, %s: %v", role, verb, err)
				}
				continue
			}
			refused(t, err, "", "may not ask for "+string(verb))
		}
	}
}

func TestAStrangerIsNobody(t *testing.T) {
	t.Parallel()
	p, err := people.New(people.Config{Persons: []people.Person{{Name: "wang", Role: people.Operator}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "Wang", "wang ", "li", strings.Repeat("x", 1000)} {
		_, err := p.Who(name)
		refused(t, err, "", "knows no user")
	}
	if wang, err := p.Who("wang"); err != nil || wang.May(protocol.VerbRun) != nil || wang.May(protocol.VerbApprove) == nil {
		t.Errorf("wang is %+v, %v", wang, err)
	}
	if _, err := people.Anonymous().Who("a/b"); err == nil {
		t.Error("a terminal is anybody")
	}
}

func TestABadListIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		persons []people.Person
		want    string
	}{
		"name":   {[]people.Person{{Name: "a b", Role: people.Operator}}, `cannot take user "a b": the name must be`},
		"role":   {[]people.Person{{Name: "a", Role: "boss"}}, `cannot take user "a": unknown role "boss"; use one of [technician`},
		"twice":  {[]people.Person{{Name: "a", Role: people.Operator}, {Name: "a", Role: people.Auditor}}, `cannot take user "a": the name stands twice`},
		"key":    {[]people.Person{{Name: "a", Role: people.Operator, Key: []byte("short")}}, `cannot take user "a": the key has 5 bytes`},
		"labels": {[]people.Person{{Name: "a", Role: people.Technician, Stores: protocol.Targets{Labels: "region"}}}, `cannot take user "a": SCHEMA at /stores/labels: the label expression "region" is wrong at character 1`},
	} {
		if _, err := people.New(people.Config{Persons: c.persons}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func places(n int) []store.Place {
	var list []store.Place
	for i := range n {
		list = append(list, store.Place{StoreID: fmt.Sprintf("S%03d", i), Labels: map[string]string{"region": []string{"east", "west"}[i%2]}})
	}
	return list
}

func TestForeignStoresRefuseTheWholeRequest(t *testing.T) {
	t.Parallel()
	p, err := people.New(people.Config{Persons: []people.Person{
		{Name: "list", Role: people.Technician, Stores: protocol.Targets{Stores: []string{"S000", "S001"}}},
		{Name: "east", Role: people.Technician, Stores: protocol.Targets{Labels: "region=east"}},
		{Name: "all", Role: people.Technician, Stores: protocol.Targets{All: true}},
		{Name: "none", Role: people.Technician},
		{Name: "olga", Role: people.Operator},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		at   []store.Place
		say  string
	}{
		{"list", places(2), ""},
		{"list", places(13), "not a store of list: S002, S003, S004, S005, S006, S007, S008, S009, S010, S011 and 1 more; nothing was done"},
		{"east", places(1), ""},
		{"east", places(4), "not a store of east: S001, S003; nothing was done"},
		{"all", places(30), ""},
		{"none", places(1), "not a store of none: S000"},
		{"olga", places(30), ""},
	} {
		person, err := p.Who(c.name)
		if err != nil {
			t.Fatal(err)
		}
		err = person.MayOrderAt(c.at)
		if c.say != "" {
			refused(t, err, "/stores", c.say)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestOnlyJobsOfTheEntryAreOrdered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		person people.Person
		ok     bool
	}{
		{people.Person{Name: "a", Role: people.Technician}, true},
		{people.Person{Name: "a", Role: people.Technician, Jobs: []string{"count", "probe"}}, true},
		{people.Person{Name: "a", Role: people.Technician, Jobs: []string{"count"}}, false},
		{people.Person{Name: "a", Role: people.Technician, Jobs: []string{}}, false},
		{people.Person{Name: "a", Role: people.Operator, Jobs: []string{"count"}}, true},
	} {
		err := c.person.MayOrder("probe")
		if !c.ok {
			refused(t, err, "/job", "may not order the job probe")
		} else if err != nil {
			t.Errorf("%+v: %v", c.person, err)
		}
	}
}

func TestOnlyASignatureOfTheUsersKeyIsBelieved(t *testing.T) {
	t.Parallel()
	const topic = "muster/v1/req/wang/run"
	payload := []byte(`{"job":"probe"}`)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := trust.NewSigner(private).Sign(topic, payload)
	wang, bare := people.Person{Name: "wang", Role: people.Operator, Key: public}, people.Person{Name: "bare", Role: people.Operator}
	signed, err := people.New(people.Config{Persons: []people.Person{wang, bare}, RequireSigned: true})
	if err != nil {
		t.Fatal(err)
	}
	believing, err := people.New(people.Config{Persons: []people.Person{wang, bare}})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []protocol.Verb{protocol.VerbRun, protocol.VerbCancel, protocol.VerbRetry, protocol.VerbApprove} {
		if err := signed.Believe(wang, verb, topic, payload, good); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		refused(t, signed.Believe(wang, verb, topic, payload, trust.Signature{}), "", "is not signed")
		refused(t, signed.Believe(wang, verb, topic+"x", payload, good), "", "not of the user's key")
		refused(t, signed.Believe(wang, verb, topic, []byte(`{"job":"other"}`), good), "", "not of the user's key")
		refused(t, signed.Believe(wang, verb, topic, payload, trust.NewSigner(other).Sign(topic, payload)), "", "not of the user's key")
		refused(t, signed.Believe(bare, verb, topic, payload, good), "", "has no key")
		if err := believing.Believe(bare, verb, topic, payload, trust.Signature{}); err != nil {
			t.Errorf("where none is due: %v", err)
		}
	}
	for _, verb := range []protocol.Verb{protocol.VerbStatus, protocol.VerbJobs, protocol.VerbHelp} {
		if err := signed.Believe(bare, verb, topic, payload, trust.Signature{}); err != nil {
			t.Errorf("a question, %s: %v", verb, err)
		}
	}
}
