// Package refuse words what a technician is told when a request is not done: a
// code, a sentence in English and in Chinese, and what to do about it. It must
// not decide: which refusal is due, and what it may name, is the trigger's. A zone is
// the one in which people read times.
package refuse

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"muster/dispatcher/internal/job"
	"muster/internal/protocol"
)

// maxNamed bounds the ids that a refusal names.
const maxNamed = 10

// ShuttingDown is for what comes while headquarters stops.
func ShuttingDown() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeShuttingDown,
		Message: "headquarters is stopping; nothing was created", MessageZh: "总部服务正在停止，未创建任何内容",
		Hint:   "send the same request again in a minute",
		HintZh: "一分钟后重发同一请求"}
}

// Internal is for what the log explains and a user cannot mend.
func Internal() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternal,
		Message: "internal error; it is written to the log of headquarters", MessageZh: "内部错误，详情已记入总部日志",
		Hint:   "send the same request again; it makes no second run",
		HintZh: "请重发同一请求，不会产生第二个批次"}
}

// Broke is for a request over which headquarters itself failed.
func Broke() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternal,
		Message:   "headquarters failed over this request, by a fault of its own; it was done wholly or not at all, and headquarters' operator has an alarm",
		MessageZh: "总部处理该请求时自身出错；请求要么已全部执行，要么完全未执行，总部管理员已收到告警",
		Hint:      "send the same request once more, it makes no second run; if it fails again, tell headquarters' operator, whose log says why",
		HintZh:    "请再发送一次同一请求，不会产生第二个批次；若仍失败，请告知总部管理员，原因见总部日志"}
}

// SetAside is for a request over which headquarters ended again and again.
func SetAside() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternal,
		Message:   "headquarters ended several times while it worked on this very request; it is set aside, and headquarters' operator has an alarm",
		MessageZh: "总部在处理该请求时多次异常退出；该请求已被搁置，总部管理员已收到告警",
		Hint:      "ask headquarters' operator before you send it again; status says whether it was done before",
		HintZh:    "重发前请先询问总部管理员；用 status 可查询此前是否已执行"}
}

// NoSpace is for what a full disk keeps from being written.
func NoSpace() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternal,
		Message:   "the disk of headquarters' data folder is full; nothing was created or changed; tell its operator, and ask again once there is room",
		MessageZh: "总部数据目录所在磁盘已满，未创建或更改任何内容；请通知总部管理员，腾出空间后重新发送",
		Hint:      "the same request makes no second run; headquarters goes on by itself once there is room",
		HintZh:    "重发同一请求不会产生第二个批次；腾出空间后总部会自动继续"}
}

// TooFast is for a user who sends more than r requests a second.
func TooFast(r rate.Limit) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeRateLimited,
		Message:   fmt.Sprintf("too many requests; %g a second are taken from one user", float64(r)),
		MessageZh: fmt.Sprintf("请求过于频繁，每个用户每秒最多 %g 个", float64(r)),
		Hint:      "wait a few seconds, then send it again",
		HintZh:    "请等待几秒后重发"}
}

// UnknownVerb is for a topic that ends in nothing that can be asked for.
func UnknownVerb(verb protocol.Verb) *protocol.Error {
	var known []string
	for _, v := range protocol.Verbs() {
		known = append(known, string(v))
	}
	return &protocol.Error{Code: protocol.CodeSchema,
		Message:   fmt.Sprintf("nobody can ask for %q; nothing was created", verb),
		MessageZh: fmt.Sprintf("没有名为 %q 的请求，未创建任何内容", verb),
		Hint:      "the topic ends in one of " + strings.Join(known, ", ") + ", in lower case",
		HintZh:    "主题末级须为以下之一（小写）：" + strings.Join(known, "、")}
}

