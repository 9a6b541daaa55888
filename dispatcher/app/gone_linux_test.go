package app_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

// Headquarters must not go on acknowledging into a file that nobody finds again, and a
// supervisor's next start must not begin with nothing.
func TestDatabaseThatIsTakenAwayEndsHeadquartersWithTheWayOut(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(data string) error{
		"database removed": func(data string) error { return os.Remove(filepath.Join(data, "muster.db")) },
		"folder removed":   os.RemoveAll,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			hq := setup(t, config.TransportEmbedded, []string{"A001"}, nil)
			tech := hq.technician("alice")
			if err := tech.conn.Subscribe(t.Context(), hq.topics.Root()+"/alarms/#"); err != nil {
				t.Fatal(err)
			}
			run := tech.run(`{"job":"probe","stores":"all"}`)
			if err := take(hq.cfg.DataFolder); err != nil {
				t.Fatal(err)
			}
			tech.await("the alarm", func(m fleet.Message) bool {
				return m.Topic == hq.topics.Alarm(protocol.SeverityCritical, "database_gone")
			})
			var err error
			select {
			case err = <-hq.ended:
			case <-time.After(patience):
				t.Fatal("headquarters goes on")
			}
			hq.cancel = nil
			if !errors.Is(err, store.ErrGone) || !strings.Contains(err.Error(), "dispatcher restore ") {
				t.Fatalf("ended with %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			again := app.Run(ctx, hq.cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Ready: func(string) { cancel() }})
			if again == nil || !strings.Contains(again.Error(), "dispatcher restore BACKUP --data "+hq.cfg.DataFolder) {
				t.Fatalf("started again: %v", again)
			}
			_, rest, _ := strings.Cut(err.Error(), "is saved in ")
			file, _, _ := strings.Cut(rest, ": put the files back")
			if err := os.MkdirAll(hq.cfg.DataFolder, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Restore(t.Context(), file, filepath.Join(hq.cfg.DataFolder, "muster.db"), "ada", time.Now()); err != nil {
				t.Fatal(err)
			}
			hq.start()
			tech = hq.technician("bob")
			if reply := tech.ask(protocol.VerbStatus, `{"runId":"`+run.RunID+`"}`); !reply.OK {
				t.Errorf("the run is lost: %+v", reply)
			}
		})
	}
}

// A database that breaks under headquarters is told of while it lasts, over the broker
// as well, and when it is over.
func TestDatabaseThatBreaksUnderHeadquartersIsToldUntilItIsWhole(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A001"}, nil)
	tech := hq.technician("alice")
	if err := tech.conn.Subscribe(t.Context(), hq.topics.Root()+"/alarms/#"); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(hq.cfg.DataFolder, "muster.db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // before, it would drop SQLite's locks
	header := make([]byte, 100)
	_, err = file.ReadAt(header, 0)
	if err == nil {
		_, err = file.WriteAt(make([]byte, 100), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	told := func(recovered bool) func(fleet.Message) bool {
		return func(m fleet.Message) bool {
			var a protocol.Alarm
			return m.Topic == hq.topics.Alarm(protocol.SeverityCritical, "database_damaged") &&
				protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &a) == nil && a.Recovered == recovered
		}
	}
	tech.await("the alarm", told(false))
	if reply := tech.ask(protocol.VerbJobs, `{}`); reply.OK || reply.Code != protocol.CodeInternal {
		t.Errorf("headquarters is well: %+v", reply)
	}
	if _, err := file.WriteAt(header, 0); err != nil {
		t.Fatal(err)
	}
	tech.await("the end of it", told(true))
	if reply := tech.ask(protocol.VerbJobs, `{}`); !reply.OK {
		t.Errorf("headquarters is not well: %+v", reply)
	}
}
