package tell_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/tell"
	"muster/internal/protocol"
)

// TestASentenceNamesTenSilentStores: the members of the forecast name a hundred, and a
// sentence must stay one.
func TestASentenceNamesTenSilentStores(t *testing.T) {
	t.Parallel()
	f := protocol.Forecast{Online: 5, FinishAt: protocol.At(time.Date(2026, 9, 17, 8, 15, 2, 0, time.UTC)), Silent: 150}
	for i := range 100 {
		f.SilentStores = append(f.SilentStores, protocol.SilentStore{StoreID: fmt.Sprintf("S%03d", i)})
	}
	reply := tell.Forecast(store.Run{Targets: 200}, f, false, time.UTC)
	if want := "; missing in each of the last three reports: S000, S001, S002, S003, S004, S005, S006, S007, S008, S009 and 140 more"; !strings.HasSuffix(reply.Message, want) {
		t.Errorf("got  %q\nwant …%q", reply.Message, want)
	}
	if want := "；最近三次报告均缺席：S000、S001、S002、S003、S004、S005、S006、S007、S008、S009 等 150 家"; !strings.HasSuffix(reply.MessageZh, want) {
		t.Errorf("got  %q\nwant …%q", reply.MessageZh, want)
	}
}
