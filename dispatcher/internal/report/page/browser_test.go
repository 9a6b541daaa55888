package page_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/report/words"
	"muster/tests/browser"
)

// The widths of a desk and of a phone, in CSS pixels.
const (
	deskWidth, deskHeight   = 1280, 900
	phoneWidth, phoneHeight = 390, 844
)

var pictures = flag.String("pictures", "", "write screenshots of the page into this folder")

func speak(tab *browser.Tab, language string) {
	tab.Eval(`document.getElementById("`+language+`").click()`, nil)
}

// quiet fails if the page asked for anything but itself, or complained.
func quiet(t *testing.T, tab *browser.Tab) {
	t.Helper()
	if asked := tab.Requests(); len(asked) != 1 {
		t.Errorf("the page asked for %v", asked)
	}
	if faults := tab.Faults(); len(faults) != 0 {
		t.Errorf("the page complains: %v", faults)
	}
}

// fits fails if the page must be scrolled sideways.
func fits(t *testing.T, tab *browser.Tab, width int) {
	t.Helper()
	var wide int
	tab.Eval(`document.documentElement.scrollWidth`, &wide)
	if wide > width {
		t.Errorf("the page is %d wide on a screen of %d", wide, width)
	}
}

func TestThePageIsReadOnDeskAndPhoneInBothLanguages(t *testing.T) {
	t.Parallel()
	name, head := written(t, 240)
	b, axe := browser.Open(t), browser.Axe(t)
	for _, screen := range []struct {
		name          string
		width, height int
		phone         bool
	}{{"desktop", deskWidth, deskHeight, false}, {"phone", phoneWidth, phoneHeight, true}} {
		tab := b.Tab(name, screen.width, screen.height, screen.phone)
		for language, want := range map[string][2]string{"zh": {head.TextZh, "缺席与原因"}, "en": {head.Text, "Missing, and why"}} {
			speak(tab, language)
			if said := tab.Text(".verdict"); said != want[0] {
				t.Errorf("%s in %s says %q, want %q alone", screen.name, language, said, want[0])
			}
			if said := tab.Text("#h-missing"); said != want[1] {
				t.Errorf("%s in %s has the heading %q", screen.name, language, said)
			}
			tab.Eval(`document.querySelector("#rows .more").click(); document.querySelector(".causes details").open = true; document.querySelector(".totals details").open = true`, nil)
			for _, finding := range tab.Findings(axe) {
				t.Errorf("%s in %s: %s", screen.name, language, finding)
			}
			fits(t, tab, screen.width)
			tab.Eval(`document.querySelector("#rows .more").click(); for (const d of document.querySelectorAll("details")) d.open = false`, nil)
			picture(tab, screen.name+"-"+language)
		}
		quiet(t, tab)
	}
	dark := b.Tab(name, deskWidth, deskHeight, false)
	dark.Dark()
	for _, finding := range dark.Findings(axe) {
		t.Errorf("in the dark: %s", finding)
	}
}

// picture keeps what is on the screen at the top, at the chart, at the totals and at the rows.
func picture(tab *browser.Tab, name string) {
	if *pictures == "" {
		return
	}
	for _, p := range []struct{ name, at string }{{"report", "top"}, {"answers", "h-time"}, {"totals", "h-totals"}, {"stores", "h-all"}} {
		tab.Eval(`(document.getElementById("`+p.at+`") || document.body).scrollIntoView()`, nil)
		tab.Screenshot(filepath.Join(*pictures, p.name+"-"+name+".png"))
	}
	tab.Eval(`window.scrollTo(0, 0)`, nil)
}

// shown is how many rows the page says that it found, and how many it shows.
func shown(t *testing.T, tab *browser.Tab) (found, rows int) {
	t.Helper()
	said, _, _ := strings.Cut(tab.Text("#found"), " ")
	found, err := strconv.Atoi(strings.ReplaceAll(said, ",", ""))
	if err != nil {
		t.Fatalf("the page says %q", tab.Text("#found"))
	}
	tab.Eval(`document.querySelectorAll("#rows tbody tr:not(.detail)").length`, &rows)
	return found, rows
}

