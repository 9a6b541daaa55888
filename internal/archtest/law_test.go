package archtest_test

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const root = "../.."

func TestTheTreeKeepsTheLaw(t *testing.T) {
	t.Parallel()
	checkout := load(t, os.DirFS(root))
	if len(checkout.sources) == 0 {
		t.Fatal("no Go files found: the test looks in the wrong folder")
	}
	for _, r := range law() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, finding := range r.check(checkout) {
				t.Error(finding)
			}
		})
	}
}

// wellBuilt is a small tree in which every rule has something to look at and
// nothing to find.
func wellBuilt() map[string]string {
	return map[string]string{
		"internal/task/task.go":                 "// Package task is.\npackage task\n\nimport \"fmt\"\n",
		"internal/task/task_test.go":            "package task_test\n\nimport \"pgregory.net/rapid\"\n",
		"internal/protocol/topics.go":           "// Package protocol is.\npackage protocol\n\nimport (\n\t\"regexp\"\n\n\t\"muster/internal/task\"\n)\n",
		"schemas/schemas.go":                    "// Package schemas is.\npackage schemas\n\nimport \"embed\"\n",
		"broker/main.go":                        "// Broker is.\npackage main\n\nimport \"muster/broker/server\"\n",
		"broker/server/server.go":               "// Package server is.\npackage server\n\nimport \"muster/internal/protocol\"\n",
		"dispatcher/app/app.go":                 "// Package app is.\npackage app\n\nimport (\n\t\"muster/broker/server\"\n\t\"muster/dispatcher/internal/grant\"\n\t\"muster/dispatcher/internal/plan\"\n)\n",
		"dispatcher/internal/grant/grant.go":    "// Package grant is.\npackage grant\n\nimport (\n\t\"os\"\n\t\"time\"\n\n\t\"muster/dispatcher/internal/store\"\n)\n\nfunc now() time.Time { return time.Now() }\n",
		"dispatcher/internal/plan/plan.go":      "// Package plan is.\npackage plan\n\nimport \"time\"\n\nfunc day(at time.Time) time.Time { return at.Add(time.Hour) }\n",
		"dispatcher/internal/plan/plan_test.go": "package plan_test\n\nimport (\n\t\"os\"\n\t\"testing\"\n\n\t\"muster/dispatcher/internal/plan\"\n)\n",
		"dispatcher/internal/report/report.go":  "// Package report is.\npackage report\n",
		"dispatcher/internal/store/store.go":    "// Package store is.\npackage store\n\nimport (\n\t\"database/sql\"\n\n\t_ \"modernc.org/sqlite\"\n)\n",
		"edge-agent/internal/link/link.go":      "// Package link is.\npackage link\n",
		"edge-agent/internal/link/link_test.go": "package link_test\n\nimport \"muster/broker/server\"\n\nvar file = \"../../../configs/edge-agent.yaml\"\nvar jobs = \"../configs/jobs\"\n",
		"tests/e2e/e2e_test.go":                 "package e2e_test\n\nimport \"database/sql\"\n",
		"dispatcher/internal/cli/cli.go":        "// Package cli is.\npackage cli\n",
		"dispatcher/internal/cli/cli_test.go":   "package cli_test\n\nimport \"muster/dispatcher/internal/grant\"\n",
		"scripts/tools/tools.go":                "package anything\n",
		"configs/edge-agent.yaml":               "{}\n",
		"configs/jobs/collect_log.yaml":         "{}\n",
	}
}

