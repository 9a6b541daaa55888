// Package asyncapi_test holds docs/protocol/asyncapi.yaml to the code and the schemas,
// and has the public parser judge it.
//
// The parser needs npm; a test that lacks it says that it skips.
package asyncapi_test

import (
	"bytes"
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"muster/internal/protocol"
	"muster/schemas"
	"muster/tests/programs"
)

const path = "../../docs/protocol/asyncapi.yaml"

//go:embed package.json package-lock.json judge.mjs
var pinned embed.FS

// document is what the tests read of it.
type document struct {
	Channels map[string]struct {
		Address  string
		Messages map[string]any
	}
	Operations map[string]struct {
		Action  string
		Channel struct {
			Ref string `yaml:"$ref"`
		}
	}
	Components struct {
		Parameters map[string]struct{ Enum []string }
		Messages   map[string]struct {
			Payload struct {
				Ref string `yaml:"$ref"`
			}
		}
	}
}

func read(t *testing.T) (d document) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// constants are the values of one type's constants in topics.go, so that a new one is missed here.
func constants(t *testing.T, kind string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../internal/protocol/topics.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == kind {
			for _, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok {
					t.Fatalf("a constant of %s is no literal", kind)
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, text)
			}
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("topics.go has no constants of type %s", kind)
	}
	return values
}

// same compares two lists without their order.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: the document has\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEveryTopicHasItsChannel(t *testing.T) {
	t.Parallel()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{topics.LastReply("{user}"), topics.RunStore("{run}", "{store}"), topics.Info(), topics.Trust(), topics.Alarm("{severity}", "{kind}")}
	for _, kind := range constants(t, "Kind") {
		if protocol.Kind(kind) == protocol.KindOffer {
			want = append(want, topics.Offer("{store}", "{task}"))
			continue
		}
		want = append(want, topics.Terminal("{store}", "{terminal}", protocol.Kind(kind)))
	}
	for _, verb := range constants(t, "Verb") {
		want = append(want, topics.Request("{user}", protocol.Verb(verb)))
	}
	for _, kind := range constants(t, "RunKind") {
		want = append(want, topics.Run("{run}", protocol.RunKind(kind)))
	}
	doc := read(t)
	var got, areas []string
	for name, channel := range doc.Channels {
		if channel.Address == "" { // what a request names
			if name != "replyAnywhere" {
				t.Errorf("channel %s has no address", name)
			}
			continue
		}
		got = append(got, channel.Address)
		area, _, _ := strings.Cut(strings.TrimPrefix(channel.Address, topics.Root()+"/"), "/")
		if !slices.Contains(areas, area) {
			areas = append(areas, area)
		}
	}
	same(t, "addresses", got, want)
	same(t, "areas", areas, constants(t, "Area"))
	same(t, "severities", doc.Components.Parameters["severity"].Enum, constants(t, "Severity"))
}

// TestEveryChannelHasOneOperationFromHeadquartersSide also says which way each goes.
func TestEveryChannelHasOneOperationFromHeadquartersSide(t *testing.T) {
	t.Parallel()
	doc := read(t)
	actions := map[string][]string{}
	for _, o := range doc.Operations {
		channel := strings.TrimPrefix(o.Channel.Ref, "#/channels/")
		actions[channel] = append(actions[channel], o.Action)
	}
	taken := map[string]bool{}
	for _, kind := range protocol.FromTerminal() {
		taken[string(kind)] = true
	}
	for name := range doc.Channels {
		want := []string{"send"}
		switch {
		case name == "replyAnywhere": // only ever a reply
			want = nil
		case taken[name], strings.HasPrefix(name, "request"):
			want = []string{"receive"}
		}
		if !slices.Equal(actions[name], want) {
			t.Errorf("channel %s: operations %v, want %v", name, actions[name], want)
		}
	}
}

func TestEveryMessageIsItsSchema(t *testing.T) {
	t.Parallel()
	// What is a file, or part of a message, and never a message of its own.
	parts := []string{"report", "manifest", "collect_log_input", "collect_log_output"}
	files, err := fs.Glob(schemas.FS, "*.v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var got, want, used []string
	for _, file := range files {
		if name := strings.TrimSuffix(file, ".v1.schema.json"); !slices.Contains(parts, name) {
			want = append(want, "../../schemas/"+file)
		}
	}
	doc := read(t)
	for name, m := range doc.Components.Messages {
		if m.Payload.Ref != "" {
			got = append(got, m.Payload.Ref)
		} else if name != "text" && name != "empty" {
			t.Errorf("message %s has no schema", name)
		}
	}
	same(t, "schemas", got, want)
	for _, channel := range doc.Channels {
		for name := range channel.Messages {
			used = append(used, name)
		}
	}
	for name := range doc.Components.Messages {
		if !slices.Contains(used, name) {
			t.Errorf("no channel carries message %s", name)
		}
	}
}

// TestTheParserAccepts has the document, with all that it refers to, judged; and one in
// which a channel is not there, so that the judge is known to look.
func TestTheParserAccepts(t *testing.T) {
	t.Parallel()
	npm, node := programs.Installed(t, "npm"), programs.Installed(t, "node")
	dir := t.TempDir()
	if err := os.CopyFS(dir, pinned); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline") //nolint:gosec // it is the machine's
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		programs.Lack(t, "the parser cannot be had: %v\n%s", err, said)
	}
	judge := func(file string) (string, int) {
		return programs.Run(t, node, filepath.Join(dir, "judge.mjs"), file)
	}
	said, code := judge(path)
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "information asyncapi-latest-version") {
			t.Error(line)
		}
	}
	if code != 0 {
		t.Errorf("ended with %d", code)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("'#/channels/claim'"), []byte("'#/channels/clam'"), 1)
	if err := os.CopyFS(filepath.Join(dir, "schemas"), schemas.FS); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "docs", "protocol", "broken.yaml")
	if err := os.MkdirAll(filepath.Dir(broken), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, code := judge(broken); code != 1 || strings.Count(said, "error ") != strings.Count(said, "/receiveClaim") || !strings.Contains(said, "clam") {
		t.Errorf("ended with %d:\n%s", code, said)
	}
}
