package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"muster/schemas"
)

// TestTheGuideHasEveryCommandAndNoOther: docs/guides/cli.md lists what this program has;
// that the Chinese one lists the same, a rule of the whole tree sees to.
func TestTheGuideHasEveryCommandAndNoOther(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guides/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "\n## dispatcher\n")
	section, _, _ := strings.Cut(after, "\n## ")
	listed, has := documented(section), map[string]bool{"completion": true}
	named := regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(section, -1)
	flags := map[string]bool{"--wait": true, "--help": true}
	for _, cmd := range commands() {
		has[cmd.Name()] = true
		for _, part := range append([]*cobra.Command{cmd}, cmd.Commands()...) {
			for _, flag := range named {
				flags[flag] = flags[flag] || part.Flags().Lookup(flag[2:]) != nil
			}
			if subs, named := listed[cmd.Name()]; named && len(subs) > 0 && part != cmd && !slices.Contains(subs, part.Name()) {
				t.Errorf("the guide does not list %s %s", cmd.Name(), part.Name())
			}
		}
		for _, sub := range listed[cmd.Name()] {
			if !slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == sub }) {
				t.Errorf("the guide lists %s %s, which is none", cmd.Name(), sub)
			}
		}
		if _, named := listed[cmd.Name()]; !named {
			t.Errorf("the guide does not list %s", cmd.Name())
		}
	}
	for name := range listed {
		if !has[name] {
			t.Errorf("the guide lists %s, which is none", name)
		}
	}
	for _, flag := range named {
		if !flags[flag] {
			t.Errorf("the guide names %s, which no command has", flag)
		}
	}
}

// documented reads the first column of the first table: commands, and which of their own
// are named.
func documented(section string) map[string][]string {
	listed := map[string][]string{}
	_, table, _ := strings.Cut(section, "|---|---|---|\n")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cell, _, _ := strings.Cut(strings.ReplaceAll(line[2:], `\|`, "/"), " |")
		for _, code := range regexp.MustCompile("`[^`]+`").FindAllString(cell, -1) {
			words := strings.Fields(strings.Trim(code, "`"))
			subs := listed[words[0]]
			for _, word := range words[1:] {
				if word == strings.ToLower(word) {
					subs = append(subs, strings.Split(word, "/")...)
				}
			}
			listed[words[0]] = subs
		}
	}
	return listed
}

// TestTheGuideHasEveryFlagOfRunWithItsMember, and every member of a run request.
func TestTheGuideHasEveryFlagOfRunWithItsMember(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guides/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := schemas.FS.ReadFile("run_request.v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "job") // the argument
	_, table, _ := strings.Cut(string(page), "| flag of `run` | member | says |\n|---|---|---|\n")
	flags, members := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 {
			break
		}
		for _, flag := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(cells[0], -1) {
			flags[flag[1]] = true
		}
		if member, isOne := strings.CutPrefix(cells[1], "`"); isOne {
			members[strings.TrimSuffix(member, "`")] = true
		}
	}
	if want := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(slices.Sorted(maps.Keys(members)), want) {
		t.Errorf("the guide has the members %q, the schema %q", slices.Sorted(maps.Keys(members)), want)
	}
	of := map[string]map[string]bool{}
	for _, cmd := range commands() {
		of[cmd.Name()] = map[string]bool{}
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`).FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
			of[cmd.Name()][flag[1]] = true
		}
	}
	maps.DeleteFunc(of["run"], func(flag string, _ bool) bool { return of["jobs"][flag] }) // by which headquarters is reached
	if want := slices.Sorted(maps.Keys(of["run"])); len(want) < 10 || !slices.Equal(slices.Sorted(maps.Keys(flags)), want) {
		t.Errorf("the guide has the flags %q of run, which has %q", slices.Sorted(maps.Keys(flags)), want)
	}
	for flag := range of["run"] {
		if !of["retry"][flag] && flag != "input" && flag != "input-file" {
			t.Errorf("retry has no --%s", flag)
		}
	}
}
