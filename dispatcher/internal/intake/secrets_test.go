package intake_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// canary is what must not come out anywhere. It is found under no other rule
// than the name that it stands beside.
const canary = "kanari3nvogel"

// watched is a desk whose alarms, log and database can be looked through.
type watched struct {
	*desk
	folder string
	log    *bytes.Buffer
	alarms []string
}

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{folder: t.TempDir(), log: &bytes.Buffer{}}
	w.desk = &desk{t: t, leases: &leases{}}
	w.desk.Bench = steptest.Open(t, filepath.Join(w.folder, "muster.db"), func(changes []store.Change) { w.desk.Changed(changes) })
	w.desk.Intake = intake.New(intake.Config{Tasks: w.Store, Attempts: w.Store, Jobs: registry(t), Leases: w.leases, Orders: w.Sender,
		Now: time.Now, Logger: slog.New(slog.NewJSONHandler(w.log, nil)), InFlight: 1, BurstBytes: 1,
		Alarm: func(kind, subject string, trouble error) {
			w.alarms = append(w.alarms, fmt.Sprint(kind, " ", subject, ": ", trouble))
		}})
	return w
}

// search fails where the canary is found in what left intake.
func (w *watched) search() {
	w.t.Helper()
	synctest.Wait()
	files, err := os.ReadDir(w.folder)
	if err != nil || len(files) == 0 {
		w.t.Fatalf("no database: %v", err)
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, file.Name())
		content, err := os.ReadFile(filepath.Join(w.folder, file.Name()))
		if err != nil {
			w.t.Fatal(err)
		}
		if at := bytes.Index(content, []byte(canary)); at >= 0 {
			w.t.Errorf("%s holds it: %q", file.Name(), content[max(0, at-80):at+len(canary)])
		}
	}
	if !slices.Contains(names, "muster.db-wal") {
		w.t.Errorf("no journal among %v: is it still looked into?", names)
	}
	if strings.Contains(w.log.String(), canary) {
		w.t.Errorf("the log holds it: %s", w.log)
	}
	for _, sent := range w.Broker.Sent() {
		if bytes.Contains(sent.Payload, []byte(canary)) {
			w.t.Errorf("%s says it: %s", sent.Topic, sent.Payload)
		}
	}
	if strings.Contains(fmt.Sprint(w.alarms), canary) {
		w.t.Errorf("an alarm tells it: %v", w.alarms)
	}
}

func TestNoSecretOfAResultIsStoredLoggedOrSaid(t *testing.T) {
	nested := fmt.Sprintf(`{"lines":1,"text":"at 10:00\n\"db\" password=%s ok"}`, canary)
	detail := fmt.Sprintf(`{"code":"EXECUTION","message":"login with token=%[1]s failed","detail":"url mysql://pos:%[1]s@db/x","password":"%[1]s","path":"/password=%[1]s"}`, canary)
	strange := fmt.Sprintf(`{"lines":1,"secret":{"a":["%[1]s"]},"password=%[1]s":1}`, canary)
	key := "-----BEGIN PRIVATE KEY-----\\n" + canary + "\\n-----END PRIVATE KEY-----"
	for _, c := range []struct{ name, members, receipt string }{
		{"value", `"outcome":"succeeded","result":` + nested + `,"sha256":"` + digest(nested) + `","outputTail":"Authorization: Bearer ` + canary + `"`, "accepted"},
		{"private key", `"outcome":"succeeded","result":{"lines":1,"text":"` + key + `"},"sha256":"` + digest(`{"lines":1,"text":"`+key+`"}`) + `"`, "accepted"},
		{"error", `"outcome":"failed","error":` + detail + `,"sha256":"` + digest(detail) + `","outputTail":"run --password ` + canary + ` -x"`, "accepted"},
		{"strange error", `"outcome":"failed","error":[{"name":"DB_PASSWORD","value":"` + canary + `"}],"sha256":""`, "accepted"},
		{"no hash", `"outcome":"succeeded","result":{},"outputTail":"pwd=` + canary + `","sha256":"token=` + canary + `"`, "refused"},
		{"refused by its schema", `"outcome":"succeeded","result":` + strange + `,"outputTail":"pwd: ` + canary + `","sha256":"` + digest(strange) + `"`, "refused"},
		{"refused by its outcome", `"outcome":"password=` + canary + `","note":"token=` + canary + `","offerSha256":"pwd=` + canary + `"`, "refused"},
		{"cut off", `"outcome":"succeeded","result":{"password":"` + canary + `","a":`, "refused"},
		{"a key twice", `"outcome":"succeeded","a":1,"a":2,"p":{"password":"` + canary + `"}`, "refused"},
		{"another offer", `"outcome":"succeeded","result":` + nested + `,"sha256":"` + digest(nested) + `","offerSha256":"token=` + canary + `"`, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watch(t)
				w.run(1)
				payload := `{"taskId":"r-S000","attempt":1,"executed":true,` + c.members
				if c.name != "cut off" {
					payload += "}"
				}
				w.sendRaw(0, []byte(payload))
				if got := w.lastReceipt(); !strings.HasPrefix(got, c.receipt) {
					t.Errorf("receipt: %s, want %s", got, c.receipt)
				}
				attempts, err := w.Store.ListAttempts(t.Context(), "r-S000")
				if err != nil || len(attempts) != 1 || attempts[0].Redacted == 0 {
					t.Errorf("stored %+v, %v", attempts, err)
				}
				if w.Stats().Redacted != 1 || len(w.alarms) != 1 || !strings.HasPrefix(w.alarms[0], "secret_in_result S000/pos: ") ||
					!strings.Contains(w.alarms[0], "r-S000") || !strings.Contains(w.log.String(), "secrets") {
					t.Errorf("counted %+v, alarms %v, log %s", w.Stats(), w.alarms, w.log)
				}
				w.sendRaw(0, []byte(payload)) // again, and from another attempt
				w.sendRaw(0, []byte(strings.Replace(payload, `"attempt":1`, `"attempt":9`, 1)))
				if w.Stats().Redacted != 1 {
					t.Errorf("counted %+v", w.Stats())
				}
				w.search()
			})
		})
	}
}

