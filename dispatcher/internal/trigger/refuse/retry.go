package refuse

import (
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// TooEarly is for a retry of a run that has no report yet.
func TooEarly(run store.Run, zone *time.Location) *protocol.Error {
	at := run.BarrierAt.In(zone).Format(protocol.Clock)
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/runId",
		Message:   fmt.Sprintf("run %s is not reported yet, its tasks are still tried by themselves; nothing was created", run.RunID),
		MessageZh: fmt.Sprintf("批次 %s 尚未出报告，其任务仍在自动重试中，未创建任何内容", run.RunID),
		Hint:      "ask again when its report is out, at " + at + " at the latest",
		HintZh:    "请在报告发布后再试，最迟 " + at}
}

// NothingToRetry is for a run that misses nothing that could be asked again.
func NothingToRetry(runID string) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeNoTargets, Path: "/runId",
		Message:   fmt.Sprintf("run %s misses no store that could be asked again: each has succeeded, was cancelled, or is being worked on", runID),
		MessageZh: fmt.Sprintf("批次 %s 没有可重试的门店：均已成功、已取消，或正在处理中", runID),
		Hint:      "status with a storeId tells how a store stands; order what was cancelled by run",
		HintZh:    "用带 storeId 的 status 查询门店情况；已取消的请用 run 重新下发"}
}

// NotMissing is for stores of a run that a retry need not, or must not, ask again.
func NotMissing(runID string, stores []string) *protocol.Error {
	named := strings.Join(stores[:min(len(stores), maxNamed)], ", ")
	more, moreZh := "", ""
	if rest := len(stores) - maxNamed; rest > 0 {
		more, moreZh = fmt.Sprintf(" and %d more", rest), fmt.Sprintf(" 等 %d 家", len(stores))
	}
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/stores",
		Message:   fmt.Sprintf("not missing in run %s, or being worked on: %s%s; nothing was created", runID, named, more),
		MessageZh: fmt.Sprintf("以下门店在批次 %s 中并未缺席，或正在处理中：%s%s，未创建任何内容", runID, named, moreZh),
		Hint:      "leave them out, or leave stores out to ask all that are missing",
		HintZh:    "请去掉这些门店，或省略 stores 以重试全部缺席门店"}
}

// Meanwhile is for a retry of what somebody else began to ask, or what was answered,
// while the request was looked at.
func Meanwhile(runID string) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/runId",
		Message:   fmt.Sprintf("what run %s misses changed at this moment; nothing was created", runID),
		MessageZh: fmt.Sprintf("批次 %s 的缺席门店此刻发生了变化，未创建任何内容", runID),
		Hint:      "send the same request again",
		HintZh:    "请重发同一请求"}
}

// OtherVersion is for a retry of a run whose job is another one now.
func OtherVersion(run store.Run, now int) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/runId",
		Message:   fmt.Sprintf("run %s is of version %d of job %s, which is at version %d now: the answers would not be of one kind", run.RunID, run.JobVersion, run.Job, now),
		MessageZh: fmt.Sprintf("批次 %s 使用作业 %s 的版本 %d，当前为版本 %d，结果无法合并", run.RunID, run.Job, run.JobVersion, now),
		Hint:      "order a new run at the stores that are missing",
		HintZh:    "请对缺席门店新建批次"}
}
