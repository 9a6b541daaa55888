package tally_test

import (
	"fmt"
	"strings"
	"testing"

	"muster/edge-agent/internal/collect/tally"
	"muster/internal/redact"
)

func TestLevelOf(t *testing.T) {
	t.Parallel()
	const stamp = "2026-09-17 07:30:00 "
	for text, want := range map[string]tally.Level{
		"ERROR x": tally.Error, "[ERROR] x": tally.Error, "[error] x": tally.Error, "error: x": tally.Error, "Error x": tally.Error,
		"<Error> x": tally.Error, "|ERROR|x": tally.Error, "- ERROR [main] x": tally.Error, "[main] ERROR com.x - y": tally.Error,
		"[pool-1-thread-2] [c.x.Y] WARN  - y": tally.Warn, "host sshd[12]: error: x": tally.Error, "SEVERE x": tally.Error,
		"FATAL x": tally.Fatal, "CRITICAL x": tally.Fatal, "WARNING: x": tally.Warn, "notice x": tally.Info, "DEBUG x": tally.Debug,
		"TRACE x": tally.Trace, "【错误】打印失败": tally.Error, "错误：打印失败": tally.Error, "[警告] 缺纸": tally.Warn, "[main] 錯誤 逾時": tally.Error,
		"信息 启动": tally.Info, " 1234  1234 E Tag: x": tally.Error, " 1234  1234 I Tag: x": tally.Info, "level=error msg=x": tally.Error,
		"msg=x level=warn": tally.Warn, "INFO got ERROR 5 from peer": tally.Info,
		"x went wrong": tally.Other, "no error here": tally.Other, "errors: 5 found"[2:]: tally.Other, "com.x.ERROR.Y z": tally.Other,
		"a lot of errors happened in the error log": tally.Other, "/var/log/error/x": tally.Other, "密码错误": tally.Other, "": tally.Other,
		"Received E from A": tally.Other, "user INFORMATION_SCHEMA x": tally.Other,
	} {
		if got, message := tally.LevelOf([]byte(stamp+text), len(stamp)); got != want || message < 0 || message > len(stamp+text) {
			t.Errorf("%q: got %v, want %v (message at %d)", text, got, want, message)
		}
	}
	for line, want := range map[string]tally.Level{
		`{"level":"error","msg":"x"}`: tally.Error, `{"msg":"x","severity":"WARNING"}`: tally.Warn, `{"level":50,"msg":"x"}`: tally.Error,
		`{"level":30}`: tally.Info, `{"msg":"an error"}`: tally.Other,
	} {
		if got, _ := tally.LevelOf([]byte(line), len(line)/2); got != want {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
	before := "ERROR 2026-09-17 07:30:00 x"
	if got, _ := tally.LevelOf([]byte(before), len(before)-1); got != tally.Error {
		t.Errorf("%q: got %v", before, got)
	}
	syslog := "<11>Sep 17 07:30:00 host app: x"
	if got, _ := tally.LevelOf([]byte(syslog), 20); got != tally.Error {
		t.Errorf("%q: got %v", syslog, got)
	}
}

func TestMessagesGroupsAlike(t *testing.T) {
	t.Parallel()
	for _, alike := range [][]string{
		{"order 1 failed", "order 22 failed", "order  333\tfailed"},
		{"peer 10.0.0.1:80 down", "peer 192.168.1.20:8080 down"},
		{"session 0x14f05578bd80001 closed", "session 0x24f0557806a0010 closed"},
		{"id 3f2504e0-4f89-11d3-9a0c-0305e82c3301 gone", "id deadbeef-dead-beef-dead-beefdeadbeef gone"},
		{"tx 9f86d081884c7d65 lost", "tx aaaa1111bbbb2222 lost"}, {"took 1.5 s", "took 2 s", "took 1,234.50 s"},
		{"at 12:30:45", "at 1:02:03"}, {"打印失败：订单8823", "打印失败：订单9"}, {"worker3 died", "worker12 died"},
	} {
		m := tally.NewMessages()
		for i, text := range alike {
			m.Add([]byte(text), tally.Error, int64(10-i))
		}
		top, more := m.Top(10, func(s string) string { return s })
		if len(top) != 1 || more != 0 || top[0].Count != int64(len(alike)) || top[0].Example != alike[len(alike)-1] || top[0].LastMs != 10 {
			t.Errorf("%q: got %+v", alike, top)
		}
	}
	m := tally.NewMessages()
	for _, text := range []string{"disk full", "disk failed", "face off", "added"} {
		m.Add([]byte(text), tally.Error, 1)
	}
	if top, _ := m.Top(10, func(s string) string { return s }); len(top) != 4 {
		t.Errorf("different messages became one: %+v", top)
	}
}

func TestMessagesTop(t *testing.T) {
	t.Parallel()
	m := tally.NewMessages()
	for _, text := range strings.Fields("b a c c c b a") {
		m.Add([]byte(text), tally.Error, 1)
	}
	top, more := m.Top(2, func(s string) string { return s })
	if more != 1 || top[0].Message != "c" || top[1].Message != "a" {
		t.Errorf("got %+v, %d more", top, more)
	}
	if top, _ = m.Top(9, func(string) string { return "x" }); len(top) != 1 || top[0].Count != 7 {
		t.Errorf("what is alike once it is cleaned stayed apart: %+v", top)
	}
}

func TestMessagesTakeTheGravestLevel(t *testing.T) {
	t.Parallel()
	m := tally.NewMessages()
	for _, level := range []tally.Level{tally.Error, tally.Fatal, tally.Error} {
		m.Add([]byte("disk full"), level, 1)
	}
	if top, _ := m.Top(9, func(s string) string { return s }); top[0].Level != tally.Fatal {
		t.Errorf("got %v", top[0].Level)
	}
}

func TestMessagesAreCleanedBeforeTheyAreNormalised(t *testing.T) {
	t.Parallel()
	m := tally.NewMessages()
	m.Add([]byte("call 7 with Bearer a1b2c3d4e5f6g7 failed"), tally.Error, 1)
	m.Add([]byte("call 8 with Bearer z9y8x7w6v5u4t3 failed"), tally.Error, 2)
	top, _ := m.Top(9, func(s string) string { clean, _ := redact.Text(s); return clean })
	if len(top) != 1 || top[0].Message != "call # with Bearer [redacted] failed" || top[0].Count != 2 {
		t.Errorf("got %+v", top)
	}
}

func TestMessagesIsBounded(t *testing.T) {
	t.Parallel()
	m := tally.NewMessages()
	for i := range 10_000 {
		word := strings.Map(func(r rune) rune { return r - '0' + 'g' }, fmt.Sprintf("%05d", i))
		m.Add([]byte(word+strings.Repeat(" long", 1000)), tally.Error, 1)
	}
	top, _ := m.Top(10_000, func(s string) string { return s })
	if len(top) != 4096 || m.Dropped() != 10_000-4096 {
		t.Errorf("%d groups, %d dropped", len(top), m.Dropped())
	}
	if len(top[0].Message) > 300 || len(top[0].Example) > 500 {
		t.Errorf("a message of %d bytes, an example of %d", len(top[0].Message), len(top[0].Example))
	}
}

func TestExcerptKeepsTheLastImportantLines(t *testing.T) {
	t.Parallel()
	lines := func(order []int) string {
		e := tally.NewExcerpt(5)
		for _, i := range order {
			level := tally.Info
			if i%4 == 0 {
				level = tally.Error
			}
			e.Add(fmt.Appendf(nil, "line %d", i), false, tally.Line{AtMs: int64(i), Path: "p", Number: int64(i), Level: level})
		}
		var shown []string
		for _, line := range e.Lines() {
			shown = append(shown, strings.TrimPrefix(line.Text, "line "))
		}
		return strings.Join(shown, " ")
	}
	if got := lines([]int{1, 2, 3, 4, 5, 6, 7, 8, 9}); got != "4 6 7 8 9" {
		t.Errorf("got %s", got)
	}
	if got := lines([]int{9, 3, 8, 1, 2, 7, 4, 5, 6}); got != "4 6 7 8 9" {
		t.Errorf("in another order: got %s", got)
	}
	if got := tally.NewExcerpt(0); len(got.Lines()) != 0 {
		t.Errorf("no lines asked for, got %v", got.Lines())
	}
	e := tally.NewExcerpt(1)
	e.Add([]byte(strings.Repeat("错", 1000)), false, tally.Line{})
	if line := e.Lines()[0]; !line.Cut || len(line.Text) != 1023 {
		t.Errorf("cut %v, %d bytes", line.Cut, len(line.Text))
	}
}
