package archtest_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAGuideInChineseSaysTheSame: each guide has both languages, which name each other,
// and section by section the same rows, examples, code, numbers and links.
func TestAGuideInChineseSaysTheSame(t *testing.T) {
	t.Parallel()
	files := os.DirFS(root)
	guides, err := fs.Glob(files, "docs/guides/*.md")
	if err != nil || len(guides) < 12 {
		t.Fatalf("guides %q, %v", guides, err)
	}
	for _, guide := range guides {
		name := strings.TrimSuffix(strings.TrimPrefix(guide, "docs/guides/"), ".md")
		if strings.HasSuffix(name, ".zh-CN") {
			continue
		}
		en, zh := read(t, files, guide), read(t, files, "docs/guides/"+name+".zh-CN.md")
		for _, difference := range differing(en, zh) {
			t.Errorf("docs/guides/%s.zh-CN.md and %s.md differ: %s", name, name, difference)
		}
		if !strings.Contains(en, "]("+name+".zh-CN.md)") || !strings.Contains(zh, "]("+name+".md)") {
			t.Errorf("docs/guides/%s.md and %s.zh-CN.md do not name each other", name, name)
		}
	}
}

func TestWhatOneGuideLeavesOutIsFound(t *testing.T) {
	t.Parallel()
	const en = "# A\n`run`, 90 days, [more](jobs.md#x)\n\n| a | b |\n|---|---|\n| c | d |\n\n## B\n```\n$ a  # why\n# no heading\n```\n"
	for was, is := range map[string]string{
		"`run`": "`ran`", "90 days": "9 days", "(jobs.md#x)": "(cli.md)", "| c | d |\n": "", "c | d": "`run` | d", "## B": "### B", "$ a": "$ b", "## B\n": "",
	} {
		if got := differing(en, strings.Replace(en, was, is, 1)); len(got) == 0 {
			t.Errorf("%q in the place of %q is not found", is, was)
		}
	}
	zh := strings.NewReplacer("# A", "# 甲", "90 days", "90 天（3 个月）", "more](jobs.md#x", "更多](jobs.zh-CN.md#乙", "# why", "# 原因").Replace(en)
	if got := differing(en, zh); len(got) != 0 {
		t.Errorf("a translation differs: %q", got)
	}
}

// differing lists what stands in one text alone, each with the English section's heading.
// Numbers that Chinese alone writes in digits are none.
func differing(en, zh string) (found []string) {
	a, b := sections(en), sections(zh)
	if len(a) != len(b) {
		return []string{fmt.Sprintf("%d and %d sections", len(a), len(b))}
	}
	for i, section := range a {
		heading, _, _ := strings.Cut(section, "\n")
		fa, fb := facts(section), facts(b[i])
		for _, fact := range fa {
			if !slices.Contains(fb, fact) {
				found = append(found, heading+": not in Chinese: "+fact)
			}
		}
		for _, fact := range fb {
			if !slices.Contains(fa, fact) && !strings.HasPrefix(fact, "number ") {
				found = append(found, heading+": in Chinese alone: "+fact)
			}
		}
	}
	return found
}

var (
	example = regexp.MustCompile("(?ms)^```\\w*\n.*?^```$")
	table   = regexp.MustCompile(`(?m)(?:^\|.*\n)+`)
	code    = regexp.MustCompile("`[^`]+`")
	link    = regexp.MustCompile(`\]\(([^)#]*)[^)]*\)`)
	number  = regexp.MustCompile(`\d[\d,.:]*\d|\d`)
	// said is what an example says to people: a reason, a comment.
	said = regexp.MustCompile(`(?m)("reason":)"[^"]*"|  # .*$`)
)

// sections cuts a text before each heading; a sign inside an example makes none.
func sections(text string) (all []string) {
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inside = !inside
		}
		if len(all) == 0 || !inside && strings.HasPrefix(line, "#") {
			all = append(all, "")
		}
		all[len(all)-1] += line
	}
	return all
}

// facts are what a section has to say alike in each language.
func facts(section string) (all []string) {
	level := len(section) - len(strings.TrimLeft(section, "#"))
	all = append(all, fmt.Sprintf("heading of level %d", level))
	for i, text := range example.FindAllString(section, -1) {
		all = append(all, fmt.Sprintf("example %d: %s", i+1, said.ReplaceAllString(text, "$1")))
	}
	prose := example.ReplaceAllString(section, "")
	for i, rows := range table.FindAllString(prose, -1) {
		for j, row := range slices.Collect(strings.Lines(rows)) {
			words := code.FindAllString(row, -1)
			slices.Sort(words)
			all = append(all, fmt.Sprintf("table %d, row %d, with %s", i+1, j+1, words))
		}
	}
	for _, word := range code.FindAllString(prose, -1) {
		all = append(all, strings.Join(strings.Fields(word), " "))
	}
	prose = code.ReplaceAllString(prose, "")
	for _, target := range link.FindAllStringSubmatch(prose, -1) {
		all = append(all, "link to "+strings.Replace(target[1], ".zh-CN", "", 1))
	}
	for _, n := range number.FindAllString(link.ReplaceAllString(prose, ""), -1) {
		all = append(all, "number "+n)
	}
	return all
}
