package route_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/broker/server/route"
)

func clients(readers []route.Reader) (names []string) {
	for _, r := range readers {
		names = append(names, r.Client)
	}
	slices.Sort(names)
	return names
}

func TestReaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/B", false}, {"a/b", "a/b/c", false}, {"a/b", "a", false},
		{"a/+", "a/b", true}, {"a/+", "a/", true}, {"a/+", "a", false}, {"a/+", "a/b/c", false},
		{"+/+", "/b", true}, {"+", "a", true}, {"+", "/a", false}, {"+/b/#", "a/b", true},
		{"a/#", "a", true}, {"a/#", "a/b/c", true}, {"a/#", "ab", false}, {"#", "a/b", true},
		{"#", "$SYS/a", false}, {"+/a", "$SYS/a", false}, {"$SYS/#", "$SYS/a", true}, {"a/+", "a/$b", true},
		{"$share/g/a/+", "a/b", true}, {"$SHARE/g/a/+", "a/b", true}, {"$share/g/a", "g/a", false},
	} {
		var table route.Table
		if !table.Set(c.filter, "x", route.Options{}) || table.Set(c.filter, "x", route.Options{}) || table.Len() != 1 {
			t.Errorf("%s: is not one subscription", c.filter)
		}
		if !table.Has(c.filter, "x") || table.Has(c.filter, "y") || table.Has(c.filter+"/z", "x") {
			t.Errorf("%s: is not what is held", c.filter)
		}
		if got := len(table.Readers(c.topic, nil)) == 1; got != c.want || table.Any(c.topic) != c.want {
			t.Errorf("%s for %s: %v", c.filter, c.topic, got)
		}
		if table.Remove("a/b/c/d", "x") || table.Remove(c.filter, "y") || !table.Remove(c.filter, "x") || table.Remove(c.filter, "x") {
			t.Errorf("%s: is not removed once", c.filter)
		}
		if table.Any(c.topic) || table.Len() != 0 || !table.Empty() {
			t.Errorf("%s: left something behind", c.filter)
		}
	}
}

// TestAReaderIsSentAMessageOnce (MQTT 5, 3.3.4): with the highest QoS, and all of its
// identifiers.
func TestAReaderIsSentAMessageOnce(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 3, 100} {
		var table route.Table
		table.Set("a/b", "x", route.Options{QoS: 0, Identifier: 1})
		table.Set("a/+", "x", route.Options{QoS: 2, Identifier: 2})
		table.Set("#", "x", route.Options{QoS: 1, NoLocal: true})
		for n := range others {
			table.Set("a/b", fmt.Sprint(n), route.Options{})
			table.Set("a/#", fmt.Sprint(n), route.Options{})
		}
		got := table.Readers("a/b", nil)
		if len(got) != 1+others {
			t.Fatalf("%d readers, not %d", len(got), 1+others)
		}
		for _, r := range got {
			if slices.Sort(r.Identifiers); r.Client == "x" && (r.QoS != 2 || !r.NoLocal || !slices.Equal(r.Identifiers, []int{1, 2})) {
				t.Errorf("got %+v", r)
			}
		}
	}
}

func TestAGroupSharesItsMessages(t *testing.T) {
	t.Parallel()
	var table route.Table
	for _, client := range []string{"a", "b", "c"} {
		table.Set("$share/one/t", client, route.Options{})
		table.Set("$share/two/t", client+"2", route.Options{})
	}
	table.Set("t", "alone", route.Options{})
	seen := map[string]int{}
	for range 600 {
		readers := clients(table.Readers("t", nil))
		if len(readers) != 3 || !slices.Contains(readers, "alone") {
			t.Fatalf("got %q", readers)
		}
		for _, name := range readers {
			seen[name]++
		}
	}
	for _, name := range []string{"a", "b", "c", "a2", "b2", "c2"} {
		if seen[name] < 100 {
			t.Errorf("%s got %d of 600", name, seen[name])
		}
	}
}

// TestTableIsWhatAListWouldSay, after any history.
func TestTableIsWhatAListWouldSay(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	level := func(all ...string) string { return all[dice.IntN(len(all))] }
	var table route.Table
	held := map[[2]string]bool{}
	for range 20_000 {
		filter := strings.Join([]string{level("a", "b", "+"), level("a", "b", "+", "#"), level("a", "+")}[:1+dice.IntN(3)], "/")
		if strings.Contains(filter, "#/") {
			continue
		}
		key := [2]string{filter, fmt.Sprint(dice.IntN(30))}
		if dice.IntN(2) == 0 {
			if table.Set(key[0], key[1], route.Options{}) == held[key] {
				t.Fatalf("%v was new, or was not", key)
			}
			held[key] = true
		} else {
			if table.Remove(key[0], key[1]) != held[key] {
				t.Fatalf("%v was there, or was not", key)
			}
			delete(held, key)
		}
		topic := strings.Join([]string{level("a", "b"), level("a", "b"), level("a", "b")}[:1+dice.IntN(3)], "/")
		var want []string
		for key := range held {
			if matches(key[0], topic) && !slices.Contains(want, key[1]) {
				want = append(want, key[1])
			}
		}
		slices.Sort(want)
		if got := clients(table.Readers(topic, nil)); !slices.Equal(got, want) || table.Len() != len(held) {
			t.Fatalf("%s: %q, not %q", topic, got, want)
		}
	}
}

// matches is the rule of MQTT 5, 4.7.1, level by level.
func matches(filter, topic string) bool {
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, want := range f {
		if want == "#" {
			return true
		}
		if i >= len(t) || want != "+" && want != t[i] {
			return false
		}
	}
	return len(f) == len(t)
}

func TestTableIsSafeForManyAtOnce(t *testing.T) {
	t.Parallel()
	var table route.Table
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 500 {
				filter := fmt.Sprintf("s/%d/+", i%20)
				table.Set(filter, fmt.Sprint(n), route.Options{})
				table.Readers(fmt.Sprintf("s/%d/x", i%20), nil)
				table.Remove(filter, fmt.Sprint(n))
			}
		})
	}
	wg.Wait()
	if !table.Empty() {
		t.Error("something is left")
	}
}
