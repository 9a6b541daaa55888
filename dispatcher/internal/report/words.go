package report

import (
	"fmt"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// words is one thing said in Chinese and in English.
type words struct{ Zh, En string }

func outcomeWords(o task.Outcome) words {
	switch o {
	case task.OutcomeSucceeded:
		return words{"成功", "succeeded"}
	case task.OutcomeFailed:
		return words{"失败", "failed"}
	case task.OutcomeTimedOut:
		return words{"超时", "timed out"}
	case task.OutcomeOffline:
		return words{"离线", "offline"}
	case task.OutcomeCancelled:
		return words{"已取消", "cancelled"}
	}
	return words{string(o), string(o)}
}

func reasonWords(r task.Reason) words {
	switch r {
	case task.ReasonNone:
		return words{"", ""}
	case task.ReasonExecutionError:
		return words{"执行出错", "the execution ended with an error"}
	case task.ReasonInvalidResult:
		return words{"结果不符合格式要求", "the answer broke the job's schema"}
	case task.ReasonAttemptsExhausted:
		return words{"次数用尽，每次结局不同", "all attempts used, and they ended in different ways"}
	case task.ReasonRefusedByTerminal:
		return words{"终端拒绝执行", "the terminal refused the task"}
	case task.ReasonLeaseExpired:
		return words{"执行中失去联系", "the attempt fell silent and its lease ended"}
	case task.ReasonOnlineNeverClaimed:
		return words{"在线，但从未领取", "online, but never claimed the task"}
	case task.ReasonWaitingForSlot:
		return words{"在等待总部名额", "was waiting for a slot at headquarters"}
	case task.ReasonGrantedNeverStarted:
		return words{"已放行，但未见开始", "granted, but never seen to start"}
	case task.ReasonStartedThenSilent:
		return words{"开始后没有消息", "started, then silent"}
	case task.ReasonStillRunning:
		return words{"截止时仍在执行", "still running at the barrier"}
	case task.ReasonOfflineWholeWindow:
		return words{"全程离线", "offline for the whole window"}
	case task.ReasonWentOffline:
		return words{"中途离线", "went offline"}
	case task.ReasonByUser:
		return words{"由用户取消", "withdrawn by a user"}
	case task.ReasonPrerequisiteFailed:
		return words{"前置任务失败", "a prerequisite failed"}
	case task.ReasonRunAborted:
		return words{"整批已中止", "the run was aborted"}
	case task.ReasonExpired:
		return words{"已过期", "the time to do it was over"}
	case task.ReasonSuperseded:
		return words{"已被同一任务的新一批取代", "a newer run of the job took its place"}
	}
	return words{string(r), string(r)}
}

func verdictWords(v protocol.Verdict) words {
	switch v {
	case protocol.VerdictComplete:
		return words{"完整", "Complete"}
	case protocol.VerdictPartial:
		return words{"不完整", "Partial"}
	case protocol.VerdictBelowQuorum:
		return words{"低于要求", "Below quorum"}
	}
	return words{string(v), string(v)}
}

func whyWords(w protocol.RevisionWhy) words {
	switch w {
	case protocol.WhyBarrier:
		return words{"到达截止时间", "the barrier was reached"}
	case protocol.WhyAllSettled:
		return words{"全部提前结束", "everything was settled before the barrier"}
	case protocol.WhyCancelled:
		return words{"其余任务被取消", "the rest was withdrawn"}
	case protocol.WhyLateResults:
		return words{"补传结果到达", "late answers arrived"}
	}
	return words{string(w), string(w)}
}

// bucket is one of the five counts with its outcome.
type bucket struct {
	Outcome task.Outcome
	Count   int
}

func buckets(c protocol.Counts) []bucket {
	count := func(o task.Outcome) int {
		switch o {
		case task.OutcomeSucceeded:
			return c.Succeeded
		case task.OutcomeFailed:
			return c.Failed
		case task.OutcomeTimedOut:
			return c.TimedOut
		case task.OutcomeOffline:
			return c.Offline
		case task.OutcomeCancelled:
			return c.Cancelled
		}
		return 0
	}
	list := make([]bucket, 0, len(task.Outcomes()))
	for _, o := range task.Outcomes() {
		list = append(list, bucket{o, count(o)})
	}
	return list
}

// sentence says in English and in Chinese what the report amounts to.
func sentence(head protocol.ReportHead) (en, zh string) {
	c, targets := head.Counts, head.Targets
	verdict := verdictWords(head.Verdict)
	if head.Verdict == protocol.VerdictComplete && targets == 1 {
		return verdict.En + ": the one store succeeded.", verdict.Zh + "：唯一的门店已成功。"
	}
	if head.Verdict == protocol.VerdictComplete {
		return fmt.Sprintf("%s: all %d stores succeeded.", verdict.En, targets),
			fmt.Sprintf("%s：%d 家门店全部成功。", verdict.Zh, targets)
	}
	var partsEn, partsZh []string
	for _, b := range buckets(c) {
		if b.Outcome == task.OutcomeSucceeded || b.Count == 0 {
			continue
		}
		w := outcomeWords(b.Outcome)
		partsEn = append(partsEn, fmt.Sprintf("%d %s", b.Count, w.En))
		partsZh = append(partsZh, fmt.Sprintf("%s %d 家", w.Zh, b.Count))
	}
	en = fmt.Sprintf("%s: %d of %d stores succeeded; %s.", verdict.En, c.Succeeded, targets, strings.Join(partsEn, ", "))
	zh = fmt.Sprintf("%s：%d 家门店中 %d 家成功；%s。", verdict.Zh, targets, c.Succeeded, strings.Join(partsZh, "，"))
	if head.Verdict == protocol.VerdictBelowQuorum {
		en += fmt.Sprintf(" The job asks for %s.", percent(&head.Quorum))
		zh += fmt.Sprintf("任务要求成功率 %s。", percent(&head.Quorum))
	}
	return en, zh
}

// percent shows a share, and a dash for a share of nothing.
func percent(share *float64) string {
	if share == nil {
		return "–"
	}
	const whole = 100
	return fmt.Sprintf("%.1f %%", *share*whole)
}
