package durability_test

import (
	"strings"
	"testing"

	"muster/tests/chaos/durability"
	"muster/tests/chaos/strace"
)

// The steps of one answer on its way: the lines of a trace.
const (
	write   = `7 pwrite64(9</d/data/muster.db-wal>, "…the-answer…", 4096, 32) = 4096`
	sync    = `7 fsync(9</d/data/muster.db-wal>) = 0`
	begins  = `7 fsync(9</d/data/muster.db-wal> <unfinished ...>`
	ends    = `7 <... fsync resumed>) = 0`
	failed  = `7 fsync(9</d/data/muster.db-wal>) = -1 EIO (Input/output error)`
	other   = `7 fsync(8</d/data/muster.db>) = 0`
	receipt = `8 write(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, "@\2\0\0062\7\0\1o\0\5\0r", 13) = 13`
	half1   = `8 write(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, "2\7\0", 3) = 3`
	half2   = `8 write(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, "\1o\0\5\0r", 6) = 6`
)

// TestJudgeFindsASwappedOrder plants each way to say a thing too early.
func TestJudgeFindsASwappedOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string
		want  string // the beginning of what is broken, after what it is about
	}{
		"kept":                        {[]string{write, sync, receipt}, ""},
		"kept, in pieces":             {[]string{write, begins, ends, half1, half2}, ""},
		"said before the sync":        {[]string{write, receipt, sync}, "written at line 1 and synced at line 3, but line 2"},
		"said before the write":       {[]string{receipt, write, sync}, "written at line 2 and synced at line 3, but line 1"},
		"said while it syncs":         {[]string{write, begins, receipt, ends}, "written at line 1 and synced at line 4, but line 3"},
		"begun to be said before":     {[]string{write, half1, sync, half2}, "written at line 1 and synced at line 3, but line 2"},
		"said twice, once too early":  {[]string{receipt, write, sync, receipt}, "written at line 2 and synced at line 3, but line 1"},
		"the sync failed":             {[]string{write, failed, receipt}, "it was never synced"},
		"another file was synced":     {[]string{write, other, receipt}, "it was never synced"},
		"synced before it is written": {[]string{sync, write, receipt}, "it was never synced"},
		"nothing written":             {[]string{sync, receipt}, "it was never written"},
		"nothing said":                {[]string{write, sync}, "nothing followed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, err := strace.Parse(strings.NewReader(strings.Join(c.lines, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			sent, err := durability.Sent(calls)
			if err != nil {
				t.Fatal(err)
			}
			o := durability.Order{What: "answer", Change: durability.Writes("pwrite64", wal, "the-answer"), Sync: durability.Syncs(wal),
				Then: durability.Calls(sent, func(pk durability.Packet) bool { return pk.Topic == "o" && pk.Payload == "r" && pk.ID == 5 })}
			if got := o.Broken(calls); !strings.HasPrefix(got, strings.TrimSuffix("answer: "+c.want, "answer: ")) || c.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
