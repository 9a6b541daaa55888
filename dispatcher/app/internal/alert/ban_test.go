package alert_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/app/internal/alert"
)

// TestTheNewestBanSaysWhenItIsOver, of each subject by itself, and none once stopped.
func TestTheNewestBanSaysWhenItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var b alert.Bans
		var over []string
		end := func(subject string) {
			b.End(subject, time.Minute, func() { over = append(over, subject+" "+time.Since(began).String()) })
		}
		end("a")
		end("b")
		time.Sleep(40 * time.Second)
		end("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		end("c")
		b.Stop()
		b.Stop()
		end("d")
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"b 1m0s", "a 1m40s"}; !slices.Equal(over, want) {
			t.Errorf("over: %v, want %v", over, want)
		}
	})
}
