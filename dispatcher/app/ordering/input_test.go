package ordering_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
)

// A job whose schema is open takes no more than it says: every task keeps the
// input, and every store gets it.
func TestAnInputIsBounded(t *testing.T) {
	t.Parallel()
	open, err := schema.Compile("open", []byte(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	for most, bound := range map[int]int{0: 64 << 10, 256 << 10: 256 << 10, 100: 100} {
		d := setup(t, func(c *trigger.Config) {
			spec, _ := c.Jobs.Get("collect_log")
			spec.Input, spec.MaxInputBytes = open, most
			c.Jobs = job.NewRegistry(spec)
		})
		send := func(bytes int) protocol.Reply {
			input := `{ "x" : "` + strings.Repeat("x", bytes-len(`{"x":""}`)) + `"}` // white space is not counted
			return d.ask(protocol.VerbRun, fmt.Sprintf(`{"job":"collect_log","stores":["007"],"input":%s}`, input))
		}
		if reply := send(bound); !reply.OK {
			t.Errorf("%d bytes: %+v", bound, reply)
		}
		reply := send(bound + 1)
		if reply.OK || reply.Code != protocol.CodeTooLarge || reply.Path != "/input" || reply.Hint == "" || !strings.Contains(reply.MessageZh, "字节") {
			t.Errorf("%d bytes: %+v", bound+1, reply)
		}
		if d.runs() != 1 {
			t.Errorf("%d runs", d.runs())
		}
	}
}

// TestWholeNumbersAreTakenHoweverTheyAreWritten, in the request as in the input; 10 and
// 10.0 ask for the same.
func TestWholeNumbersAreTakenHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	d := setup(t)
	first := d.ask(protocol.VerbRun, `{"requestId":"r1","job":"collect_log","stores":"all","barrierSeconds":10.0,"input":{"topErrors":1e1}}`)
	if !first.OK || !first.BarrierAt.Equal(d.clock().Add(10*time.Second)) {
		t.Fatalf("got %+v", first)
	}
	if again := d.ask(protocol.VerbRun, `{"requestId":"r1","job":"collect_log","stores":"all","barrierSeconds":1e1,"input":{"topErrors":1e1}}`); !again.OK || again.RunID != first.RunID {
		t.Errorf("got %+v", again)
	}
	if half := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all","barrierSeconds":10.5}`); half.Message != "/barrierSeconds: must be integer, not number" || half.MessageZh != "/barrierSeconds：类型应为整数，实际为小数" {
		t.Errorf("got %+v", half)
	}
}
