package intake_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestS18HostileNumbersAreRefused(t *testing.T) {
	for _, number := range []string{
		"1e400", "-1e400", "1e1000001", "1e-1000001", "1" + strings.Repeat("0", 1000), "0." + strings.Repeat("1", 1000), "1e999999999999999999999",
		strings.Repeat("9", 300<<10), strings.Repeat("9", 1<<20), "0x10", "NaN", "-Infinity", "01", "1.", "+1",
	} {
		for _, member := range []string{`{"lines":1,"ratio":%s}`, `{"lines":%s}`, `{"lines":1,"text":[[%s]]}`} {
			refused(t, fmt.Sprintf(member, number))
		}
	}
}

func TestS18HostileShapesAreRefused(t *testing.T) {
	wideList := "[" + strings.Repeat("0,", 100_000) + "0]"
	for name, value := range map[string]string{
		"deep lists":           strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"deep objects":         strings.Repeat(`{"a":`, 30_000) + "1" + strings.Repeat("}", 30_000),
		"deep and never shut":  strings.Repeat("[", 190_000),
		"33 levels":            strings.Repeat("[", 33) + strings.Repeat("]", 33),
		"wide list":            `{"lines":` + wideList + "}",
		"wide object":          "{" + numbered(`"k%d":1,`, 25_000) + `"lines":1}`,
		"many names at once":   "{" + numbered(`"%x":0,`, 40_000) + `"lines":1}`,
		"a key twice":          `{"lines":1,"lines":1}`,
		"a key 10,000 times":   "{" + strings.Repeat(`"lines":1,`, 10_000) + `"lines":1}`,
		"a key in other cases": `{"lines":1,"Lines":1}`,
		"an escaped key twice": `{"lines":1,"\u006cines":1}`,
		"half a character":     `{"lines":1,"text":"\ud800"}`,
		"bad UTF-8":            "{\"lines\":1,\"text\":\"\xff\"}",
		"too many bytes":       `{"lines":1,"text":"` + strings.Repeat("x", protocol.MaxResultBytes) + `"}`,
		"one more message":     `{"lines":1}} {"lines":2}`,
		"secrets by the dozen": `{"lines":"x","text":[` + strings.Repeat(`{"name":"pwd","value":`, 9000) + "1",
	} {
		t.Run(name, func(t *testing.T) { refused(t, value) })
	}
}

func numbered(form string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, form, i)
	}
	return b.String()
}

// refused sends the value as a result and checks that it is answered with a
// reason, in time, and is stored as no result; and that the next one is taken.
func refused(t *testing.T, value string) {
	t.Helper()
	const most = 20 * time.Second // the slowest takes 0.1 s; what costs the square of its length takes minutes
	begin := time.Now()
	shown := value[:min(len(value), 60)]
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		d.sendRaw(0, fmt.Appendf(nil, `{"taskId":"r-S000","attempt":1,"outcome":"succeeded","executed":true,"sha256":%q,"result":%s}`, digest(value), value))
		if got := d.lastReceipt(); !strings.HasPrefix(got, "refused INVALID_RESULT") {
			t.Errorf("%s: receipt: %s", shown, got)
			return
		}
		if o := d.Broker.Orders(protocol.OrderReceipt)[0].Order; o.Message == "" || len(o.Message) > 1<<10 {
			t.Errorf("%s: the reason has %d bytes", shown, len(o.Message))
		}
		stored, err := d.Store.GetResult(t.Context(), "r-S000", 1)
		if err != nil || stored.Result != nil || len(stored.Columns) > 0 || stored.Failure == nil {
			t.Errorf("%s: stored %.40s, %v", shown, stored.Result, err)
		}
		time.Sleep(time.Minute)
		d.grant(0)
		d.send(0, success(0, 2, `{"lines":1}`))
		d.expect("accepted", over(task.Succeeded, 2))
	})
	if took := time.Since(begin); took > most {
		t.Errorf("%s: it took %s", shown, took)
	}
}

