package app_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/quarantine"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

// quarantined opens the quarantine of a headquarters that stands still.
func (hq *headquarters) quarantined(do func(*quarantine.Quarantine)) {
	hq.t.Helper()
	hq.stop()
	q, err := quarantine.Open(filepath.Join(hq.cfg.DataFolder, "quarantine"))
	if err != nil {
		hq.t.Fatal(err)
	}
	do(q)
	if err := q.Close(); err != nil {
		hq.t.Fatal(err)
	}
	hq.start()
}

// watching is a technician who sees the alarms.
func (hq *headquarters) watching(name string) *technician {
	hq.t.Helper()
	tech := hq.technician(name)
	ctx, cancel := context.WithTimeout(hq.t.Context(), patience)
	defer cancel()
	if err := tech.conn.Subscribe(ctx, hq.topics.Root()+"/alarms/#"); err != nil {
		hq.t.Fatal(err)
	}
	return tech
}

// setAside waits for the alarm about a message and returns what is kept of it.
func (tech *technician) setAside(topic string) []byte {
	tech.hq.t.Helper()
	var a protocol.Alarm
	tech.await("the alarm about "+topic, func(m fleet.Message) bool {
		return m.Topic == tech.hq.topics.Alarm(protocol.SeverityCritical, "message_quarantined") &&
			protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &a) == nil
	})
	said, file, found := strings.Cut(a.Message, "; it is kept in ")
	if !found || said != topic+": headquarters ended 3 times while it worked on this message, and does not take it in" {
		tech.hq.t.Fatalf("the alarm says %q", a.Message)
	}
	if a.MessageZh != topic+"：总部多次因这条消息退出，不再接收：共 3 次；留存于 "+file {
		tech.hq.t.Errorf("in Chinese the alarm says %q", a.MessageZh)
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		tech.hq.t.Fatal(err)
	}
	return kept
}

// A request over which headquarters ended three times in a row is answered and
// kept, and not looked into; sent again, it is. One that ended it less often is
// done, and its tries are forgotten.
func TestARequestThatEndsHeadquartersIsSetAside(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{config.TransportEmbedded, config.TransportMQTT} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			hq := setup(t, transport, []string{"A001"}, nil)
			topic := hq.topics.Request("wang", protocol.VerbRun)
			const deadly, lucky = `{"job":"probe","stores":"all","requestId":"deadly"}`, `{"job":"probe","stores":"all","requestId":"lucky"}`
			hq.quarantined(func(q *quarantine.Quarantine) {
				for range 3 {
					q.Broke(quarantine.Message(topic, []byte(deadly)))
				}
				for range 2 {
					q.Broke(quarantine.Message(topic, []byte(lucky)))
				}
			})
			tech := hq.watching("wang")
			if reply := tech.ask(protocol.VerbRun, deadly); reply.OK || reply.Code != protocol.CodeInternal || !strings.Contains(reply.Message, "set aside") || reply.MessageZh == "" {
				t.Errorf("it is answered %+v", reply)
			}
			if kept := tech.setAside(topic); string(kept) != deadly {
				t.Errorf("kept %q", kept)
			}
			if reply := tech.ask(protocol.VerbRun, deadly); !reply.OK || *reply.Duplicate {
				t.Errorf("sent again: %+v", reply)
			}
			tech.run(lucky)
			hq.quarantined(func(q *quarantine.Quarantine) {
				for _, payload := range []string{deadly, lucky} {
					if n := q.Tries(quarantine.Message(topic, []byte(payload))); n != 0 {
						t.Errorf("%d tries of %s are remembered", n, payload)
					}
				}
			})
		})
	}
}

// What a terminal said comes again from an external broker that had no
// acknowledgement for it.
func TestAClaimThatEndsHeadquartersIsSetAsideOverAnExternalBroker(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportMQTT, []string{"A001"}, nil)
	topic, claim := hq.topics.Terminal("A001", "pos1", protocol.KindClaim), []byte(`{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-09-17T12:00:00.000Z","seq":1,"taskId":"T"}`)
	hq.quarantined(func(q *quarantine.Quarantine) {
		for range 3 {
			q.Broke(quarantine.Message(topic, claim))
		}
	})
	tech := hq.watching("wang")
	terminal, err := fleet.Dial(t.Context(), hq.addr, fleet.Login{User: "A001/pos1"}, func(fleet.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := terminal.Publish(topic, claim); err != nil {
		t.Fatal(err)
	}
	if kept := tech.setAside(topic); !bytes.Equal(kept, claim) {
		t.Errorf("kept %q", kept)
	}
}

// While a request is looked into, a note says so that outlives the process.
func TestARequestIsNotedWhileItIsLookedInto(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A001"}, nil)
	payload := []byte(`{"job":"probe","stores":"all","dryRun":true}`)
	want := []byte(quarantine.Message(hq.topics.Request("wang", protocol.VerbStatus), payload).SHA256)
	var noted atomic.Bool
	hq.wall = func() time.Time { // asked by every request, among others
		text, err := os.ReadFile(filepath.Join(hq.cfg.DataFolder, "quarantine", "judging"))
		if err == nil && bytes.Contains(text, want) {
			noted.Store(true)
		}
		return time.Now()
	}
	hq.restart()
	tech := hq.technician("wang")
	for range 10 {
		tech.ask(protocol.VerbStatus, string(payload))
	}
	if !noted.Load() {
		t.Error("no note was made")
	}
	hq.stop()
	q, err := quarantine.Open(filepath.Join(hq.cfg.DataFolder, "quarantine"))
	if err != nil {
		t.Fatal(err)
	}
	if n := q.Tries(quarantine.Answer{SHA256: string(want)}); n != 0 {
		t.Errorf("a request that was answered counts %d times", n)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}
