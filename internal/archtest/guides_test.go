package archtest_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAGuideInChineseSaysWhatIsTyped: commands, flags, keys and whole examples of a
// reference are the same in both languages; each names the other.
func TestAGuideInChineseSaysWhatIsTyped(t *testing.T) {
	t.Parallel()
	files := os.DirFS(root)
	for _, guide := range []string{"cli", "jobs"} {
		en, zh := read(t, files, "docs/guides/"+guide+".md"), read(t, files, "docs/guides/"+guide+".zh-CN.md")
		for _, difference := range differing(en, zh) {
			t.Errorf("docs/guides/%s.zh-CN.md and %s.md differ: %s", guide, guide, difference)
		}
		if !strings.Contains(en, "]("+guide+".zh-CN.md)") || !strings.Contains(zh, "]("+guide+".md)") {
			t.Errorf("docs/guides/%s.md and %s.zh-CN.md do not name each other", guide, guide)
		}
	}
}

func TestWhatOneGuideLeavesOutIsFound(t *testing.T) {
	t.Parallel()
	const en, zh = "`run` and `--wait`\n```\n$ a\n```\n", "`run` 和\n```\n$ b\n```\n"
	if got := differing(en, zh); !slices.Equal(got, []string{"`--wait`", "the example\n```\n$ a\n```"}) {
		t.Errorf("got %q", got)
	}
}

// differing lists code that stands in one text alone.
func differing(a, b string) (found []string) {
	fence, inline := regexp.MustCompile("(?ms)^```\\w*\n.*?^```$"), regexp.MustCompile("`[^`]+`")
	words := func(text string) (all []string) {
		for _, word := range inline.FindAllString(fence.ReplaceAllString(text, ""), -1) {
			all = append(all, strings.Join(strings.Fields(word), " "))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	wa, wb := words(a), words(b)
	for _, word := range slices.Concat(wa, wb) {
		if slices.Contains(wa, word) != slices.Contains(wb, word) {
			found = append(found, word)
		}
	}
	fa, fb := fence.FindAllString(a, -1), fence.FindAllString(b, -1)
	for i, example := range fa {
		if i >= len(fb) || fb[i] != example {
			return append(found, "the example\n"+example)
		}
	}
	return found
}