func TestS12AnAnswerCountsForItsTaskStoreAndAttemptAlone(t *testing.T) {
	other := func(change func(*protocol.Result)) protocol.Result {
		m := success(0, 1, `{"lines":7}`)
		change(&m)
		return m
	}
	for _, c := range []struct {
		name    string
		from    protocol.Address
		message protocol.Result
		receipt string
	}{
		{"a task that is not", steptest.From(0, protocol.KindResult), other(func(m *protocol.Result) { m.TaskID = "r-S009" }), "refused NOT_FOUND"},
		{"another store's task", steptest.From(1, protocol.KindResult), other(func(*protocol.Result) {}), "refused NOT_FOUND"},
		{"another terminal's task", terminalOf("pos-2"), other(func(*protocol.Result) {}), "refused STALE"},
		{"an attempt to come", steptest.From(0, protocol.KindResult), other(func(m *protocol.Result) { m.Attempt = 2 }), "refused STALE"},
		{"an attempt far ahead", steptest.From(0, protocol.KindResult), other(func(m *protocol.Result) { m.Attempt = 1<<31 - 1 }), "refused STALE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, wide())
				d.run(2)
				if err := d.HandleResult(t.Context(), c.from, steptest.Message(c.message)); err != nil {
					t.Fatal(err)
				}
				d.expect(c.receipt, running(1))
				if got := d.Task("r-S001").State; got != running(1) {
					t.Errorf("the other store's task is %+v", got)
				}
				for _, id := range []string{"r-S000", "r-S001"} {
					attempts, err := d.Store.ListAttempts(t.Context(), id)
					if err != nil || len(attempts) != 1 || !attempts[0].ReceivedAt.IsZero() {
						t.Errorf("%s: %+v, %v", id, attempts, err)
					}
				}
				d.send(0, success(0, 1, `{"lines":1}`)) // the holder's own still counts
				d.expect("accepted", over(task.Succeeded, 1))
			})
		})
	}
}

func terminalOf(id string) protocol.Address {
	from := steptest.From(0, protocol.KindResult)
	from.Terminal = id
	return from
}

// offerHash is the hash of the offer that headquarters made.
func (d *desk) offerHash() string {
	d.t.Helper()
	run, err := d.Store.GetRun(d.t.Context(), "r")
	if err != nil {
		d.t.Fatal(err)
	}
	return transport.OfferOf(d.Task("r-S000"), run).Hash()
}

func TestAResultCountsOnlyForTheOfferThatWasMade(t *testing.T) {
	right := func(d *desk) string { return d.offerHash() }
	wrong := func(*desk) string { return digest("another offer") }
	none := func(*desk) string { return "" }
	for _, c := range []struct {
		name             string
		offer            func(*desk) string
		demand, executed bool
		failed           bool
		receipt          string
	}{
		{"named", right, true, true, false, "accepted"},
		{"named, not demanded", right, false, true, false, "accepted"},
		{"another", wrong, true, true, false, "refused WRONG_OFFER /offerSha256"},
		{"another, not demanded", wrong, false, true, false, "refused WRONG_OFFER /offerSha256"},
		{"another, stored before", wrong, true, false, false, "refused WRONG_OFFER /offerSha256"},
		{"another, failed", wrong, false, true, true, "refused WRONG_OFFER /offerSha256"},
		{"none", none, true, true, false, "refused WRONG_OFFER /offerSha256"},
		{"none, failed", none, true, true, true, "refused WRONG_OFFER /offerSha256"},
		{"none, not demanded", none, false, true, false, "accepted"},
		{"none, never started", none, true, false, true, "accepted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, wide())
				d.Intake = intake.New(intake.Config{Tasks: d.Store, Attempts: d.Store, Jobs: registry(t), Leases: d.leases, Orders: d.Sender,
					Now: time.Now, Logger: d.Logger, InFlight: 1, BurstBytes: 1, DemandOffer: c.demand})
				d.run(1)
				m := success(0, 1, `{"lines":1}`)
				if c.failed {
					m = failure(0, 1, protocol.CodeExecution)
				}
				m.Executed, m.OfferSHA256 = c.executed, c.offer(d)
				d.send(0, m)
				d.expectOffer(c.receipt, c.failed)
				d.send(0, m)
				d.expectOffer(c.receipt, c.failed)
				if got := d.Stats(); got.Duplicate != 1 {
					t.Errorf("counted %+v", got)
				}
			})
		})
	}
}

func (d *desk) expectOffer(receipt string, failed bool) {
	d.t.Helper()
	switch {
	case receipt != "accepted":
		d.expect(receipt, awaiting(1))
		kept, err := d.Store.ListRejected(d.t.Context(), "r-S000")
		if err != nil || len(kept) != 1 || kept[0].Code != protocol.CodeWrongOffer || d.Task("r-S000").Reason != task.ReasonInvalidResult {
			d.t.Errorf("kept %+v, %v", kept, err)
		}
	case failed:
		d.expect(receipt, awaiting(1))
	default:
		d.expect(receipt, over(task.Succeeded, 1))
	}
}
