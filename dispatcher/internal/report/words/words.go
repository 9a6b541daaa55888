// Package words says in Chinese and in English what stands in a report, the same in
// every format.
//
// It is pure, and knows no format.
package words

import (
	"fmt"
	"math"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// Pair is one thing said in Chinese and in English.
type Pair struct{ Zh, En string }

// Of is a thing said so in Chinese and so in English.
func Of(zh, en string) Pair { return Pair{zh, en} }

// Outcome says what an outcome is.
func Outcome(o task.Outcome) Pair {
	switch o {
	case task.OutcomeSucceeded:
		return Pair{"成功", "succeeded"}
	case task.OutcomeFailed:
		return Pair{"失败", "failed"}
	case task.OutcomeTimedOut:
		return Pair{"超时", "timed out"}
	case task.OutcomeOffline:
		return Pair{"离线", "offline"}
	case task.OutcomeCancelled:
		return Pair{"已取消", "cancelled"}
	}
	return Pair{string(o), string(o)}
}

// Reason says why; empty for none.
func Reason(r task.Reason) Pair {
	switch r {
	case task.ReasonNone:
		return Pair{"", ""}
	case task.ReasonExecutionError:
		return Pair{"执行出错", "the execution ended with an error"}
	case task.ReasonInvalidResult:
		return Pair{"结果不符合格式要求", "the answer broke the job's schema"}
	case task.ReasonAttemptsExhausted:
		return Pair{"次数用尽，每次结局不同", "all attempts used, and they ended in different ways"}
	case task.ReasonRefusedByTerminal:
		return Pair{"终端拒绝执行", "the terminal refused the task"}
	case task.ReasonLeaseExpired:
		return Pair{"执行中失去联系", "the attempt fell silent and its lease ended"}
	case task.ReasonOnlineNeverClaimed:
		return Pair{"在线，但从未领取", "online, but never claimed the task"}
	case task.ReasonWaitingForSlot:
		return Pair{"在等待总部名额", "was waiting for a slot at headquarters"}
	case task.ReasonGrantedNeverStarted:
		return Pair{"已放行，但未见开始", "granted, but never seen to start"}
	case task.ReasonStartedThenSilent:
		return Pair{"开始后没有消息", "started, then silent"}
	case task.ReasonStillRunning:
		return Pair{"截止时仍在执行", "still running at the barrier"}
	case task.ReasonOfflineWholeWindow:
		return Pair{"全程离线", "offline for the whole window"}
	case task.ReasonWentOffline:
		return Pair{"中途离线", "went offline"}
	case task.ReasonByUser:
		return Pair{"由用户取消", "withdrawn by a user"}
	case task.ReasonPrerequisiteFailed:
		return Pair{"前置任务失败", "a prerequisite failed"}
	case task.ReasonRunAborted:
		return Pair{"整批已中止", "the run was aborted"}
	case task.ReasonExpired:
		return Pair{"已过期", "the time to do it was over"}
	case task.ReasonSuperseded:
		return Pair{"已被同一作业的新批次取代", "a newer run of the job took its place"}
	}
	return Pair{string(r), string(r)}
}

// Verdict says a verdict.
func Verdict(v protocol.Verdict) Pair {
	switch v {
	case protocol.VerdictComplete:
		return Pair{"完整", "Complete"}
	case protocol.VerdictPartial:
		return Pair{"不完整", "Partial"}
	case protocol.VerdictBelowQuorum:
		return Pair{"低于要求", "Below quorum"}
	}
	return Pair{string(v), string(v)}
}

// Why says what made a revision.
func Why(w protocol.RevisionWhy) Pair {
	switch w {
	case protocol.WhyBarrier:
		return Pair{"到达截止时间", "the barrier was reached"}
	case protocol.WhyAllSettled:
		return Pair{"全部提前结束", "everything was settled before the barrier"}
	case protocol.WhyCancelled:
		return Pair{"其余任务被取消", "the rest was withdrawn"}
	case protocol.WhyLateResults:
		return Pair{"补传结果到达", "late answers arrived"}
	case protocol.WhyRetryResults:
		return Pair{"重试结果到达", "answers to a retry arrived"}
	}
	return Pair{string(w), string(w)}
}

// Bucket is one of the five counts with its outcome.
type Bucket struct {
	Outcome task.Outcome
	Count   int
}

// Buckets are the five counts in the order of the outcomes.
func Buckets(c protocol.Counts) []Bucket {
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
	list := make([]Bucket, 0, len(task.Outcomes()))
	for _, o := range task.Outcomes() {
		list = append(list, Bucket{o, count(o)})
	}
	return list
}

// Sentence says in English and in Chinese what the report amounts to.
func Sentence(head protocol.ReportHead) (en, zh string) {
	c, targets := head.Counts, head.Targets
	verdict := Verdict(head.Verdict)
	if head.Verdict == protocol.VerdictComplete && targets == 1 {
		return verdict.En + ": the one store succeeded.", verdict.Zh + "：唯一的门店已成功。"
	}
	all, succeeded := Count(targets), Count(c.Succeeded)
	if head.Verdict == protocol.VerdictComplete {
		return fmt.Sprintf("%s: all %s succeeded.", verdict.En, Stores(targets)),
			fmt.Sprintf("%s：%s 家门店全部成功。", verdict.Zh, all)
	}
	var partsEn, partsZh []string
	for _, b := range Buckets(c) {
		if b.Outcome == task.OutcomeSucceeded || b.Count == 0 {
			continue
		}
		w := Outcome(b.Outcome)
		partsEn = append(partsEn, fmt.Sprintf("%s %s", Count(b.Count), w.En))
		partsZh = append(partsZh, fmt.Sprintf("%s %s 家", w.Zh, Count(b.Count)))
	}
	en = fmt.Sprintf("%s: %s of %s succeeded; %s.", verdict.En, succeeded, Stores(targets), strings.Join(partsEn, ", "))
	zh = fmt.Sprintf("%s：%s 家门店中 %s 家成功；%s。", verdict.Zh, all, succeeded, strings.Join(partsZh, "，"))
	if head.Verdict == protocol.VerdictBelowQuorum {
		en += fmt.Sprintf(" The job asks for %s.", Percent(&head.Quorum))
		zh += fmt.Sprintf("作业要求成功率 %s。", Percent(&head.Quorum))
	}
	return en, zh
}

// Percent shows a share, and a dash for a share of nothing.
func Percent(share *float64) string {
	if share == nil {
		return "–"
	}
	const whole = 100
	return fmt.Sprintf("%.1f %%", *share*whole)
}

// RegionLabel is the label of a store by which reports gather.
const RegionLabel = "region"

// NoRegion names the stores without that label.
func NoRegion() Pair { return Pair{"未标地区", "no region"} }

// Share is a part of a whole to 6 decimals, nil for a share of nothing, which is not a number.
func Share(part, whole int) *float64 {
	if whole <= 0 {
		return nil
	}
	const decimals = 1e6
	rounded := math.Round(float64(part)/float64(whole)*decimals) / decimals
	return &rounded
}

// YesNo says yes or no.
func YesNo(b bool) Pair {
	if b {
		return Pair{"是", "yes"}
	}
	return Pair{"否", "no"}
}

// NoApproval says that nobody had to approve the run.
func NoApproval() Pair { return Pair{"无需批准", "nobody had to"} }

// Ended says how an attempt ended. An answer with a code was refused, whatever it says.
func Ended(t *protocol.Try) Pair {
	switch {
	case t.Answer == protocol.AnswerSucceeded && t.Code != "":
		return Pair{"结果未被接受", "answer refused"}
	case t.Answer != "":
		return Outcome(task.Outcome(t.Answer)) // they share their words
	case t.EndedAt.IsZero():
		return Pair{"未结束", "not ended"}
	}
	return Pair{"没有答复", "no answer"}
}