// Retained is for a request that would come again at every start.
func Retained() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeRetainedCommand,
		Message:   "the request was retained, so it would run again at every start; it was cleared and nothing was created",
		MessageZh: "该请求带有保留标志，每次启动都会重复执行；已清除，未创建任何内容",
		Hint:      "send it without the retain flag (mosquitto_pub without -r)",
		HintZh:    "请不带保留标志重发（mosquitto_pub 不加 -r）"}
}

// Expired is for a request whose deadline was over before now.
func Expired(now, deadline time.Time, zone *time.Location) *protocol.Error {
	by, at := deadline.In(zone).Format(protocol.FineClock), now.In(zone).Format(protocol.FineClock)
	return &protocol.Error{Code: protocol.CodeExpired, Path: "/deadline",
		Message:   fmt.Sprintf("the request's deadline was %s and it is %s at headquarters; nothing was created", by, at),
		MessageZh: fmt.Sprintf("请求的截止时间为 %s，总部现在是 %s，未创建任何内容", by, at),
		Hint:      "deadline is epoch milliseconds by headquarters' clock; send it again with a later one",
		HintZh:    "deadline 为纪元毫秒数，以总部时钟为准；请改为更晚的时间后重发"}
}

// sameID is what to do about a request under the id of another.
const (
	sameID   = "take a new requestId for a new request; to be told of the first one again, send it as it was"
	sameIDZh = "新请求请换用新的 requestId；若要再次取得原请求的答复，请原样重发"
)

// differing says in which members two requests differ, "" when it is not known.
func differing(members []string) (en, zh string) {
	if len(members) == 0 {
		return "", ""
	}
	return " (it differs in " + strings.Join(members, ", ") + ")", "（不同的字段：" + strings.Join(members, "、") + "）"
}

// Conflict is for a request id that made another run, of a request that differs in the
// members of that name; nil: it is not known in which.
func Conflict(requestID, runID string, members []string) *protocol.Error {
	in, inZh := differing(members)
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/requestId",
		Message:   fmt.Sprintf("the requestId %s made run %s with other content%s; that run is untouched", clip(requestID), runID, in),
		MessageZh: fmt.Sprintf("requestId %s 已用于内容不同%s的批次 %s，该批次不受影响", clip(requestID), inZh, runID),
		Hint:      sameID, HintZh: sameIDZh}
}

// UnknownJob names some of the jobs there are.
func UnknownJob(name string, jobs *job.Registry) *protocol.Error {
	var known []string
	for _, spec := range jobs.List() {
		if len(known) == maxNamed {
			known = append(known, "…")
			break
		}
		known = append(known, spec.Name)
	}
	return &protocol.Error{Code: protocol.CodeUnknownJob, Path: "/job",
		Message:   fmt.Sprintf("no such job: %s", clip(name)),
		MessageZh: fmt.Sprintf("没有名为 %s 的作业", clip(name)),
		Hint:      "known jobs: " + strings.Join(known, ", "),
		HintZh:    "已有作业：" + strings.Join(known, "、")}
}

// UnknownRun is for a run id that no run has.
func UnknownRun(runID string) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeNotFound, Path: "/runId",
		Message:   fmt.Sprintf("no such run: %s", clip(runID)),
		MessageZh: fmt.Sprintf("没有编号为 %s 的批次", clip(runID)),
		Hint:      "take the runId from the reply to run",
		HintZh:    "runId 见 run 请求的答复"}
}

// NoTarget is for stores, at path in the request, that a run does not have.
func NoTarget(runID, path string, stores []string) *protocol.Error {
	named := make([]string, 0, maxNamed)
	for _, id := range stores[:min(len(stores), maxNamed)] {
		named = append(named, clip(id))
	}
	list, more, moreZh := strings.Join(named, ", "), "", ""
	if rest := len(stores) - len(named); rest > 0 {
		more, moreZh = fmt.Sprintf(" and %d more", rest), fmt.Sprintf(" 等 %d 家", len(stores))
	}
	return &protocol.Error{Code: protocol.CodeUnknownStore, Path: path,
		Message:   fmt.Sprintf("run %s has no such store: %s%s; nothing was changed", runID, list, more),
		MessageZh: fmt.Sprintf("批次 %s 不含门店：%s%s，未做任何更改", runID, list, moreZh),
		Hint:      "ids are compared exactly; a run's stores are frozen when it is made",
		HintZh:    "编号须完全一致；批次创建时门店即已固定"}
}

