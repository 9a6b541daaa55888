package hands_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/hands"
)

// TestHandsAreFewAndGoAgain: as many at work as there may be, whoever else waits his
// turn, and nobody is left when there is nothing to do.
func TestHandsAreFewAndGoAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hands.New()
		var atWork, most, done atomic.Int64
		var callers sync.WaitGroup
		for range 5 * hands.Most {
			callers.Go(func() {
				h.Lend(func() {
					for n := atWork.Add(1); ; {
						if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
							break
						}
					}
					time.Sleep(time.Second)
					atWork.Add(-1)
					done.Add(1)
				})
			})
		}
		begin := time.Now()
		callers.Wait()
		if took := time.Since(begin); done.Load() != 5*hands.Most || most.Load() != hands.Most || took != 5*time.Second {
			t.Errorf("%d done by %d at a time in %v", done.Load(), most.Load(), took)
		}
		time.Sleep(hands.RestAfter)
		synctest.Wait()
		if left := h.Count(); left != 0 {
			t.Errorf("%d hands are left", left)
		}
		h.Stop()
		h.Stop() // twice is no harm
	})
}

func TestAHandsPanicIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hands.New()
		for range 3 {
			func() {
				defer func() {
					if cause := recover(); cause != "poisoned" {
						t.Errorf("recovered %v", cause)
					}
				}()
				h.Lend(func() { panic("poisoned") })
			}()
		}
		if h.Count() != 1 {
			t.Errorf("%d hands", h.Count())
		}
		h.Stop()
		mine := false
		h.Lend(func() { mine = true }) // by the caller
		if !mine {
			t.Error("nobody did it")
		}
	})
}