func TestCountsLeadToTheRowsThatTheyCount(t *testing.T) {
	t.Parallel()
	name, head := written(t, 240)
	tab := browser.Open(t).Tab(name, deskWidth, deskHeight, false)
	speak(tab, "en")
	var links []struct {
		Href string
		N    int
	}
	tab.Eval(`Array.from(document.querySelectorAll("#counts tbody tr"), (r) => ({Href: r.querySelector("a").hash, N: +r.querySelector("data").value}))
		.concat(Array.from(document.querySelectorAll(".causes li"), (r) => ({Href: r.querySelector("a").hash, N: +r.querySelector(".n").textContent.replace(",", "")})))
		.concat(Array.from(document.querySelectorAll("#regions tbody tr"), (r) => ({Href: r.querySelector("a").hash,
			N: Array.from(r.cells).slice(1, 6).reduce((n, c) => n + +c.textContent.replace(",", ""), 0)})))`, &links)
	sum := 0
	for _, link := range links {
		tab.Eval(fmt.Sprintf(`document.querySelector('a[href="%s"]').click(); new Promise((r) => setTimeout(r, 20))`, link.Href), nil)
		found, rows := shown(t, tab)
		if found != link.N || rows != min(found, 50) {
			t.Errorf("%s counts %d and leads to %d, of which %d are shown", link.Href, link.N, found, rows)
		}
		if strings.Contains(link.Href, "&r=") {
			sum += link.N
		}
	}
	if missing := head.Targets - head.Counts.Succeeded; sum != missing || len(links) < 8 {
		t.Errorf("%d links, whose causes sum to %d of %d", len(links), sum, missing)
	}
	tab.Eval(`document.querySelector("#clear").click(); document.querySelector("#rows .more").click()`, nil)
	for _, want := range []string{"claimed", "attempts", "1/2", "pos1", "region=east"} {
		if said := tab.Text("#rows .detail"); !strings.Contains(said, want) {
			t.Errorf("the details lack %q: %q", want, said)
		}
	}
	for _, ask := range []struct {
		q    string
		want []string
	}{{"access denied", []string{"#1 no answer · LEASE_EXPIRED silent for longer than its lease · 2026-09-17 18:28:01 → 18:28:40 · pos2",
		"#2 failed · EXECUTION_ERROR · 2026-09-17 18:28:02 → 18:28:", "pos1 · exit 3 · SHA-256 " + strings.Repeat("cd", 32)}},
		{"succeeded", []string{"#1 succeeded · 2026-09-17 18:28:02 → 18:28:", "pos1 · SHA-256 " + strings.Repeat("ab", 32)}}} {
		tab.Eval(fmt.Sprintf(`location.hash = "#q=" + encodeURIComponent(%q); new Promise((r) => setTimeout(r, 50))`, ask.q), nil)
		tab.Eval(`document.querySelector("#rows .more").click()`, nil)
		for _, want := range ask.want {
			if said := tab.Text("#rows .detail ol"); !strings.Contains(said, want) {
				t.Errorf("the attempts of %q lack %q: %q", ask.q, want, said)
			}
		}
	}
	var lines []string
	tab.Eval(`location.hash = "#q=" + encodeURIComponent("没有纸了"); new Promise((r) => setTimeout(r, 50))`, nil)
	tab.Eval(`document.querySelector("#rows tbody tr .error samp").innerText.split("\n")`, &lines)
	if found, _ := shown(t, tab); found != head.Counts.Failed || len(lines) != 14 || lines[0] != "printer: 没有纸了" || !strings.HasPrefix(lines[1], "    at") || lines[13] != "gave up" {
		t.Errorf("%d stores are found, and one said %q", found, lines)
	}
	var empty int
	tab.Eval(`document.querySelector('a[href="#o=offline"]').click(); new Promise((r) => setTimeout(r, 20))`, nil)
	tab.Eval(`document.querySelector("#rows .more").click(); Array.from(document.querySelectorAll("#rows .detail dd")).filter((d) => !d.textContent).length`, &empty)
	if empty > 0 {
		t.Errorf("%d details of a store that never came say nothing at all", empty)
	}
	quiet(t, tab)
}

