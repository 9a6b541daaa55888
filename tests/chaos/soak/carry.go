package main

import (
	"encoding/json"
	"slices"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

// execution is one attempt of one task.
type execution struct {
	task    string
	attempt int
}

// carrier takes along from one epoch's history what the next one's judgement
// needs, and leaves out what the restore took back.
type carrier struct {
	topics protocol.Topics
	runs   map[string]bool // of the backup, that go on
	tasks  map[string]bool // theirs
	over   map[string]bool // runs of the backup that were over
	done   map[string]bool // their tasks
	since  int64           // monotonic microseconds: when the backup began
	lost   map[execution]bool
}

// said is what a message is about.
type said struct {
	TaskID  string             `json:"taskId"`
	Attempt int                `json:"attempt"`
	Order   protocol.OrderKind `json:"order"`
	RunID   string             `json:"runId"`
	OK      bool               `json:"ok"`
}

func about(l history.Line) (s said) {
	_ = json.Unmarshal([]byte(l.Payload), &s) // anybody may say anything
	return s
}

// carry returns the lines of an epoch that go on, in their order.
//
// What was said before the backup began is as true after the restore as before,
// so far as it is about a run that goes on. What headquarters said after that is
// taken back: a reply becomes unknown, a grant, a receipt or an event never came.
// What terminals sent is never taken back: they may be answered by it later.
func (c *carrier) carry(lines []history.Line) (on []history.Line) {
	kept := map[execution]bool{} // grants
	answers := c.answers(lines)
	for _, l := range lines {
		before := mono(l) < c.since
		addr, known := c.topics.Parse(l.Topic)
		keep := false
		switch l.Act {
		case history.ActAsked:
			reply, answered := answers[call{l.Who, l.Call}]
			keep = !answered || reply.OK && c.runs[reply.RunID]
		case history.ActAnswered:
			reply, answered := answers[call{l.Who, l.Call}]
			keep = answered && reply.OK && c.runs[reply.RunID]
		case history.ActSent:
			keep = known && l.Role == history.RoleAgent && c.tasks[about(l).TaskID]
		case history.ActGot:
			keep = before && c.got(l, addr)
			if s := about(l); known && addr.Kind == protocol.KindOrders && s.Order == protocol.OrderGrant {
				switch one := (execution{s.TaskID, s.Attempt}); {
				case kept[one]:
				case before && c.tasks[s.TaskID]:
					kept[one] = true
				default: // taken back, or of a run that is over: it may be executed yet
					c.lost[one] = true
				}
			}
		case history.ActExecuted:
			keep = kept[execution{l.Task, l.Attempt}] && c.tasks[l.Task]
		case history.ActLooked:
			m := fileOfRun.FindStringSubmatch(l.Name)
			keep = before && m != nil && c.runs[m[1]]
		case history.ActFault, history.ActDisconnected:
			keep = before
		case history.ActSubscribed, history.ActConnected, history.ActSampled:
		}
		if keep {
			on = append(on, l)
		}
	}
	return on
}

type call struct {
	who string
	n   int64
}

// answers are the replies that were given before the backup began.
func (c *carrier) answers(lines []history.Line) map[call]said {
	all := map[call]said{}
	for _, l := range lines {
		if l.Act == history.ActAnswered && l.Outcome != history.OutcomeUnknown && mono(l) < c.since {
			all[call{l.Who, l.Call}] = about(l)
		}
	}
	return all
}

func (c *carrier) got(l history.Line, addr protocol.Address) bool {
	switch {
	case addr.Kind == protocol.KindOrders:
		return c.tasks[about(l).TaskID]
	case addr.Kind == protocol.KindOffer:
		return c.tasks[addr.Task]
	case addr.Area == protocol.AreaRuns:
		return c.runs[addr.Run]
	}
	return false
}

// mono is a line's time by the monotonic clock; markers of scripts have only the
// wall, and are counted as old: what was granted decides about them.
func mono(l history.Line) int64 { return l.MonoUs }

// past leaves out what is said, after a run was over, of that run: it was asked
// for again, an answer got a receipt once more, a file was looked at, its summary was
// said again. A grant or an execution of it is left in, and there is no task to
// explain it.
func (c *carrier) past(lines []history.Line) []history.Line {
	replies := map[call]said{}
	for _, l := range lines {
		if l.Act == history.ActAnswered {
			replies[call{l.Who, l.Call}] = about(l)
		}
	}
	return slices.DeleteFunc(lines, func(l history.Line) bool {
		if l.Act == history.ActAsked || l.Act == history.ActAnswered {
			return c.over[replies[call{l.Who, l.Call}].RunID]
		}
		if l.Act == history.ActLooked {
			m := fileOfRun.FindStringSubmatch(l.Name)
			return m != nil && c.over[m[1]]
		}
		if l.Act != history.ActGot {
			return false
		}
		addr, _ := c.topics.Parse(l.Topic)
		s := about(l)
		return s.Order == protocol.OrderReceipt && c.done[s.TaskID] || addr.Area == protocol.AreaRuns && c.over[addr.Run]
	})
}

// taken leaves out the marks of attempts whose grant a restore took back.
func taken(lines []history.Line, lost map[execution]bool) []history.Line {
	on := lines[:0:0]
	for _, l := range lines {
		if l.Act != history.ActExecuted || !lost[execution{l.Task, l.Attempt}] {
			on = append(on, l)
		}
	}
	return on
}

// lean drops what no rule reads: half of a history are hellos and syncs.
func lean(topics protocol.Topics, l history.Line) history.Line {
	addr, ok := topics.Parse(l.Topic)
	if !ok || l.Role != history.RoleAgent {
		return l
	}
	switch {
	case l.Act == history.ActSent && addr.Kind != protocol.KindResult && addr.Kind != protocol.KindClaim && addr.Kind != protocol.KindReady:
		l.Payload = "{}"
	case l.Act == history.ActGot && addr.Kind == protocol.KindOffer && l.Payload != "":
		l.Payload = "{}"
	case l.Act == history.ActGot && addr.Kind == protocol.KindOrders && about(l).Order == protocol.OrderSync:
		l.Payload = "{}"
	}
	return l
}
