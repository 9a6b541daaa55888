package protocol_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/protocol"
)

func topics(t *testing.T) protocol.Topics {
	t.Helper()
	topics, err := protocol.NewTopics("muster/v1")
	if err != nil {
		t.Fatal(err)
	}
	return topics
}

func TestValidID(t *testing.T) {
	t.Parallel()
	valid := []string{"007", "1E5", "06-8108", "SH_0312", "a", strings.Repeat("x", 63), "v1.2-rc_3"}
	invalid := []string{"", ".a", "-a", "_a", strings.Repeat("x", 64), "a b", "a/b", "a+", "#", "a\x00", "店", "a\n", "..", "ａ"}
	for _, id := range valid {
		if !protocol.ValidID(id) {
			t.Errorf("%q was refused", id)
		}
	}
	for _, id := range invalid {
		if protocol.ValidID(id) {
			t.Errorf("%q was taken", id)
		}
	}
}

// TestValidIDKeepsToItsPattern: the contract gives ids by this pattern.
func TestValidIDKeepsToItsPattern(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	for c := range 0x250 {
		for _, id := range []string{string(rune(c)), "a" + string(rune(c)), string([]byte{byte(c)}), string([]byte{'0', byte(c), 'Z'})} {
			if protocol.ValidID(id) != pattern.MatchString(id) {
				t.Fatalf("%q is valid: %t", id, protocol.ValidID(id))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[A-Za-z0-9._-]{0,66}`).Draw(t, "id")
		if protocol.ValidID(id) != pattern.MatchString(id) {
			t.Fatalf("%q is valid: %t", id, protocol.ValidID(id))
		}
	})
}

func TestNewTopicsRefusesBadRoots(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"", "/", "muster/", "/muster", "a//b", "a/#", "$SYS", "a b"} {
		if _, err := protocol.NewTopics(root); err == nil {
			t.Errorf("root %q was taken", root)
		}
	}
}

func TestParseTakesWhatTheBuildersBuild(t *testing.T) {
	t.Parallel()
	tp := topics(t)
	cases := map[string]protocol.Address{
		tp.Offer("007", "t1"):                               {Area: protocol.AreaStores, Store: "007", Task: "t1", Kind: protocol.KindOffer},
		tp.Terminal("1E5", "pos1", protocol.KindClaim):      {Area: protocol.AreaStores, Store: "1E5", Terminal: "pos1", Kind: protocol.KindClaim},
		tp.Terminal("1E5", "pos1", protocol.KindPresence):   {Area: protocol.AreaStores, Store: "1E5", Terminal: "pos1", Kind: protocol.KindPresence},
		tp.Request("wang", protocol.VerbRun):                {Area: protocol.AreaRequest, User: "wang", Verb: protocol.VerbRun},
		tp.LastReply("wang"):                                {Area: protocol.AreaReply, User: "wang", Rest: "last"},
		tp.Replies("wang") + "a/b":                          {Area: protocol.AreaReply, User: "wang", Rest: "a/b"},
		tp.Run("r1", protocol.RunSummary):                   {Area: protocol.AreaRuns, Run: "r1", RunKind: protocol.RunSummary},
		tp.RunStore("r1", "007"):                            {Area: protocol.AreaRuns, Run: "r1", Store: "007"},
		tp.Info():                                           {Area: protocol.AreaInfo},
		tp.Alarm(protocol.SeverityCritical, "storage_full"): {Area: protocol.AreaAlarms, Severity: protocol.SeverityCritical, Rest: "storage_full"},
	}
	for topic, want := range cases {
		if got, ok := tp.Parse(topic); !ok || got != want {
			t.Errorf("%s: got %+v, %t; want %+v", topic, got, ok, want)
		}
	}
}

func TestParseRefusesEverythingElse(t *testing.T) {
	t.Parallel()
	tp := topics(t)
	for _, topic := range []string{
		"", "muster/v1", "muster/v1/", "other/v1/info", "muster/v1/info/x", "muster/v1/unknown/x",
		"muster/v1/stores/007", "muster/v1/stores/007/tasks", "muster/v1/stores/007/tasks/a/b",
		"muster/v1/stores/../tasks/a", "muster/v1/stores/007/terminals/pos1/offer",
		"muster/v1/stores/007/terminals/pos1/other", "muster/v1/stores/007/terminals/pos1/claim/x",
		"muster/v1/stores//terminals/pos1/claim", "muster/v1/req/wang", "muster/v1/req/wang/run now",
		"muster/v1/req/wang/run/x", "muster/v1/rep/wang", "muster/v1/rep//x", "muster/v1/runs/r1",
		"muster/v1/runs/r1/other", "muster/v1/runs/r1/stores/a/b", "muster/v1/alarms/mild/x", "$SYS/x",
	} {
		if got, ok := tp.Parse(topic); ok {
			t.Errorf("%q was taken as %+v", topic, got)
		}
	}
}

func TestParseNeverPanics(t *testing.T) {
	t.Parallel()
	tp := topics(t)
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{"stores", "tasks", "terminals", "req", "rep", "runs", "alarms", "info", "claim", "run", "", "+", "#"}),
			rapid.String(),
		)).Draw(t, "levels")
		a, ok := tp.Parse("muster/v1/" + strings.Join(levels, "/"))
		if ok && a.Area == protocol.AreaStores && !protocol.ValidID(a.Store) {
			t.Fatalf("an invalid store id came through: %+v", a)
		}
	})
}

func TestOfferFilterSaysWhoseOffersAreMeant(t *testing.T) {
	t.Parallel()
	topics, err := protocol.NewTopics("muster/v1")
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]struct {
		store, task string
		ok          bool
	}{
		"muster/v1/stores/007/tasks/+":     {"007", "", true},
		"muster/v1/stores/007/tasks/#":     {"007", "", true},
		"muster/v1/stores/007/tasks":       {},
		"muster/v1/stores/007/#":           {"007", "", true},
		"muster/v1/stores/007/+/+":         {"007", "", true},
		"muster/v1/stores/007/tasks/t1":    {"007", "t1", true},
		"muster/v1/stores/007/tasks/t1/#":  {"007", "t1", true}, // "#" is the level above it too
		"muster/v1/stores/007/tasks/t1/+":  {},
		"muster/v1/stores/+/tasks/t1":      {"", "t1", true},
		"muster/v1/stores/+/tasks/+":       {"", "", true},
		"muster/v1/#":                      {"", "", true},
		"#":                                {"", "", true},
		"+/+/+/+/+/+":                      {"", "", true},
		"+/+/+/+/+":                        {},
		"muster/v2/stores/007/tasks/+":     {},
		"muster/v1/runs/#":                 {},
		"muster/v1/stores/007/terminals/#": {},
	} {
		store, task, ok := topics.OfferFilter(filter)
		if ok != want.ok || ok && (store != want.store || task != want.task) {
			t.Errorf("%s: %q %q %t", filter, store, task, ok)
		}
	}
}
