package store_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

// tampering is one way to change an audit, and where it has to show.
type tampering struct {
	name  string
	do    func(b *bundle, db *sql.DB)
	kind  store.AuditFaultKind
	id    int64
	text  string
	heads bool // only the noted heads can tell
}

func tamperings() []tampering {
	return []tampering{
		{"actor edited", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET actor = 'eve' WHERE id = 4`) },
			store.AuditEdited, 4, "entry 4 was changed", false},
		{"time edited", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET at = at + 1 WHERE id = 1`) },
			store.AuditEdited, 1, "entry 1 was changed", false},
		{"last detail edited", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET detail = '' WHERE id = 10`) },
			store.AuditEdited, 10, "entry 10 was changed", false},
		{"edited with its own hash", func(b *bundle, db *sql.DB) {
			b.run(db, `UPDATE audit SET detail = 'nothing' WHERE id = 4`)
			var prev string
			var ms int64
			var subject string
			if err := db.QueryRowContext(b.t.Context(), `SELECT prev_hash, at, subject FROM audit WHERE id = 4`).Scan(&prev, &ms, &subject); err != nil {
				b.t.Fatal(err)
			}
			b.run(db, `UPDATE audit SET hash = ? WHERE id = 4`, linked(prev, 4, ms, "ada", "tested", subject, "nothing"))
		}, store.AuditBroken, 5, "entry 5 does not follow entry 4", false},
		{"one removed", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id = 6`) },
			store.AuditRemoved, 7, "entry 6 is missing before entry 7", false},
		{"first ones removed", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id <= 3`) },
			store.AuditRemoved, 4, "entries 1 to 3 are missing before entry 4", false},
		{"removed and closed up", func(b *bundle, db *sql.DB) {
			b.run(db, `DELETE FROM audit WHERE id = 6`)
			for id := 7; id <= 10; id++ {
				b.run(db, `UPDATE audit SET id = ? WHERE id = ?`, id-1, id)
			}
		}, store.AuditEdited, 6, "entry 6 was changed", false},
		{"two exchanged", func(b *bundle, db *sql.DB) {
			for _, move := range [][2]int{{3, 99}, {4, 3}, {99, 4}} {
				b.run(db, `UPDATE audit SET id = ? WHERE id = ?`, move[1], move[0])
			}
		}, store.AuditEdited, 3, "entry 3 was changed", false},
		{"hash taken away", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET hash = '' WHERE id = 8`) },
			store.AuditUnchained, 8, "entry 8 has no hash", false},
		{"one put in at the end", func(b *bundle, db *sql.DB) {
			b.run(db, `INSERT INTO audit (at, actor, action, subject, detail) VALUES (1, 'x', 'x', 'x', 'x')`)
		}, store.AuditUnchained, 11, "entry 11 has no hash", false},
		{"hashes taken away behind the first head", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET hash = '' WHERE id > 5`) },
			store.AuditUnchained, 6, "entry 6 has no hash", false},
		{"begun once more", func(b *bundle, _ *sql.DB) {
			if err := b.Audit(b.t.Context(), "headquarters", "chain_started", "audit", "10 entries", at(time.Minute)); err != nil {
				b.t.Fatal(err)
			}
		}, store.AuditRewritten, 11, "entry 11 begins the chain once more", false},
		{"begun with nothing older", func(b *bundle, db *sql.DB) {
			b.run(db, `UPDATE audit SET actor = 'headquarters', action = 'chain_started' WHERE id = 1`)
			b.rewrite(db, 1)
		}, store.AuditRewritten, 1, "entry 1 begins the chain once more", false},
		{"begun later, with the right seal", func(b *bundle, db *sql.DB) {
			b.run(db, `UPDATE audit SET actor = 'eve' WHERE id = 4`)
			b.run(db, `UPDATE audit SET hash = '', prev_hash = '' WHERE id < 8`)
			b.run(db, `UPDATE audit SET actor = 'headquarters', action = 'chain_started', subject = 'audit', detail = ? WHERE id = 8`, b.seal(db, 7))
			b.rewrite(db, 8)
		}, store.AuditRewritten, 5, "entry 5 is not the one that was noted down", true},
		{"the end cut", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id > 7`) },
			store.AuditCut, 10, "entries 8 to 10 are missing at the end", false},
		{"everything cut", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit`) },
			store.AuditCut, 10, "entries 1 to 10 are missing at the end", false},
		{"the end cut and its count", func(b *bundle, db *sql.DB) {
			b.run(db, `DELETE FROM audit WHERE id > 7`)
			b.run(db, `UPDATE sqlite_sequence SET seq = 7 WHERE name = 'audit'`)
		}, store.AuditCut, 10, "entry 10 was noted down, and the newest here is 7", true},
		{"cut and grown again", func(b *bundle, db *sql.DB) {
			b.run(db, `DELETE FROM audit WHERE id > 7`)
			b.run(db, `UPDATE sqlite_sequence SET seq = 7 WHERE name = 'audit'`)
			b.audited(5)
		}, store.AuditRewritten, 10, "entry 10 is not the one that was noted down", true},
		{"edited and chained anew", func(b *bundle, db *sql.DB) {
			b.run(db, `UPDATE audit SET actor = 'eve' WHERE id = 4`)
			b.rewrite(db, 4)
		}, store.AuditRewritten, 5, "entry 5 is not the one that was noted down", true},
	}
}

func TestTamperingWithTheAuditShows(t *testing.T) {
	t.Parallel()
	for _, tt := range tamperings() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.audited(5)
			heads := []store.AuditHead{b.head()}
			b.audited(5)
			heads = append(heads, b.head())
			intact(t, b.path, 10, heads...)
			tt.do(b, b.unguarded())
			blind, seeing := verify(t, b.path), verify(t, b.path, heads...)
			if tt.heads != (len(blind.Faults) == 0) {
				t.Errorf("without heads: %+v", blind.Faults)
			}
			for _, r := range []store.AuditReport{blind, seeing} {
				if len(r.Faults) == 0 && tt.heads {
					continue
				}
				if len(r.Faults) == 0 || r.Faults[0].Kind != tt.kind || r.Faults[0].ID != tt.id || !strings.Contains(r.Faults[0].Text, tt.text) {
					t.Errorf("found %+v, want %s at %d: %s", r.Faults, tt.kind, tt.id, tt.text)
				}
			}
			if len(seeing.Faults) == 0 {
				t.Error("heads did not help")
			}
		})
	}
}

// seal is what an honest seal would say of the first entries.
func (b *bundle) seal(db *sql.DB, entries int) string {
	b.t.Helper()
	hash := ""
	for _, r := range b.rows(db)[:entries] {
		hash = linked(hash, r.id, r.at, r.actor, r.action, r.subject, r.detail)
	}
	return fmt.Sprintf("%d entries were written before the chain, sha256 %s", entries, hash)
}

// strip takes the whole chain away, edits an entry, and leaves the file as
// guarded as it was. With marks it takes away what says that there was a chain.
func (b *bundle) strip(marks bool) {
	b.t.Helper()
	db := b.raw()
	var guards []string
	rows, err := db.QueryContext(b.t.Context(), `SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit' ORDER BY name`)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var guard string
		if err := rows.Scan(&guard); err != nil {
			b.t.Fatal(err)
		}
		guards = append(guards, guard)
	}
	if err := rows.Err(); err != nil || len(guards) != 3 {
		b.t.Fatal(guards, err)
	}
	db = b.unguarded()
	b.run(db, `UPDATE audit SET actor = 'eve', detail = 'nothing to see' WHERE id = 4`)
	b.run(db, `UPDATE audit SET hash = '', prev_hash = ''`)
	if marks {
		b.run(db, `DELETE FROM meta WHERE key = 'audit_chain'`)
	}
	for _, guard := range guards {
		b.run(db, guard)
	}
}

