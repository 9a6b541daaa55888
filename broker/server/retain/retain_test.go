package retain_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/broker/server/retain"
)

var now = time.Unix(1_000_000, 0)

func set(s *retain.Store[int], topic, payload string, expires time.Time) *retain.Message[int] {
	m := &retain.Message[int]{Topic: topic, Payload: []byte(payload), Expires: expires}
	s.Set(m)
	return m
}

func topics(found []*retain.Message[int]) []string {
	var out []string
	for _, m := range found {
		out = append(out, m.Topic)
	}
	slices.Sort(out)
	return out
}

func TestMatch(t *testing.T) {
	var s retain.Store[int]
	for _, topic := range []string{"a", "a/b", "a/b/c", "a//c", "x/b", "$SYS/a", "/a"} {
		set(&s, topic, "1", time.Time{})
	}
	for _, c := range []struct {
		filter string
		want   []string
	}{
		{"a", []string{"a"}},
		{"a/b", []string{"a/b"}},
		{"a/#", []string{"a", "a//c", "a/b", "a/b/c"}},
		{"a/b/#", []string{"a/b", "a/b/c"}},
		{"+", []string{"a"}},
		{"+/b", []string{"a/b", "x/b"}},
		{"a/+/c", []string{"a//c", "a/b/c"}},
		{"+/+/#", []string{"/a", "a//c", "a/b", "a/b/c", "x/b"}},
		{"#", []string{"/a", "a", "a//c", "a/b", "a/b/c", "x/b"}},
		{"$SYS/#", []string{"$SYS/a"}},
		{"+/a", []string{"/a"}},
		{"b", nil},
	} {
		if got := topics(s.Match(c.filter, now)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.filter, got, c.want)
		}
	}
}

func TestExpiry(t *testing.T) {
	var s retain.Store[int]
	m := set(&s, "a/b", "1", now.Add(time.Second))
	if !s.Holds(m, now) || len(s.Match("a/b", now)) != 1 {
		t.Error("gone before it expires")
	}
	later := now.Add(time.Second)
	if s.Holds(m, later) || len(s.Match("#", later)) != 0 {
		t.Error("there after it expired")
	}
	if n := s.Sweep(now); n != 0 {
		t.Errorf("swept %d too early", n)
	}
	if n := s.Sweep(later); n != 1 || s.Len() != 0 {
		t.Errorf("swept %d, %d left", n, s.Len())
	}
}

func TestHoldsOnlyTheNewest(t *testing.T) {
	var s retain.Store[int]
	old := set(&s, "a", "1", time.Time{})
	fresh := set(&s, "a", "2", time.Time{})
	if s.Holds(old, now) || !s.Holds(fresh, now) {
		t.Error("an older message passes for the newest")
	}
	set(&s, "a", "", time.Time{})
	if s.Holds(fresh, now) {
		t.Error("a withdrawn message is still held")
	}
}

// TestAgainstMap compares the store with a plain map over random histories.
func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s retain.Store[int]
		want := map[string]bool{}
		topic := rapid.StringMatching(`[ab](/[ab]){0,3}`)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			name := topic.Draw(t, "topic")
			payload := rapid.SampledFrom([]string{"", "1"}).Draw(t, "payload")
			set(&s, name, payload, time.Time{})
			delete(want, name)
			if payload != "" {
				want[name] = true
			}
		}
		var all []string
		for name := range want {
			all = append(all, name)
		}
		slices.Sort(all)
		if got := topics(s.Match("#", now)); !slices.Equal(got, all) || s.Len() != len(all) {
			t.Fatalf("got %q (len %d), want %q", got, s.Len(), all)
		}
	})
}