func plant(t *testing.T, changes map[string]string) tree {
	t.Helper()
	files := wellBuilt()
	maps.Copy(files, changes)
	memory := fstest.MapFS{}
	for name, text := range files {
		memory[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return load(t, memory)
}

func TestAWellBuiltTreeHasNoFindings(t *testing.T) {
	t.Parallel()
	clean := plant(t, nil)
	for _, r := range law() {
		if found := r.check(clean); len(found) > 0 {
			t.Errorf("%s: %v", r.name, found)
		}
	}
}

// TestEachRuleFindsWhatIsPlantedForIt also checks that no other rule cries: a
// finding under the wrong name sends the reader the wrong way.
func TestEachRuleFindsWhatIsPlantedForIt(t *testing.T) {
	t.Parallel()
	planted := []struct{ rule, file, text, want string }{
		{"task imports only the standard library", "internal/task/more.go",
			"package task\n\nimport \"muster/internal/protocol\"\n", "internal/task/more.go imports muster/internal/protocol"},
		{"task imports only the standard library", "internal/task/more.go",
			"package task\n\nimport \"golang.org/x/time/rate\"\n", "imports golang.org/x/time/rate"},
		{"protocol adds only task", "internal/protocol/more.go",
			"package protocol\n\nimport \"github.com/oklog/ulid/v2\"\n", "imports github.com/oklog/ulid/v2"},
		{"shared code knows no program", "internal/clock/clock_test.go",
			"package clock_test\n\nimport \"muster/broker/server\"\n", "internal/clock/clock_test.go imports muster/broker/server"},
		{"shared code knows no program", "schemas/more.go",
			"package schemas\n\nimport \"muster/edge-agent/link\"\n", "schemas/more.go imports"},
		{"programs do not import each other", "edge-agent/internal/link/more.go",
			"package link\n\nimport \"muster/broker/server\"\n", "edge-agent/internal/link/more.go imports muster/broker/server"},
		{"programs do not import each other", "dispatcher/app/more.go",
			"package app\n\nimport \"muster/edge-agent/link\"\n", "imports muster/edge-agent/link"},
		{"programs do not import each other", "broker/server/server_test.go",
			"package server_test\n\nimport \"muster/dispatcher/api\"\n", "imports muster/dispatcher/api"},
		{"programs do not import each other", "dispatcher/app/more.go",
			"package app\n\nimport \"muster/broker/internal/x\"\n", "imports muster/broker/internal/x"},
		{"only the store touches SQL", "dispatcher/internal/grant/more.go",
			"package grant\n\nimport \"database/sql\"\n", "dispatcher/internal/grant/more.go imports database/sql"},
		{"only the store touches SQL", "dispatcher/internal/grant/grant_test.go",
			"package grant_test\n\nimport _ \"modernc.org/sqlite\"\n", "imports modernc.org/sqlite"},
		{"plan and report are pure", "dispatcher/internal/plan/more.go",
			"package plan\n\nimport \"os\"\n", "imports os"},
		{"plan and report are pure", "dispatcher/internal/report/more.go",
			"package report\n\nimport \"net/http\"\n", "imports net/http"},
		{"plan and report are pure", "dispatcher/internal/report/more.go",
			"package report\n\nimport \"time\"\n\nvar at = time.Now\n", "uses time.Now"},
		{"plan and report are pure", "dispatcher/internal/report/page/page.go",
			"// Package page is.\npackage page\n\nimport \"os\"\n", "report/page/page.go imports os"},
		{"only app sees the steps", "dispatcher/internal/grant/more.go",
			"package grant\n\nimport \"muster/dispatcher/internal/plan\"\n", "dispatcher/internal/grant/more.go imports muster/dispatcher/internal/plan"},
		{"only app sees the steps", "dispatcher/internal/grant/grant_test.go",
			"package grant_test\n\nimport \"muster/dispatcher/internal/report\"\n", "imports muster/dispatcher/internal/report"},
		{"only app sees the steps", "dispatcher/internal/cli/more.go",
			"package cli\n\nimport \"muster/dispatcher/internal/grant\"\n", "dispatcher/internal/cli/more.go imports"},
		{"only app sees the steps", "dispatcher/main.go",
			"// Dispatcher is.\npackage main\n\nimport \"muster/dispatcher/internal/grant\"\n", "dispatcher/main.go imports"},
		{"packages are named by their role", "dispatcher/internal/util/x.go",
			"// Package util is.\npackage util\n", "package util says nothing"},
		{"packages are named by their role", "dispatcher/internal/common/x.go",
			"// Package main is.\npackage main\n", "says nothing about its role"},
		{"packages are named by their role", "dispatcher/internal/offer/x.go", "// Package offers is.\npackage offers\n", "package offers stands in folder offer"},
		{"every package says what it is for, once", "dispatcher/internal/offer/x.go", "package offer\n", "dispatcher/internal/offer has no package comment"},
		{"every package says what it is for, once", "dispatcher/internal/plan/more.go",
			"// Package plan is also.\npackage plan\n", "dispatcher/internal/plan has 2 package comments"},
		{"files stay short", "dispatcher/internal/plan/more.go",
			"package plan\n" + strings.Repeat("\n", maxFileLines), "has 501 lines"},
		{"every file in configs is loaded by a test", "configs/broker.yaml", "{}\n", "configs/broker.yaml is loaded by no test"},
		{"every file in configs is loaded by a test", "configs/more/x.yaml", "{}\n", "configs/more/x.yaml is loaded by no test"},
		{"who says it in Chinese says all of it", "dispatcher/internal/plan/more.go",
			"package plan\n\nvar said = refusal{Message: \"no\", MessageZh: \"否\", Hint: \"ask\"}\n", "plan/more.go gives a Hint without HintZh"},
		{"who says it in Chinese says all of it", "dispatcher/internal/plan/more.go",
			"package plan\n\nvar said = job{TitleZh: \"作业\"}\n", "gives a TitleZh without Title"},
		{"Chinese sentences hold no English ones", "dispatcher/internal/plan/more.go",
			"package plan\n\nvar said = \"编码是 UTF-16 (little endian)\"\n", `plan/more.go says in Chinese "little endian"`},
	}
	found := map[string]bool{}
	for _, p := range planted {
		broken := plant(t, map[string]string{p.file: p.text})
		for _, r := range law() {
			findings := r.check(broken)
			switch {
			case r.name != p.rule && len(findings) > 0:
				t.Errorf("%s in %s is also called: %s: %v", p.rule, p.file, r.name, findings)
			case r.name == p.rule && (len(findings) != 1 || !strings.Contains(findings[0], p.want)):
				t.Errorf("%s in %s: got %v; want one finding with %q", p.rule, p.file, findings, p.want)
			case r.name == p.rule:
				found[r.name] = true
			}
		}
	}
	for _, r := range law() {
		if !found[r.name] {
			t.Errorf("no violation is planted for: %s", r.name)
		}
	}
}
