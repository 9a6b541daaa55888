package refuse

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// maxReason bounds what an approver is told of a failure, in bytes.
const maxReason = 400

// NeedsApproval is the answer while a run waits for a second person. Its hint serves those
// with the commands and those with a technician's kit.
func NeedsApproval(a store.Approval, what, whatZh string, zone *time.Location) *protocol.Error {
	by, stores := a.ExpiresAt.In(zone).Format(protocol.Clock), "stores"
	if a.Stores == 1 {
		stores = "store"
	}
	return &protocol.Error{Code: protocol.CodeNeedsApproval,
		Message:   fmt.Sprintf("%s at %d %s needs the word of a second person by %s; nothing was created yet", what, a.Stores, stores, by),
		MessageZh: fmt.Sprintf("%s 涉及 %d 家门店，须由第二人在 %s 前批准；尚未创建任何内容", whatZh, a.Stores, by),
		Hint:      fmt.Sprintf("somebody else who may approve runs: dispatcher approve %s; or with the kit: ask.sh approve (on Windows ask.ps1), with this approvalId and contentHash", a.ApprovalID),
		HintZh:    fmt.Sprintf("由另一位有批准权限的人执行：dispatcher approve %s；或用工具包中的 ask.sh（Windows 为 ask.ps1）发送 approve，填入此处的 approvalId 和 contentHash", a.ApprovalID)}
}

// OtherWaits is for a request id under which another request waits, which differs in
// the members of that name; nil: it is not known in which.
func OtherWaits(a store.Approval, members []string) *protocol.Error {
	in, inZh := differing(members)
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/requestId",
		Message:   fmt.Sprintf("the requestId waits for approval %s with other content%s; nothing was created", a.ApprovalID, in),
		MessageZh: fmt.Sprintf("该 requestId 已用于内容不同%s、正在等待批准的请求 %s，未创建任何内容", inZh, a.ApprovalID),
		Hint:      sameID, HintZh: sameIDZh}
}

// GivenUp is for a request id whose approval came to nothing.
func GivenUp(a store.Approval) *protocol.Error {
	why, whyZh := "", ""
	if a.Why != "" {
		why = ": " + clip(a.Why)
	}
	if a.Why != "" && a.State == store.ApprovalRejected { // a person's own words
		whyZh = "（" + clip(a.Why) + "）"
	}
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/requestId",
		Message:   fmt.Sprintf("the requestId asked for approval %s, which is %s%s; nothing was created", a.ApprovalID, a.State, why),
		MessageZh: fmt.Sprintf("该 requestId 对应的待批准项 %s %s%s，未创建任何内容", a.ApprovalID, stateZh(a.State), whyZh),
		Hint:      "take a new requestId to ask anew",
		HintZh:    "如需重新申请，请换用新的 requestId"}
}

// stateZh is what became of an approval, in Chinese.
func stateZh(state string) string {
	switch state {
	case store.ApprovalApproved:
		return "已获批准"
	case store.ApprovalRejected:
		return "已被拒绝"
	case store.ApprovalExpired:
		return "已过期"
	case store.ApprovalVoid:
		return "已作废"
	}
	return "正在等待批准"
}

// NotDone is for an approval that was given while headquarters cannot do what it
// is for.
func NotDone(a store.Approval, err error, zone *time.Location) *protocol.Error {
	why, by := err.Error(), a.ExpiresAt.In(zone).Format(protocol.Clock)
	if len(why) > maxReason {
		why = strings.ToValidUTF8(why[:maxReason], "") + "…"
	}
	return &protocol.Error{Code: protocol.CodeInternal, Path: "/approvalId",
		Message:   fmt.Sprintf("approval %s cannot be carried out: %s; it waits on until %s", a.ApprovalID, why, by),
		MessageZh: fmt.Sprintf("待批准项 %s 无法执行：%s；在 %s 前仍等待批准", a.ApprovalID, why, by),
		Hint:      "put that right on headquarters' machine, then approve it again",
		HintZh:    "请在总部主机上排除原因，然后重新批准"}
}