func TestChainThatWasTakenAwayIsNotSealedAgain(t *testing.T) {
	t.Parallel()
	enrolled := func(b *bundle) {
		err := b.AddEnrolment(b.t.Context(), store.Enrolment{TokenSHA256: strings.Repeat("a", 64), StoreID: "0001", TerminalID: "pos-1", CreatedBy: "ada",
			CreatedAt: at(9 * time.Second), ExpiresAt: at(time.Hour)})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	asked := func(b *bundle) {
		_, _, err := b.AddApproval(b.t.Context(), store.Approval{ApprovalID: "P", Kind: store.ApprovalKeys, Requester: "ada", ContentHash: "c", Request: "{}",
			ExpiresAt: at(time.Hour)}, at(9*time.Second))
		if err != nil {
			b.t.Fatal(err)
		}
	}
	tests := map[string]struct {
		before func(*bundle)
		marks  bool // were taken away, too
		sealed bool // only the heads can tell
	}{
		"the hashes":                          {nil, false, false},
		"the mark, and a token is there":      {enrolled, true, false},
		"the mark, and an approval is there":  {asked, true, false},
		"the mark, and nothing else is there": {nil, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.audited(5)
			heads := []store.AuditHead{b.head()}
			b.audited(4)
			if tt.before != nil {
				tt.before(b)
			} else {
				b.audited(1)
			}
			heads = append(heads, b.head())
			intact(t, b.path, 10, heads...)
			b.strip(tt.marks)
			b.reopen()
			if sealed := slices.ContainsFunc(b.entries(""), func(e store.AuditEntry) bool { return e.Action == "chain_started" }); sealed != tt.sealed {
				t.Errorf("sealed: %v, want %v", sealed, tt.sealed)
			}
			for range 2 {
				seeing := verify(t, b.path, heads...)
				if len(seeing.Faults) < 2 || seeing.Faults[0].Kind != store.AuditRewritten || seeing.Faults[0].ID != 5 || seeing.Faults[1].ID != 10 {
					t.Errorf("with heads: %+v", seeing.Faults)
				}
				if blind := verify(t, b.path); tt.sealed != (len(blind.Faults) == 0) {
					t.Errorf("without heads: %+v", blind.Faults)
				}
				b.audited(1) // as headquarters goes on, by the rules of the file
				b.reopen()
			}
			if r := verify(t, b.path); !tt.sealed && (len(r.Faults) == 0 || r.Faults[0].Kind != store.AuditUnchained || r.Faults[0].ID != 11 ||
				!strings.Contains(r.Faults[0].Text, "entries 1 to 10 have no hash, and entry 11 does not seal them")) {
				t.Errorf("later, without heads: %+v", r.Faults)
			}
		})
	}
}

