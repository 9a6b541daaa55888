package app_test

import (
	"encoding/json"
	"testing"

	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// TestWhatTheBrokerForgotOfRunsIsSaidAgain: of a closed run and of an open one, by a
// headquarters that stays and by one that starts.
func TestWhatTheBrokerForgotOfRunsIsSaidAgain(t *testing.T) {
	t.Parallel()
	t.Run("external", func(t *testing.T) {
		t.Parallel()
		addr := programs.FreeAddr(t)
		broker := brokerAt(t, addr)
		hq := setup(t, config.TransportMQTT, []string{"A", "B"}, func(cfg *config.Config) { cfg.MQTT.URL = "mqtt://" + addr })
		hq.saidAgain(func() {
			stopBroker(t, broker)
			brokerAt(t, addr)
		})
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		hq := setup(t, config.TransportEmbedded, []string{"A", "B"}, nil)
		hq.saidAgain(hq.restart)
	})
}

func (hq *headquarters) saidAgain(forget func()) {
	hq.t.Helper()
	hq.terminal("A", fleet.Options{Execute: value("1")})
	tech := hq.technician("wang")
	closed := tech.run(`{"job":"probe","stores":["A"]}`).RunID
	open := tech.run(`{"job":"probe","stores":["A","B"],"barrierSeconds":1}`).RunID
	stands := func(reader *technician) {
		hq.t.Helper()
		for run, phase := range map[string]protocol.Phase{closed: protocol.PhaseClosed, open: protocol.PhaseMakeup} {
			reader.summary(run, 1)
			reader.await("state "+string(phase)+" of run "+run, func(m fleet.Message) bool {
				var state protocol.RunStateReport
				return m.Topic == hq.topics.Run(run, protocol.RunState) && json.Unmarshal(m.Payload, &state) == nil && state.Phase == phase
			})
		}
	}
	stands(tech)
	forget()
	stands(hq.technician("li"))
}
