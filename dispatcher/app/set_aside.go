package app

import (
	"context"
	"fmt"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// newWard is where steps do what may be headquarters' own fault.
func (hq *headquarters) newWard() *quarantine.Ward {
	return &quarantine.Ward{Logger: hq.log, Now: hq.now, Alarm: func(kind, subject string, trouble error) {
		hq.alerts.Raise(protocol.SeverityCritical, kind, subject, trouble)
	}}
}

// alarmSetAside is the kind of the alarm that headquarters ended over one message
// again and again, and looks into it no more.
const alarmSetAside = "message_quarantined"

// begin is called before a message is looked into, and done after it, with what
// came of it. A nil done says that it must not be: headquarters ended over it
// quarantine.MaxDeaths times, and its bytes would end it again with every start.
// Answers are left to intake, which knows them by what they say.
func (hq *headquarters) begin(ctx context.Context, addr protocol.Address, in transport.Inbound) (done func(error), err error) {
	if !hq.comesAgain(addr) {
		return func(error) {}, nil
	}
	message := quarantine.Message(in.Topic, in.Payload)
	if tries := hq.aside.Tries(message); tries >= quarantine.MaxDeaths {
		return nil, hq.setAside(ctx, addr, in, message, tries)
	}
	end := hq.aside.Judging(message)
	return func(err error) {
		end()
		if err == nil {
			hq.aside.Forgive(message)
		}
	}, nil
}

// comesAgain says whether the very bytes of a message come again after a crash:
// an external broker keeps what was not acknowledged, and so do the clients of
// technicians. A terminal says everything but its answer anew.
func (hq *headquarters) comesAgain(addr protocol.Address) bool {
	return addr.Area == protocol.AreaRequest || hq.cfg.Transport == config.TransportMQTT && addr.Kind != protocol.KindResult
}

// setAside keeps a message for reading, and acknowledges it. Sent once more, it
// is tried anew, unless the broker retains it.
func (hq *headquarters) setAside(ctx context.Context, addr protocol.Address, in transport.Inbound, message quarantine.Answer, tries int) error {
	place, placeZh := "it was kept before", "此前已留存"
	if tries == quarantine.MaxDeaths {
		hq.aside.Broke(message) // a retained one is kept once
		name, err := hq.aside.Keep(quarantine.Answer{TaskID: string(addr.Verb) + string(addr.Kind)}, in.Payload, hq.now())
		place, placeZh = "it is kept in "+name, "留存于 "+name
		if err != nil {
			place, placeZh = err.Error(), "无法留存"
		}
	}
	if !in.Retained {
		hq.aside.Forgive(message)
	}
	hq.alerts.Raise(protocol.SeverityCritical, alarmSetAside, in.Topic, &alarm.Trouble{
		En: fmt.Sprintf("headquarters ended %d times while it worked on this message, and does not take it in; %s", tries, place),
		Zh: fmt.Sprintf("共 %d 次；%s", tries, placeZh)})
	if addr.Area != protocol.AreaRequest {
		return nil
	}
	return hq.trigger.Decline(ctx, addr, in)
}
