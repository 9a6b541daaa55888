package checker_test

import (
	"slices"
	"strings"
	"testing"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// plant is one violation in an otherwise clean world. before changes what
// happened, after what is found of it once the reports are out, told what was
// told of the runs. want is every finding that it makes.
type plant struct {
	name   string
	rule   checker.Rule
	before func(*world)
	after  func(*world)
	told   func(*world)
	want   string
}

func (p plant) found(t *testing.T) []checker.Finding {
	w := clean(t)
	if p.before != nil {
		p.before(w)
	}
	w.publish()
	w.looks(50_000)
	w.looks(180_000)
	if p.after != nil {
		p.after(w)
	}
	w.tell()
	if p.told != nil {
		p.told(w)
	}
	return w.check()
}

func TestEachViolationIsFoundAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, p := range plants() {
		t.Run(string(p.rule)+" "+p.name, func(t *testing.T) {
			t.Parallel()
			var texts []string
			for _, f := range p.found(t) {
				texts = append(texts, f.String())
				if f.Rule != p.rule {
					t.Errorf("rule %s cries too", f.Rule)
				}
			}
			if got := strings.Join(texts, "\n"); got != p.want {
				t.Errorf("found\n%s\nwant\n%s", got, p.want)
			}
		})
	}
}

func TestEachRuleHasTwoPlantedViolations(t *testing.T) {
	t.Parallel()
	count := map[checker.Rule]int{}
	for _, p := range plants() {
		count[p.rule]++
	}
	if len(checker.Rules()) != 16 {
		t.Errorf("rules %v", checker.Rules())
	}
	for _, rule := range checker.Rules() {
		if count[rule] < 2 {
			t.Errorf("rule %s has %d", rule, count[rule])
		}
	}
}

func plants() []plant {
	return slices.Concat(answerPlants(), movePlants(), executionPlants(), targetPlants(), reportPlants(), attemptPlants(), outcomePlants(), retryPlants(), workbookPlants(), valuePlants(), totalPlants(), bytePlants(),
		summaryPlants(), earlyPlants(), statePlants(), lookPlants(),
		quietPlants(), quietReportPlants(), budgetPlants(), ownPlants(), endPlants())
}

// edit changes the first line that is chosen.
func (w *world) edit(is func(history.Line) bool, change func(*history.Line)) {
	w.t.Helper()
	change(find(w.t, w.e.History, is))
}

// without takes all lines out that are chosen; the others keep their numbers.
func (w *world) without(is func(history.Line) bool) {
	w.e.History = slices.DeleteFunc(w.e.History, is)
}

// about chooses lines of an act whose payload has all the words.
func about(act history.Act, words ...string) func(history.Line) bool {
	return func(l history.Line) bool {
		return l.Act == act && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(l.Payload, word) })
	}
}

func replace(old, with string) func(*history.Line) {
	return func(l *history.Line) { l.Payload = strings.ReplaceAll(l.Payload, old, with) }
}
