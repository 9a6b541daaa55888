package store_test

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"muster/dispatcher/internal/store"
	"muster/tests/programs"
)

// flips is how many bytes of each kind are flipped, and the seed of which.
const (
	flips    = 3
	flipSeed = 7
)

// crashed is what a killed store leaves: pages of every kind in the file, among
// them free ones and a result over many, and commits in the log.
func crashed(t *testing.T) logged {
	t.Helper()
	b := setup(t)
	b.create(120)
	for i := range 3 {
		b.grant(i, t0)
		b.settle(success(i, 1, fmt.Sprintf(`{"till":"closed at 22:0%d","text":"%s"}`, i, strings.Repeat("x", 9000*i))), t0)
	}
	for _, text := range []string{
		"CREATE TABLE passing (text TEXT)", "INSERT INTO passing VALUES (hex(zeroblob(20000)))", "DROP TABLE passing",
		"PRAGMA wal_checkpoint(RESTART)",
	} {
		if _, err := b.raw().ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	for i := 3; i < 8; i++ {
		b.grant(i, t0)
	}
	var l logged
	var err error
	for suffix, into := range map[string]*[]byte{"": &l.file, "-wal": &l.log, "-shm": &l.index} {
		if *into, err = os.ReadFile(b.path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// pageKinds are the offsets of the file's pages by what they are: section 1.6 of
// the SQLite file format. What is no tree is a free page or holds the rest of a
// large value.
func (l logged) pageKinds(t *testing.T) map[string][]int {
	t.Helper()
	names := map[byte]string{2: "interior of an index", 5: "interior of a table", 10: "leaf of an index", 13: "leaf of a table"}
	free := map[int]bool{}
	for trunk := int(binary.BigEndian.Uint32(l.file[32:])); trunk != 0; {
		at := (trunk - 1) * pageBytes
		free[at] = true
		for i := range int(binary.BigEndian.Uint32(l.file[at+4:])) {
			free[(int(binary.BigEndian.Uint32(l.file[at+8+4*i:]))-1)*pageBytes] = true
		}
		trunk = int(binary.BigEndian.Uint32(l.file[at:]))
	}
	kinds := map[string][]int{}
	for at := 0; at < len(l.file); at += pageBytes {
		name := names[l.file[at]]
		switch {
		case at == 0:
			name = "schema"
		case free[at]:
			name = "free"
		case name == "":
			name = "overflow"
		}
		kinds[name] = append(kinds[name], at)
	}
	for _, name := range []string{"interior of a table", "leaf of an index", "leaf of a table", "free", "overflow"} {
		if len(kinds[name]) == 0 {
			t.Fatalf("there is no page that is %q in %d", name, len(l.file)/pageBytes)
		}
	}
	return kinds
}

// used is how much of the log is no rest of a longer one.
func (l logged) used() int {
	end := logHeader
	for end < len(l.log) && bytes.Equal(l.log[end+8:end+16], l.log[16:24]) {
		end += frameBytes
	}
	return end
}

// rows is every row by its key and whatever ends in a receipt, as a string.
func rows(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out bytes.Buffer
	for _, query := range []string{
		`SELECT run_id FROM runs`, `SELECT run_id, store_id FROM run_targets`, `SELECT task_id, status FROM tasks`,
		`SELECT task_id, attempt, answer IS NULL FROM attempts`, `SELECT id, hash FROM audit`, `SELECT key FROM meta`,
	} {
		if err := dump(t, &out, db, query); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// want is what a crash image says when nothing is flipped.
type want struct{ rows, content string }

// fate is how a flip ended.
type fate string

const (
	refused fate = "refused"
	sound   fate = "started, nothing lost"
	unseen  fate = "started, a value changed" // the limit: SQLite has no checksum of a page
)

// open starts on what was flipped, and fails when something was lost in silence.
func (l logged) open(t *testing.T, what string, w want) fate {
	t.Helper()
	path := l.put(t, l.log, l.index)
	got, err := content(t, path)
	switch {
	case err != nil && !strings.Contains(err.Error(), "restore"):
		t.Errorf("%s: the refusal says no way out: %v", what, err)
	case err != nil:
		return refused
	case got == w.content:
		return sound
	case rows(t, path) != w.rows:
		t.Errorf("%s: rows are lost, and nobody was told", what)
	}
	return unseen
}

// TestFlippedByteAfterACrashIsRefusedOrLosesNothing flips bytes of every part of
// what a kill leaves. A start that takes it has every row, and the results that
// differ from their hash are refused when they are read.
func TestFlippedByteAfterACrashIsRefusedOrLosesNothing(t *testing.T) {
	t.Parallel()
	l := crashed(t)
	path := l.put(t, l.log, l.index)
	said, err := content(t, path)
	if err != nil {
		t.Fatal(err)
	}
	w := want{rows(t, path), said}
	random := rand.New(rand.NewPCG(flipSeed, 0)) //nolint:gosec // which bytes are tried
	choose := func(first, bytes int) (offsets []int) {
		if programs.Full() {
			for at := first; at < first+bytes; at += 1 + random.IntN(255) {
				offsets = append(offsets, at)
			}
			return offsets
		}
		for range flips {
			offsets = append(offsets, first+random.IntN(bytes))
		}
		return offsets
	}
	flip := func(what string, content *[]byte, offsets []int) map[fate]int {
		fates := map[fate]int{}
		for _, at := range offsets {
			flipped := l
			into := map[*[]byte]*[]byte{&l.file: &flipped.file, &l.log: &flipped.log, &l.index: &flipped.index}[content]
			*into = bytes.Clone(*content)
			(*into)[at] ^= byte(1) << random.IntN(8)
			fates[flipped.open(t, fmt.Sprintf("%s, byte %d", what, at), w)]++
		}
		t.Logf("%s: %v", what, fates)
		return fates
	}
	flip("header", &l.file, choose(0, 100))
	kinds := l.pageKinds(t)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		pages := kinds[kind]
		random.Shuffle(len(pages), func(i, j int) { pages[i], pages[j] = pages[j], pages[i] })
		if !programs.Full() {
			pages = pages[:min(2, len(pages))]
		}
		for _, page := range pages {
			flip(kind, &l.file, slices.Concat(choose(page, pageBytes), choose(max(page, 100), 12)))
		}
	}
	if fates := flip("log", &l.log, slices.Concat(choose(0, logHeader), choose(logHeader, l.used()-logHeader))); fates[unseen]+fates[sound] != 0 {
		t.Errorf("flips in the log: %v", fates)
	}
	if fates := flip("index", &l.index, slices.Concat(choose(0, 136), choose(136, len(l.index)-136))); fates[unseen]+fates[refused] != 0 {
		t.Errorf("the index is made anew at each start: %v", fates)
	}
}

// A schema version that changed is not taken for an older database, nor for another
// program's, without a word of how to get back.
func TestFlippedMarkOfTheFileIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.close()
	sound, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{60, 62, 63, 68, 71} { // user_version, application_id
		for _, mask := range []byte{0x04, 0x80} {
			flipped := logged{file: bytes.Clone(sound)}
			flipped.file[at] ^= mask
			_, err := store.Open(t.Context(), store.Options{Path: flipped.put(t, nil, nil), BallastBytes: -1})
			if err == nil || !strings.Contains(err.Error(), "restore") {
				t.Errorf("byte %d, mask %#x: %v", at, mask, err)
			}
		}
	}
	b.open()
}
