package intake_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/steptest"
	"muster/internal/protocol"
)

// TestAnUploadOverTheSlowestLinkComesInTime: with the message around the result,
// TLS, and packets, which nobody announces.
func TestAnUploadOverTheSlowestLinkComesInTime(t *testing.T) {
	for _, bytes := range []int{8_200, 100_000, 250_000, protocol.MaxResultBytes} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, limits{inFlight: 1, burst: 1})
				d.run(2)
				d.ready(0, int64(bytes))
				d.ready(1, 20_000)
				d.calls()
				d.Heard("S000", "pos")
				onTheWay := bytes + 8<<10 + bytes/20
				time.Sleep(time.Duration(onTheWay) * time.Second / (4 << 10))
				if got := fmt.Sprint(d.calls()); got != "[S000]" {
					t.Errorf("called %s while an upload comes in, where one may", got)
				}
				d.send(0, success(0, 1, large(bytes-30)))
				if got := d.Stats(); got.Accepted != 1 || got.Unasked != 0 || got.TimedOut != 0 {
					t.Errorf("counted %+v", got)
				}
			})
		})
	}
}

// TestATerminalSendsOneResultAtATime: a second one would wait behind the first on
// the same link, silent, and lose its turn. Others go first meanwhile.
func TestATerminalSendsOneResultAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 3, burst: 1})
		d.run(3)
		d.Create("q", 1, steptest.Policy())
		d.grantOf("q", 0)
		d.ready(0, 250_000)
		d.readyOf("q", 0, 250_000)
		d.ready(1, 20_000)
		if got := fmt.Sprint(d.calls()); got != "[S000 S001]" {
			t.Fatalf("called %s", got)
		}
		d.Heard("S000", "pos")
		time.Sleep(65 * time.Second)
		d.send(0, success(0, 1, large(250_000)))
		d.ready(2, 20_000)
		got := fmt.Sprint(d.calls())
		if third := d.Broker.Orders(protocol.OrderSend)[2].Order.TaskID; got != "[S000 S001 S000 S002]" || third != "q-S000" {
			t.Errorf("called %s, the third is %s", got, third)
		}
		if got := d.Stats(); got.Unasked != 0 || got.TimedOut != 1 { // S001 said nothing
			t.Errorf("counted %+v", got)
		}
	})
}

// TestARestartIsNoWayAroundTheBytes: lives too short for a result send none, longer
// ones what their time allows (I6).
func TestARestartIsNoWayAroundTheBytes(t *testing.T) {
	for _, life := range []time.Duration{100 * time.Millisecond, 9 * time.Second, 25 * time.Second} {
		t.Run(life.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const perSecond, burst, size = 1000, 30_000, 10_000
				l := limits{inFlight: 8, perSecond: perSecond, burst: burst}
				d := open(t, l)
				d.run(14)
				for range 6 {
					for i := len(d.calls()); i < 14; i++ {
						d.ready(i, size)
					}
					before := len(d.calls())
					time.Sleep(life)
					for i := range d.calls()[before:] {
						d.send(before+i, success(before+i, 1, large(size)))
					}
					d.Intake.Stop()
					d.start(l)
				}
				sent := d.Broker.Orders(protocol.OrderSend)
				for i, from := range sent {
					for j, to := range sent[i:] {
						if bytes, took := (j+1)*size, to.At.Sub(from.At); float64(bytes) > burst+perSecond*took.Seconds()+1 {
							t.Fatalf("%d bytes in %s at %d a second and %d at once", bytes, took, perSecond, burst)
						}
					}
				}
				if want := 6 * (int(life.Seconds()) * perSecond / size); len(sent) != want {
					t.Errorf("%d results in 6 lives of %s, want %d", len(sent), life, want)
				}
			})
		})
	}
}

// TestAStepOfTheTimeFillsNoBudgetAndEndsNoTurn, nor lets a turn last longer.
func TestAStepOfTheTimeFillsNoBudgetAndEndsNoTurn(t *testing.T) {
	for _, by := range []time.Duration{26 * time.Hour, -26 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, limits{inFlight: 2, perSecond: 1000, burst: 20_000})
				d.run(4)
				step := func(then time.Duration) {
					d.off.Add(int64(by))
					d.Offline("S009", "pos") // whoever waits looks again
					synctest.Wait()
					time.Sleep(then)
				}
				d.ready(0, 40_000)
				d.ready(1, 40_000)
				step(39 * time.Second)
				if got := d.calls(); len(got) != 0 {
					t.Fatalf("called %s for 40 s of bytes after 39 s", got)
				}
				step(time.Second)
				if got := fmt.Sprint(d.calls()); got != "[S000]" {
					t.Fatalf("called %s after 40 s", got)
				}
				d.Heard("S000", "pos") // 30 s and 10 s for its bytes from now on
				step(38 * time.Second)
				if got := fmt.Sprint(d.calls(), d.Stats().TimedOut); got != "[S000] 0" {
					t.Fatalf("called and given up after 38 s: %s", got)
				}
				step(2 * time.Second)
				if got := fmt.Sprint(d.calls(), d.Stats().TimedOut); got != "[S000 S001] 1" {
					t.Fatalf("called and given up after 40 s: %s", got)
				}
				step(9 * time.Second)
				if got := d.Stats().TimedOut; got != 1 {
					t.Errorf("%d given up after 9 s of silence", got-1)
				}
				step(2 * time.Second)
				if got := d.Stats().TimedOut; got != 2 {
					t.Errorf("%d given up after 11 s of silence", got-1)
				}
			})
		})
	}
}

// TestWhatWasCalledForIsPaidOnce, whoever is quicker: the store's word that the
// answer is committed, or that its attempt is over.
func TestWhatWasCalledForIsPaidOnce(t *testing.T) {
	for name, told := range map[string]bool{"the answer": false, "the change": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, limits{inFlight: 8, perSecond: 1000, burst: 40_000})
				time.Sleep(40 * time.Second) // its budget is full
				d.told = told
				d.run(2)
				d.ready(0, 20_000)
				d.calls()
				d.send(0, success(0, 1, large(19_900)))
				d.ready(1, 20_000)
				if got := fmt.Sprint(d.calls()); got != "[S000 S001]" || d.Stats().Unasked != 0 {
					t.Errorf("called %s, counted %+v", got, d.Stats())
				}
			})
		})
	}
}