func TestNoSecretOfAMessageThatCannotBeReadIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.run(1)
		for _, payload := range []string{
			`{"password":"` + canary + `"}`, `{"\u0070assword":"` + canary + `"}`, "token=" + canary, `[{"value":"` + canary + `","name":"pwd"}]`,
			`{"attempt":"password=` + canary + `"}`, strings.Repeat(`{"a":1,"password":"`+canary+`"`, 9000),
		} {
			w.sendRaw(0, []byte(payload))
			time.Sleep(time.Minute) // one line a minute
			in := steptest.Message(nil)
			in.Payload = []byte(payload)
			if err := w.HandleReady(t.Context(), steptest.From(0, protocol.KindReady), in); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		ready := protocol.Ready{TaskID: "r-S000", Attempt: 1, Bytes: 20_000, SHA256: "password=" + canary}
		if err := w.HandleReady(t.Context(), steptest.From(0, protocol.KindReady), steptest.Message(ready)); err != nil {
			t.Fatal(err)
		}
		if w.Stats().Unreadable != 13 || w.log.Len() == 0 {
			t.Errorf("counted %+v", w.Stats())
		}
		w.search()
	})
}

func TestAReceiptNamesTheBytesThatTheTerminalSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.run(1, func(*job.Policy) {})
		result := `{ "lines":9007199254740993, "text":"a\u0041 token=` + canary + `", "ratio":1.50e+2 }`
		m := success(0, 1, result)
		w.sendRaw(0, fmt.Appendf(nil, `{"taskId":"r-S000","attempt":1,"outcome":"succeeded","result":%s,"sha256":%q}`, result, m.SHA256))
		w.expect("accepted", over(task.Succeeded, 1))
		if got := w.Broker.Orders(protocol.OrderReceipt)[0].Order.SHA256; got != digest(result) {
			t.Errorf("the receipt names %s", got)
		}
		stored, err := w.Store.GetResult(t.Context(), "r-S000", 1)
		want := strings.Replace(result, canary, "[redacted]", 1)
		if err != nil || string(stored.Result) != want || stored.SHA256 != digest(result) || stored.Redacted != 1 {
			t.Errorf("stored %s (%d, %s), %v", stored.Result, stored.Redacted, stored.SHA256, err)
		}
	})
}

func TestWhatATerminalBlackedOutRaisesNoAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.run(1)
		m := success(0, 1, `{"lines":1,"text":"password=[redacted]\ntoken: [redacted], \"pwd\":\"[redacted]\" passwordPolicy=none"}`)
		m.OutputTail = "Authorization: [redacted]"
		w.send(0, m)
		w.expect("accepted", over(task.Succeeded, 1))
		stored, err := w.Store.GetResult(t.Context(), "r-S000", 1)
		if err != nil || string(stored.Result) != string(m.Result) || stored.Redacted != 0 || stored.OutputTail != m.OutputTail {
			t.Errorf("stored %s, %v", stored.Result, err)
		}
		if w.Stats().Redacted != 0 || len(w.alarms) != 0 {
			t.Errorf("alarms %v", w.alarms)
		}
	})
}

func TestSecretsAreCountedEachTimeAndToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.run(4, func(p *job.Policy) { p.Attempts = 9 })
		leak := func(i, attempt int) {
			m := failure(i, attempt, protocol.CodeExecution)
			m.OutputTail = "password=" + canary
			w.send(i, m)
		}
		for i := range 3 {
			leak(i, 1)
		}
		if got := len(w.alarms); got != 3 {
			t.Fatalf("%d alarms of three terminals", got)
		}
		for attempt := 2; attempt < 6; attempt++ {
			time.Sleep(40 * time.Second)
			w.grant(0)
			leak(0, attempt)
		}
		if got := w.Stats().Redacted; got != 7 || len(w.alarms) != 5 {
			t.Errorf("%d counted, %d alarms in 160 s", got, len(w.alarms))
		}
		w.search()
	})
}