// TestValuesAreShownForPeople, and found as the terminal sent them. Long lists are folded.
func TestValuesAreShownForPeople(t *testing.T) {
	t.Parallel()
	name, head := written(t, 240)
	tab := browser.Open(t).Tab(name, deskWidth, deskHeight, false)
	speak(tab, "zh")
	var raw, cells, heads []string
	var right []bool
	tab.Eval(`Array.from(new DOMParser().parseFromString(document.querySelector("noscript").textContent, "text/html").querySelectorAll("tbody tr")[0].cells, (c) => c.textContent).slice(5, 9)`, &raw)
	tab.Eval(`Array.from(document.querySelector("#rows tbody tr").cells, (c) => c.innerText.trim()).slice(4)`, &cells)
	tab.Eval(`Array.from(document.querySelectorAll("#rows thead th"), (c) => c.innerText.trim()).slice(4)`, &heads)
	tab.Eval(`Array.from(document.querySelectorAll("#rows thead th"), (c) => getComputedStyle(c).textAlign === "right").slice(4)`, &right)
	yesNo := map[string]string{"true": "是", "false": "否"}
	want := []string{words.Grouped(raw[0]), raw[1], raw[2], yesNo[raw[3]]}
	if len(raw[0]) < 4 || !slices.Equal(cells, want) || fmt.Sprint(heads, right) != "[日志大小 (KB) 错误数 最常见错误 有截断] [true true false false]" {
		t.Errorf("%v is shown as %v, want %v; under %v, right %v", raw, cells, want, heads, right)
	}
	tab.Eval(fmt.Sprintf(`location.hash = "#q=" + %q; new Promise((r) => setTimeout(r, 50))`, raw[0]), nil)
	if said := tab.Text("#rows tbody tr"); !strings.Contains(said, cells[0]) {
		t.Errorf("%s is not found: %q", raw[0], said)
	}
	var aligned []string
	tab.Eval(`location.hash = "#all"; new Promise((r) => setTimeout(r, 50))`, nil)
	tab.Eval(`Array.from(new Set(Array.from(document.querySelectorAll("#rows tbody tr:not(.detail)"), (r) => Array.from(r.cells).slice(4, 7)).flat()
		.filter((c) => /^(007|many|[1-9]?[0-9])$/.test(c.textContent)).map((c) => c.textContent.replace(/^[1-9]?[0-9]$/, "number") + " " + getComputedStyle(c).textAlign))).sort()`, &aligned)
	if fmt.Sprint(aligned) != "[007 left many left number right]" {
		t.Errorf("texts and numbers stand %v", aligned)
	}
	var open, folded int
	tab.Eval(`document.querySelectorAll(".totals details table").length`, &folded)
	tab.Eval(`Math.max(...Array.from(document.querySelectorAll(".totals table"), (l) => l.closest("details") ? 0 : l.tBodies[0].rows.length))`, &open)
	if most := len(head.Totals[1].Values); most <= 12 || open != 12 || folded != 1 {
		t.Errorf("of %d values %d are open, and %d lists are folded", most, open, folded)
	}
	quiet(t, tab)
}

// TestTenThousandRowsAreFilteredWithoutAStall, and so are a hundred thousand. The bounds
// are for a machine that does much else; what they rule out is a page that lays out all
// rows, which takes minutes.
func TestTenThousandRowsAreFilteredWithoutAStall(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Second
	for _, targets := range []int{10_000, 100_000} {
		t.Run(strconv.Itoa(targets), func(t *testing.T) {
			name, head := written(t, targets)
			const limit = 40_000_000
			if info, err := os.Stat(name); err != nil || info.Size() > limit {
				t.Fatalf("the page has %d bytes, %v", info.Size(), err)
			}
			tab := browser.Open(t).Tab(name, deskWidth, deskHeight, false)
			speak(tab, "en")
			for _, ask := range []struct {
				q    string
				want int
			}{{"s00999", min(10, targets)}, {"access denied", head.Counts.Failed}, {"singapore access", -1}, {"", targets}} {
				var took float64
				tab.Eval(fmt.Sprintf(`new Promise((done) => {
					const q = document.getElementById("q"), began = performance.now();
					q.value = %q;
					new MutationObserver(() => requestAnimationFrame(() => done(performance.now() - began - 120))).observe(document.getElementById("found"), {childList: true});
					q.dispatchEvent(new Event("input"));
				})`, ask.q), &took)
				found, rows := shown(t, tab)
				if ask.want >= 0 && found != ask.want || ask.want < 0 && (found == 0 || found >= head.Counts.Failed) || rows != min(found, 50) {
					t.Errorf("%q finds %d and shows %d, want %d", ask.q, found, rows, ask.want)
				}
				if spent := time.Duration(took * float64(time.Millisecond)); spent > most {
					t.Errorf("%q takes %s", ask.q, spent)
				} else {
					t.Logf("%q takes %s", ask.q, spent)
				}
			}
			tab.Eval(`Array.from(document.querySelectorAll(".pager button")).at(-1).click()`, nil)
			if _, rows := shown(t, tab); rows != 50 || !strings.Contains(tab.Text(".where"), "page 2 of "+words.Count(targets/50)) {
				t.Errorf("the second page has %d rows and is called %q", rows, tab.Text(".where"))
			}
			quiet(t, tab)
		})
	}
}

