// Package example chooses what examples for a person name: a job, stores and labels
// which this person may order, so that whoever sends a line as it stands is not refused
// for what it names.
//
// It reads no file, and it decides nobody's rights: people does.
package example

import (
	"encoding/json"
	"slices"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/selector"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

const (
	// mostListed is how many of the stores of who has a list are named at once.
	mostListed = 5
	// mostSeen bounds the stores whose labels are counted: more would choose no better.
	mostSeen = 1000
	// usual is the job that is named if the person may order it, with its input.
	usual, usualInput = "collect_log", `{"date":"yesterday"}`
)

// Examples are what examples for one person name. The zero value names nothing.
type Examples struct {
	// Stores are up to five stores at which the person may order, none if none is known.
	Stores []string

	order      protocol.RunRequest // at as many stores as the person may; without a job there is no run to ask for
	labels     string              // that some stores have and others do not; "": none
	everywhere bool
}

// For chooses from the jobs and the register that headquarters has; either may be
// empty, which is unknown.
func For(person people.Person, jobs []job.Spec, places []store.Place) Examples {
	e := Examples{Stores: own(person, places), everywhere: person.Everywhere()}
	e.order.Job, e.order.Input = orderable(person, jobs)
	switch {
	case e.everywhere:
		e.order.Stores.All = true
		e.labels = frequent(places[:min(len(places), mostSeen)])
	case person.Stores.Labels != "":
		e.order.Stores.Labels = person.Stores.Labels
	case len(e.Stores) > 0:
		e.order.Stores.Stores = e.Stores
	default:
		e.order.Job = ""
	}
	return e
}

// Store is the first of the stores, "" if there is none.
func (e Examples) Store() string {
	if len(e.Stores) == 0 {
		return ""
	}
	return e.Stores[0]
}

// Runs are requests for a run as JSON, each with other targets, and for the reason where
// there is one; none if the person may order nothing.
func (e Examples) Runs(reason string) (list []string) {
	if e.order.Job == "" {
		return nil
	}
	widest, few := e.order, e.order
	widest.DryRun = true
	few.RequestID, few.Reason = "my-1", reason
	few.Stores = protocol.Targets{Stores: e.Stores[:min(len(e.Stores), 2)]}
	requests := []protocol.RunRequest{widest}
	if len(e.Stores) > 0 {
		requests = append(requests, few)
	}
	if e.labels != "" {
		requests = append(requests, e.at(protocol.Targets{Labels: e.labels}))
	}
	if e.everywhere && len(e.Stores) > 1 {
		requests = append(requests, e.at(protocol.Targets{AllBut: e.Stores[:1]}))
	}
	for _, request := range requests {
		if text, err := protocol.Encode(request); err == nil { // its input is valid JSON
			list = append(list, string(text))
		}
	}
	return list
}

func (e Examples) at(targets protocol.Targets) protocol.RunRequest {
	request := e.order
	request.Stores = targets
	return request
}

// own are stores at which the person may order, in the order of the register.
func own(person people.Person, places []store.Place) (ids []string) {
	if len(places) == 0 && !person.Everywhere() {
		ids = person.OwnIDs(nil)
		return ids[:min(len(ids), mostListed)]
	}
	theirs := map[string]bool{}
	if !person.Everywhere() {
		for _, id := range person.OwnIDs(places) {
			theirs[id] = true
		}
	}
	for _, place := range places {
		if len(ids) == mostListed {
			break
		}
		if person.Everywhere() || theirs[place.StoreID] {
			ids = append(ids, place.StoreID)
		}
	}
	return ids
}

// orderable is a job that the person may order, "" if there is none: the usual one, else
// one that needs no input, else any.
func orderable(person people.Person, jobs []job.Spec) (name string, input json.RawMessage) {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(spec job.Spec) bool { return person.MayOrder(spec.Name) != nil })
	for _, spec := range jobs {
		if spec.Name == usual {
			return usual, json.RawMessage(usualInput)
		}
	}
	for _, spec := range jobs {
		if spec.Input == nil || spec.Input.Validate([]byte(`{}`)) == nil {
			return spec.Name, nil
		}
	}
	if len(jobs) > 0 {
		return jobs[0].Name, nil
	}
	return "", nil
}

// frequent is the label that most stores have and not all, as an expression; of two that
// are as frequent, the first by its letters. "": there is none that can be asked for.
func frequent(places []store.Place) (best string) {
	type label struct{ key, value string }
	counts := map[label]int{}
	for _, place := range places {
		for key, value := range place.Labels {
			counts[label{key, value}]++
		}
	}
	most := 0
	for l, n := range counts {
		expression := l.key + "=" + l.value
		if n == len(places) || n < most || n == most && expression > best {
			continue
		}
		wanted, err := selector.Parse(expression)
		if err == nil && wanted.Matches(map[string]string{l.key: l.value}) { // a comma in a value would mean "and"
			best, most = expression, n
		}
	}
	return best
}
