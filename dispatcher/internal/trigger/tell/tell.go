// Package tell words what is told of a request that was done, in English and in
// Chinese. It decides and reads nothing; refusals have their own words.
package tell

import (
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// done is the reply to every request that was done.
func done() protocol.Reply { return protocol.Reply{OK: true, Status: "accepted"} }

// Accepted answers a request that made its run, now or before.
func Accepted(topics protocol.Topics, run store.Run, duplicate bool) protocol.Reply {
	reply := done()
	reply.RunID, reply.ParentRun, reply.Stores, reply.Duplicate = run.RunID, run.ParentRun, run.Targets, &duplicate
	reply.BarrierAt = protocol.At(run.BarrierAt)
	reply.Watch, reply.Summary = topics.Run(run.RunID, protocol.RunState), topics.Run(run.RunID, protocol.RunSummary)
	return reply
}

// Again answers a request that made its run before. id is the request's own, "" when
// it was known by its bytes.
func Again(topics protocol.Topics, run store.Run, id string, now time.Time) protocol.Reply {
	reply := Accepted(topics, run, true)
	if id == "" {
		ago := max(0, now.Sub(run.CreatedAt).Truncate(time.Second)) // the clock may be set back
		reply.Message = fmt.Sprintf("the same request made this run %s ago; put a requestId of your own into it to ask for another", ago)
		reply.MessageZh = fmt.Sprintf("%s 前同样的请求已创建该批次；如需再建一批，请在请求中加上新的 requestId", ago)
	}
	return reply
}

// maxLeftOut bounds the stores that a reply names as left out, and maxWorded those that
// a sentence names.
const (
	maxLeftOut = 100
	maxWorded  = 10
)

// LeftOut adds to a reply the targets of a retry that left the register.
func LeftOut(reply *protocol.Reply, stores []string) {
	if len(stores) == 0 {
		return
	}
	reply.LeftOut = stores[:min(len(stores), maxLeftOut)]
	named, namedZh := worded(stores, len(stores))
	say := func(old, text, between string) string {
		if old == "" {
			return text
		}
		return old + between + text
	}
	reply.Message = say(reply.Message, "left out, for they are no longer registered: "+named, "; ")
	reply.MessageZh = say(reply.MessageZh, "以下门店已不在名册中，未包含在内："+namedZh, "；")
}

// worded names the first of all stores.
func worded(stores []string, all int) (en, zh string) {
	stores = stores[:min(len(stores), maxWorded)]
	en, zh = strings.Join(stores, ", "), strings.Join(stores, "、")
	if rest := all - len(stores); rest > 0 {
		return fmt.Sprintf("%s and %d more", en, rest), fmt.Sprintf("%s 等 %d 家", zh, all)
	}
	return en, zh
}

// Forecast answers a request that was only tried: what it would meet, whether a second
// person would have to agree, when it would be done, in the zone in which people read
// times, and who has answered no more. late: its last answers are expected after the
// report.
func Forecast(run store.Run, f protocol.Forecast, late bool, zone *time.Location) protocol.Reply {
	reply := done()
	reply.ParentRun, reply.Stores, reply.BarrierAt, reply.Forecast = run.ParentRun, run.Targets, protocol.At(run.BarrierAt), &f
	reply.Message = fmt.Sprintf("nothing was created; stores: %d, online now: %d", run.Targets, f.Online)
	reply.MessageZh = fmt.Sprintf("未创建任何内容；门店：%d，当前在线：%d", run.Targets, f.Online)
	add := func(en, zh string) { reply.Message, reply.MessageZh = reply.Message+"; "+en, reply.MessageZh+"；"+zh }
	if f.NeedsApproval {
		add("a second person would have to agree first", "须先由第二人批准")
	}
	if at := f.FinishAt.In(zone).Format(protocol.Clock); f.Online > 0 {
		add("those online would be done by "+at+", if nothing else runs", "若无其他任务，在线门店预计于 "+at+" 完成")
	}
	if late {
		add("at this rate the last ones come after the report", "按此速率，最后一批将晚于报告时间")
	}
	if f.Silent > 0 {
		silent := make([]string, 0, len(f.SilentStores))
		for _, s := range f.SilentStores {
			silent = append(silent, s.StoreID)
		}
		en, zh := worded(silent, f.Silent)
		add("missing in each of the last three reports: "+en, "最近三次报告均缺席："+zh)
	}
	return reply
}

// Cancelled tells how many tasks of a run were withdrawn, and how many had ended.
func Cancelled(runID string, cancelled, finished int) protocol.Reply {
	reply := done()
	reply.RunID, reply.Cancelled, reply.Finished = runID, &cancelled, &finished
	switch {
	case cancelled == 0:
		reply.Message, reply.MessageZh = "already finished: nothing was left to cancel", "均已结束，没有可取消的任务"
	case finished > 0:
		reply.Message = fmt.Sprintf("%d cancelled, %d were already finished", cancelled, finished)
		reply.MessageZh = fmt.Sprintf("已取消 %d 个，另有 %d 个此前已结束", cancelled, finished)
	default:
		reply.Message, reply.MessageZh = fmt.Sprintf("%d cancelled", cancelled), fmt.Sprintf("已取消 %d 个", cancelled)
	}
	return reply
}

// State tells how a run stands.
func State(topics protocol.Topics, state *protocol.RunStateReport) protocol.Reply {
	reply := done()
	reply.RunID, reply.State = state.RunID, state
	reply.Watch, reply.Summary = topics.Run(state.RunID, protocol.RunState), topics.Run(state.RunID, protocol.RunSummary)
	return reply
}

// Jobs tells what can be ordered.
func Jobs(list []job.Spec) protocol.Reply {
	reply := done()
	reply.Jobs = make([]protocol.JobInfo, 0, len(list))
	for _, spec := range list {
		reply.Jobs = append(reply.Jobs, spec.Info())
	}
	return reply
}