func TestVerifyMeasuresWhatNoHeadCovers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.audited(3)
	head := b.head()
	for _, m := range []int{0, 11, 7} {
		if err := b.Audit(t.Context(), "ada", "tested", "it", "", at(time.Hour+time.Duration(m)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		heads  []store.AuditHead
		behind time.Duration
	}{{[]store.AuditHead{head}, 11 * time.Minute}, {[]store.AuditHead{b.head(), head}, 0}, {nil, 71 * time.Minute}} {
		if r := verify(t, b.path, tt.heads...); len(r.Faults) != 0 || r.Behind != tt.behind {
			t.Errorf("%+v: %s, %+v, want %s", tt.heads, r.Behind, r.Faults, tt.behind)
		}
	}
}

func TestTextThatIsNoTextIsAnEdit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.Audit(t.Context(), "a", "b", "c", "\uFFFD", t0); err != nil {
		t.Fatal(err)
	}
	b.run(b.unguarded(), `UPDATE audit SET detail = CAST(x'ff' AS TEXT)`) // would be shown as U+FFFD
	if r := verify(t, b.path); len(r.Faults) != 1 || r.Faults[0].Kind != store.AuditEdited {
		t.Errorf("%+v", r)
	}
}

// unguarded opens the file without the triggers that protect the audit.
func (b *bundle) unguarded() *sql.DB {
	b.t.Helper()
	db := b.raw()
	for _, trigger := range []string{"audit_no_update", "audit_no_delete", "audit_chained"} {
		b.run(db, "DROP TRIGGER "+trigger)
	}
	return db
}

func (b *bundle) run(db *sql.DB, text string, args ...any) {
	b.t.Helper()
	if _, err := db.ExecContext(b.t.Context(), text, args...); err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
}

// rewrite makes the chain fit again from an entry on, as somebody would who has
// the program and the file.
func (b *bundle) rewrite(db *sql.DB, from int64) {
	b.t.Helper()
	prev := ""
	for _, r := range b.rows(db) {
		if r.id >= from {
			hash := linked(prev, r.id, r.at, r.actor, r.action, r.subject, r.detail)
			b.run(db, `UPDATE audit SET prev_hash = ?, hash = ? WHERE id = ?`, prev, hash, r.id)
			r.hash = hash
		}
		prev = r.hash
	}
}
