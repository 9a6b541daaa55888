package access_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/broker/server/access"
	"muster/internal/protocol"
)

var update = flag.Bool("update", false, "write docs/access.md anew")

// docs/access.md says what the code does: it is made from the table.
func TestDocumentIsMadeFromTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "access.md")
	want := document()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/access.md differs from the table; go test ./broker/server/access -run %s -update writes it", t.Name())
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString("\n## The table\n\nTopics lie under the topic root (`" + protocol.DefaultRoot + "` unless configured), except those that begin with `$`.\n\n")
	b.WriteString("| role | publishes | subscribes to | is retained for it |\n|---|---|---|---|\n")
	for _, row := range access.Table() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.Role, list(row.Publish), list(row.Subscribe), retained(row))
	}
	b.WriteString(legend)
	b.WriteString("\n| topic |")
	for _, row := range access.Table() {
		fmt.Fprintf(&b, " %s |", row.Role)
	}
	b.WriteString("\n|---|" + strings.Repeat(":-:|", len(access.Table())) + "\n")
	for _, topic := range documented() {
		fmt.Fprintf(&b, "| `%s` |", topic.shown)
		for _, row := range access.Table() {
			fmt.Fprintf(&b, " %s |", marks(row.Role, topic.tried))
		}
		b.WriteString("\n")
	}
	return b.String()
}

const preface = `# Who may do what on the broker

This page is made from the broker's one table of rules (` + "`broker/server/access`" + `) by a test, which fails when the two
differ. Whatever no rule names is refused. The broker judges each PUBLISH, each SUBSCRIBE and each single delivery;
a wildcard is granted only when everything it can match is granted, and ` + "`$share/{group}/`" + ` is judged by the filter it shares.

` + "`{store}`, `{terminal}` and `{user}`" + ` stand for the client's own, as it has proven them by password or certificate. A refused
PUBLISH is answered with 0x87 (below version 5 the connection ends), a refused filter with 0x87 in the SUBACK.
What a user may ask for, which job in which store, is headquarters' decision, not the broker's.
`

const legend = `
A will may be left where a message of the client is retained, and nowhere else. A message with the retain flag that is not
retained is delivered like any other.

## What follows from it

**P** publish, **S** subscribe, **R** retained. *Own* is the client's own store, terminal or user.
`

func list(patterns []string) string {
	if len(patterns) == 0 {
		return "nothing"
	}
	return "`" + strings.Join(patterns, "`<br>`") + "`"
}

// retained asks the rules about each pattern that the role may publish to.
func retained(row access.Row) string {
	rules := access.New(protocol.DefaultRoot)
	concrete := strings.NewReplacer("{store}", ownStore, "{terminal}", own, "{user}", alice, "+", "x", "#", "x")
	var kept []string
	for _, pattern := range row.Publish {
		if rules.MayRetain(holder(row.Role), protocol.DefaultRoot+"/"+concrete.Replace(pattern)) {
			kept = append(kept, pattern)
		}
	}
	return list(kept)
}

type shown struct{ shown, tried string }

// documented lists each kind of topic once, own and another's.
func documented() []shown {
	p, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		panic(err) // the default root is valid
	}
	rooted := func(topic string) string { return strings.TrimPrefix(topic, p.Root()+"/") }
	var all []shown
	add := func(topic, text string) { all = append(all, shown{text, topic}) }
	for _, kind := range append(protocol.FromTerminal(), protocol.KindPresence, protocol.KindOrders) {
		add(p.Terminal(ownStore, own, kind), "stores/{own}/terminals/{own}/"+string(kind))
		add(p.Terminal(otherStore, own, kind), "stores/{other}/terminals/{other}/"+string(kind))
	}
	add(p.Offer(ownStore, "t1"), "stores/{own}/tasks/{task}")
	add(p.Offer(otherStore, "t1"), "stores/{other}/tasks/{task}")
	for _, verb := range protocol.Verbs() {
		add(p.Request(alice, verb), "req/{own}/"+string(verb))
	}
	add(p.Request(bob, protocol.VerbRun), "req/{other}/{verb}")
	add(p.LastReply(alice), "rep/{own}/…")
	add(p.LastReply(bob), "rep/{other}/…")
	for _, kind := range []protocol.RunKind{protocol.RunState, protocol.RunSummary, protocol.RunText} {
		add(p.Run("r1", kind), "runs/{run}/"+string(kind))
	}
	add(p.RunStore("r1", ownStore), "runs/{run}/stores/{store}")
	add(p.Alarm(protocol.SeverityCritical, "x"), "alarms/{severity}/{kind}")
	for _, topic := range []string{p.Info(), p.Trust()} {
		add(topic, rooted(topic))
	}
	add(p.Root()+"/new", "any other under the root")
	add("$SYS/broker/uptime", "$SYS/…")
	add("elsewhere/x", "any other")
	return all
}

func marks(role access.Role, topic string) string {
	rules, id := access.New(protocol.DefaultRoot), holder(role)
	text := ""
	if rules.MayPublish(id, topic) {
		text += "P"
		if rules.MayRetain(id, topic) {
			text += "R"
		}
	}
	if rules.MayRead(id, topic) {
		text += "S"
	}
	return text
}