func TestThePageIsPrinted(t *testing.T) {
	t.Parallel()
	name, _ := written(t, 240)
	tab := browser.Open(t).Tab(name, deskWidth, deskHeight, false)
	speak(tab, "en")
	tab.Print(true)
	var seen []string
	tab.Eval(`["nav", ".filters", ".pager", ".verdict", "#counts", "#rows"].filter((s) => document.querySelector(s).offsetParent !== null)`, &seen)
	if fmt.Sprint(seen) != "[.verdict #counts #rows]" {
		t.Errorf("on paper stand %v", seen)
	}
	tab.Print(false)
	pdf := tab.PDF()
	if !bytes.HasPrefix(pdf, []byte("%PDF")) || bytes.Count(pdf, []byte("/Type /Page\n")) < 5 {
		t.Errorf("%d bytes on %d sheets: all 240 stores do not fit there", len(pdf), bytes.Count(pdf, []byte("/Type /Page\n")))
	}
	if _, rows := shown(t, tab); rows != 50 {
		t.Errorf("after printing %d rows are shown", rows)
	}
}

// TestWithoutItsScriptThePageHasAllRows, as where a viewer forbids scripts.
func TestWithoutItsScriptThePageHasAllRows(t *testing.T) {
	t.Parallel()
	name, _ := written(t, 240)
	tab := browser.Open(t).Scriptless(name, deskWidth, deskHeight)
	var rows, controls int
	tab.Eval(`document.querySelectorAll("#stores tbody tr").length`, &rows)
	tab.Eval(`document.querySelectorAll("nav:not([hidden]), #app:not([hidden])").length`, &controls)
	if said := tab.Text(".verdict"); rows != 240 || controls != 0 || !strings.Contains(said, "240 家") || !strings.Contains(said, "of 240") {
		t.Errorf("%d rows, %d controls without use, verdict %q", rows, controls, said)
	}
}

// TestTheIndexIsFilteredByJobVerdictAndDay, and judged like the page.
func TestTheIndexIsFilteredByJobVerdictAndDay(t *testing.T) {
	t.Parallel()
	name := indexed(t)
	b := browser.Open(t)
	axe := browser.Axe(t)
	for _, screen := range []struct {
		name          string
		width, height int
	}{{"desktop", deskWidth, deskHeight}, {"phone", phoneWidth, phoneHeight}} {
		tab := b.Tab(name, screen.width, screen.height, screen.name == "phone")
		for _, language := range []string{"zh", "en"} {
			speak(tab, language)
			for _, finding := range tab.Findings(axe) {
				t.Errorf("%s in %s: %s", screen.name, language, finding)
			}
			fits(t, tab, screen.width)
			if *pictures != "" {
				tab.Screenshot(filepath.Join(*pictures, "index-"+screen.name+"-"+language+".png"))
			}
		}
		for _, ask := range []struct{ id, value, want string }{
			{"job", "collect_log", "15 of 30 runs"}, {"verdict", "partial", "5 of 30 runs"}, {"q", "price", "0 of 30 runs"}, {"q", "", "5 of 30 runs"},
			{"job", "", "10 of 30 runs"}, {"day", "2026-09-16", "1 of 30 runs"},
		} {
			tab.Eval(fmt.Sprintf(`{ const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("input")) }`, ask.id, ask.value), nil)
			var rows int
			tab.Eval(`Array.from(document.querySelectorAll("#runs tbody tr")).filter((r) => r.offsetParent !== null).length`, &rows)
			if said := tab.Text("#found"); said != ask.want || !strings.HasPrefix(said, strconv.Itoa(rows)+" of") {
				t.Errorf("%s %q: %d rows, it says %q, want %q", ask.id, ask.value, rows, said, ask.want)
			}
		}
		quiet(t, tab)
	}
}