// NotTheirs is for a run that the user may not order.
func NotTheirs(user, runID string) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeNotAllowed, Path: "/runId",
		Message:   fmt.Sprintf("run %s is of a job or has stores that %s may not order; nothing was done", runID, user),
		MessageZh: fmt.Sprintf("批次 %s 的作业或门店超出用户 %s 的范围，未执行任何操作", runID, user),
		Hint:      "an operator may cancel it",
		HintZh:    "可由管理员取消"}
}

// Impostor is for a request that came under the name of another.
func Impostor(claimed string) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeNotAllowed,
		Message:   fmt.Sprintf("a request of %s was published by another; nothing was done", clip(claimed)),
		MessageZh: fmt.Sprintf("以 %s 名义发布的请求并非本人所发，未执行任何操作", clip(claimed)),
		Hint:      "publish on the request topic of the user who is logged in",
		HintZh:    "请发布到登录用户自己的请求主题"}
}

// IDWanted is for a signed request without an id.
func IDWanted() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeSchema, Path: "/requestId",
		Message:   "/requestId: is required of a signed request",
		MessageZh: "/requestId：带签名的请求必须填写该字段",
		Hint:      "give each request an id of its own: a signed one that is sent again by others must be known again",
		HintZh:    "每个请求须有各自的编号：带签名的请求若被他人重发，总部必须能够识别"}
}

// DeadlineWanted is for a signed request without a deadline.
func DeadlineWanted(most time.Duration) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeSchema, Path: "/deadline",
		Message:   "/deadline: is required of a signed request",
		MessageZh: "/deadline：带签名的请求必须填写该字段",
		Hint:      fmt.Sprintf("epoch milliseconds, at most %d minutes ahead: a signed request that others keep must not last", int(most.Minutes())),
		HintZh:    fmt.Sprintf("填写纪元毫秒数，最多晚 %d 分钟：带签名的请求若被他人留存，不得长期有效", int(most.Minutes()))}
}

// DeadlineFar is for a signed request that would last for more than most.
func DeadlineFar(now, deadline time.Time, most time.Duration, zone *time.Location) *protocol.Error {
	by, at := deadline.In(zone).Format(protocol.FineClock), now.In(zone).Format(protocol.FineClock)
	return &protocol.Error{Code: protocol.CodeSchema, Path: "/deadline",
		Message:   fmt.Sprintf("/deadline: %s is more than %d minutes ahead of headquarters, where it is %s", by, int(most.Minutes()), at),
		MessageZh: fmt.Sprintf("/deadline：%s 比总部当前时间 %s 晚 %d 分钟以上", by, at, int(most.Minutes())),
		Hint:      "give it some minutes, and set the clock of this machine if it is ahead",
		HintZh:    "请改为几分钟之后；若本机时钟偏快，请先校准"}
}

// InputTooLarge is for an input of more bytes than the job takes.
func InputTooLarge(jobName string, bytes, most int) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeTooLarge, Path: "/input",
		Message:   fmt.Sprintf("/input: has %d bytes; job %s takes at most %d", bytes, jobName, most),
		MessageZh: fmt.Sprintf("/input：有 %d 字节，作业 %s 最多接受 %d 字节", bytes, jobName, most),
		Hint:      "send less; every store gets the input, and an operator may raise max_input_bytes in the job's file",
		HintZh:    "请减少内容：每家门店都会收到 input；管理员可在作业文件中调高 max_input_bytes"}
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
