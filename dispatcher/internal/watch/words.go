package watch

import (
	"context"
	"fmt"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Line is one thing said in English and in Chinese; the zero value is silence.
type Line struct{ en, zh string }

// String is how both go on the wire: a line each.
func (l Line) String() string { return l.en + "\n" + l.zh }

func (w *Watch) say(ctx context.Context, topic string, l Line) error {
	if l == (Line{}) {
		return nil
	}
	return w.sender.Text(ctx, topic, l.String())
}

// Tell puts a change of a run as a whole into words. What the report amounts to is
// the barrier's to say, when it is published.
func Tell(c store.Change, zone *time.Location) Line {
	switch c.Kind {
	case store.RunCreated:
		return started(c.Run, zone)
	case store.RevisionReady:
		if c.Revision == 1 {
			return Line{fmt.Sprintf("Run %s: the barrier is closed, the report is being written.", c.RunID),
				fmt.Sprintf("批次 %s：已截止，正在生成报告。", c.RunID)}
		}
		return Line{fmt.Sprintf("Run %s: more answers came in, revision %d of the report is being written.", c.RunID, c.Revision),
			fmt.Sprintf("批次 %s：收到新的结果，正在生成第 %d 版报告。", c.RunID, c.Revision)}
	case store.RunClosed:
		return Line{fmt.Sprintf("Run %s is closed: only a retry can change its report now.", c.RunID),
			fmt.Sprintf("批次 %s 已关闭：此后只有重试会更新其报告。", c.RunID)}
	case store.TaskMoved:
	}
	return Line{}
}

func started(run *store.Run, zone *time.Location) Line {
	stores := "stores"
	if run.Targets == 1 {
		stores = "store"
	}
	l := Line{fmt.Sprintf("Run %s started: %s at %d %s, asked for by %s", run.RunID, run.Job, run.Targets, stores, run.RequestedBy),
		fmt.Sprintf("批次 %s 已开始：作业 %s，%d 家门店，由 %s 发起", run.RunID, run.Job, run.Targets, run.RequestedBy)}
	if run.ApprovedBy != "" {
		l.en += ", approved by " + run.ApprovedBy
		l.zh += "，" + run.ApprovedBy + " 批准"
	}
	if run.ParentRun != "" {
		l.en += ", a retry of run " + run.ParentRun
		l.zh += "，重试批次 " + run.ParentRun
	}
	at := run.BarrierAt.In(zone).Format(protocol.Clock)
	l.en += ". The report comes at " + at + ", or as soon as all have answered."
	l.zh += "。报告将于 " + at + " 生成，全部完成则提前。"
	return l
}

// quarters are the parts of a run that are told, in words.
var quarters = [...]Line{1: {"a quarter", "四分之一"}, 2: {"half", "一半"}, 3: {"three quarters", "四分之三"}}

// milestone tells that another quarter of the stores of a run is done, before its
// barrier. What was reached before the run was followed is not told again.
func (w *Watch) milestone(ctx context.Context, run *store.Run, t *tally) {
	reached := min(t.settled*4/max(run.Targets, 1), 4)
	before := t.told
	t.told = max(t.told, reached)
	if t.joined {
		t.joined = false
		return
	}
	if reached <= before || reached >= len(quarters) || run.Revision > 0 {
		return
	}
	topic := w.sender.Topics().Run(run.RunID, protocol.RunText)
	w.try(topic, func() error { return w.say(ctx, topic, progress(run, t, reached)) })
}

func progress(run *store.Run, t *tally, reached int) Line {
	now, q := t.now(), quarters[reached]
	succeeded, cancelled := now[task.Succeeded], now[task.Cancelled]
	l := Line{fmt.Sprintf("Run %s: %s done, %d of %d stores: %d succeeded", run.RunID, q.en, t.settled, run.Targets, succeeded),
		fmt.Sprintf("批次 %s：已完成%s（%d/%d）：成功 %d", run.RunID, q.zh, t.settled, run.Targets, succeeded)}
	for _, part := range []struct {
		n      int
		en, zh string
	}{{t.settled - succeeded - cancelled, "failed", "失败"}, {cancelled, "cancelled", "已取消"}} {
		if part.n > 0 {
			l.en += fmt.Sprintf(", %d %s", part.n, part.en)
			l.zh += fmt.Sprintf("，%s %d", part.zh, part.n)
		}
	}
	l.en += fmt.Sprintf("; online now: %d.", t.online)
	l.zh += fmt.Sprintf("；当前在线 %d。", t.online)
	return l
}
