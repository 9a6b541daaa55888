package example_test

import (
	"slices"
	"testing"

	"muster/dispatcher/internal/example"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// register has a label that all stores have, one whose value would mean "and", and two
// that are as frequent.
func register() []store.Place {
	place := func(id, region, note string) store.Place {
		return store.Place{StoreID: id, Labels: map[string]string{"brand": "m", "region": region, "note": note}}
	}
	return []store.Place{place("S3", "west", "a,region=x"), place("S1", "east", "a,region=x"), place("S2", "east", "O'Hare"), place("S4", "west", "a,region=x")}
}

func needy(t *testing.T) job.Spec {
	t.Helper()
	input, err := schema.Compile("needy", []byte(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	return job.Spec{Name: "a_needy", Input: input}
}

func TestExamplesNameWhatThePersonMayOrder(t *testing.T) {
	t.Parallel()
	technician := func(stores protocol.Targets, jobs ...string) people.Person {
		known, err := people.New(people.Config{Persons: []people.Person{{Name: "tech", Role: people.Technician, Stores: stores, Jobs: jobs}}})
		if err != nil {
			t.Fatal(err)
		}
		person, err := known.Who("tech")
		if err != nil {
			t.Fatal(err)
		}
		return person
	}
	all := protocol.Targets{All: true}
	jobs := []job.Spec{needy(t), {Name: "collect_log"}, {Name: "sweep"}}
	for name, c := range map[string]struct {
		person people.Person
		jobs   []job.Spec
		places []store.Place
		first  string // of the stores
		want   []string
	}{
		"everything": {technician(all), jobs, register(), "S3", []string{
			`{"job":"collect_log","stores":"all","input":{"date":"yesterday"},"dryRun":true}`,
			`{"requestId":"my-1","job":"collect_log","stores":["S3","S1"],"input":{"date":"yesterday"},"reason":"why"}`,
			`{"job":"collect_log","stores":{"labels":"region=east"},"input":{"date":"yesterday"}}`,
			`{"job":"collect_log","stores":{"allBut":["S3"]},"input":{"date":"yesterday"}}`}},
		"by labels": {technician(protocol.Targets{Labels: "note=O'Hare"}), jobs, register(), "S2", []string{
			`{"job":"collect_log","stores":{"labels":"note=O'Hare"},"input":{"date":"yesterday"},"dryRun":true}`,
			`{"requestId":"my-1","job":"collect_log","stores":["S2"],"input":{"date":"yesterday"},"reason":"why"}`}},
		"a list, of which one is gone": {technician(protocol.Targets{Stores: []string{"GONE", "S4", "S1"}}), jobs, register(), "S1", []string{
			`{"job":"collect_log","stores":["S1","S4"],"input":{"date":"yesterday"},"dryRun":true}`,
			`{"requestId":"my-1","job":"collect_log","stores":["S1","S4"],"input":{"date":"yesterday"},"reason":"why"}`}},
		"a list, without a register": {technician(protocol.Targets{Stores: []string{"S4"}}), jobs, nil, "S4", []string{
			`{"job":"collect_log","stores":["S4"],"input":{"date":"yesterday"},"dryRun":true}`,
			`{"requestId":"my-1","job":"collect_log","stores":["S4"],"input":{"date":"yesterday"},"reason":"why"}`}},
		"one store": {technician(all, "sweep", "a_needy"), jobs, register()[:1], "S3", []string{
			`{"job":"sweep","stores":"all","dryRun":true}`,
			`{"requestId":"my-1","job":"sweep","stores":["S3"],"reason":"why"}`}},
		"a job that needs an input": {technician(all, "a_needy"), jobs, nil, "", []string{`{"job":"a_needy","stores":"all","dryRun":true}`}},
		"no store of theirs":        {technician(protocol.Targets{Stores: []string{"GONE"}}), jobs, register(), "", nil},
		"no job of theirs":          {technician(all, "gone"), jobs, register(), "S3", nil},
		"no jobs":                   {technician(all), nil, register(), "S3", nil},
	} {
		examples := example.For(c.person, c.jobs, c.places)
		if got := examples.Runs("why"); !slices.Equal(got, c.want) || examples.Store() != c.first {
			t.Errorf("%s: got %q of %q, want %q of %q", name, got, examples.Store(), c.want, c.first)
		}
	}
}