// TooManyWait is for a user of whom n requests wait.
func TooManyWait(n int) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeRateLimited,
		Message:   fmt.Sprintf("%d requests of this user wait for approval, no more are kept; nothing was created", n),
		MessageZh: fmt.Sprintf("该用户已有 %d 个请求等待批准，不再接受新的请求，未创建任何内容", n),
		Hint:      "wait until somebody has decided on them",
		HintZh:    "请等待这些请求得到处理"}
}

// UnknownApproval is for an id that no approval has.
func UnknownApproval(id string) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeNotFound, Path: "/approvalId",
		Message:   fmt.Sprintf("no such approval: %s", clip(id)),
		MessageZh: fmt.Sprintf("没有编号为 %s 的待批准项", clip(id)),
		Hint:      `those that wait are listed by status with {"approvals":true}`,
		HintZh:    `用 status 发送 {"approvals":true} 可列出待批准项`}
}

// OwnRequest is for who would decide on what they asked for.
func OwnRequest(a store.Approval) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeNotAllowed, Path: "/approvalId",
		Message:   fmt.Sprintf("%s asked for it; another person has to decide", a.Requester),
		MessageZh: fmt.Sprintf("该请求由 %s 提出，必须由另一人决定", a.Requester),
		Hint:      "names that differ in case only are one person",
		HintZh:    "仅大小写不同的用户名视为同一人"}
}

// OtherContent is for a decision on something else than the approval is for.
func OtherContent(a store.Approval) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/contentHash",
		Message:   fmt.Sprintf("approval %s is for other content; nothing was decided", a.ApprovalID),
		MessageZh: fmt.Sprintf("待批准项 %s 的内容与给出的摘要不符，未作决定", a.ApprovalID),
		Hint:      "look at it again by status, and take its contentHash",
		HintZh:    "请用 status 重新查看，并使用其中的 contentHash"}
}

// Rejected tells the requester that somebody said no.
func Rejected(a store.Approval) *protocol.Error {
	why, whyZh := cmp.Or(a.Why, "no reason was given"), cmp.Or(a.Why, "未说明原因")
	return &protocol.Error{Code: protocol.CodeNotAllowed,
		Message:   fmt.Sprintf("%s rejected it: %s; nothing was created", a.DecidedBy, clip(why)),
		MessageZh: fmt.Sprintf("%s 已拒绝：%s；未创建任何内容", a.DecidedBy, clip(whyZh)),
		Hint:      "talk to them, then ask again under a new requestId",
		HintZh:    "请与对方沟通，然后换用新的 requestId 重新申请"}
}

// Voided is for an approval of what is no longer the case.
func Voided(a store.Approval) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/approvalId",
		Message:   fmt.Sprintf("approval %s is void: %s; nothing was created", a.ApprovalID, a.Why),
		MessageZh: fmt.Sprintf("待批准项 %s 已作废：所申请的内容已与当前情况不符，未创建任何内容", a.ApprovalID),
		Hint:      "the requester asks again under a new requestId, for what is the case now",
		HintZh:    "请由申请人按当前情况换用新的 requestId 重新申请"}
}

// Overdue is for an approval that nobody decided on in time.
func Overdue(a store.Approval, zone *time.Location) *protocol.Error {
	by := a.ExpiresAt.In(zone).Format(protocol.Clock)
	return &protocol.Error{Code: protocol.CodeExpired, Path: "/approvalId",
		Message:   fmt.Sprintf("approval %s expired at %s; nothing was created", a.ApprovalID, by),
		MessageZh: fmt.Sprintf("待批准项 %s 已于 %s 过期，未创建任何内容", a.ApprovalID, by),
		Hint:      "the requester asks again under a new requestId",
		HintZh:    "请由申请人换用新的 requestId 重新申请"}
}

// TooLate is for a decision after another one.
func TooLate(a store.Approval) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeConflict, Path: "/decision",
		Message:   fmt.Sprintf("approval %s was %s by %s before; that stands", a.ApprovalID, a.State, a.DecidedBy),
		MessageZh: fmt.Sprintf("待批准项 %s 此前%s（%s），不再更改", a.ApprovalID, stateZh(a.State), a.DecidedBy),
		Hint:      "a run that should not be is cancelled by cancel",
		HintZh:    "不应执行的批次请用 cancel 取消"}
}
