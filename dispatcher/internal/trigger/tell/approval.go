package tell

import (
	"cmp"
	"fmt"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// Waits is what a reply tells of an approval beside its refusal.
func Waits(a store.Approval) protocol.Reply {
	return protocol.Reply{ApprovalID: a.ApprovalID, ContentHash: a.ContentHash,
		ExpiresAt: protocol.At(a.ExpiresAt), Stores: a.Stores}
}

// Rejected answers who said no, now or before.
func Rejected(duplicate bool) protocol.Reply {
	reply := done()
	reply.Duplicate = &duplicate
	reply.Message, reply.MessageZh = "rejected; nothing was done", "已拒绝，未执行任何操作"
	return reply
}

// Rotated answers who approved new keys, now or before. made is the rotation, or zero
// when it is not known; zone is the one in which people read times.
func Rotated(a store.Approval, made identity.Rotated, duplicate bool, zone *time.Location) protocol.Reply {
	reply := done()
	reply.Duplicate = &duplicate
	reply.Message, reply.MessageZh = cmp.Or(a.Why, "the keys are rotated"), "密钥已更换"
	if made.KeyID != "" {
		from := made.From.In(zone).Format(protocol.Clock)
		reply.Message = fmt.Sprintf("new key %s signs from %s", made.KeyID, from)
		reply.MessageZh = fmt.Sprintf("新密钥 %s 自 %s 起用于签名", made.KeyID, from)
	}
	return reply
}

// Pending lists approvals that wait.
func Pending(list []protocol.Approval) protocol.Reply {
	reply := done()
	reply.Approvals = list
	if len(list) == 0 {
		reply.Message, reply.MessageZh = "nothing waits for approval", "没有待批准的请求"
	}
	return reply
}

// Approval tells of one approval.
func Approval(a protocol.Approval) protocol.Reply {
	reply := done()
	reply.ApprovalID, reply.RunID, reply.Approval = a.ApprovalID, a.RunID, &a
	return reply
}
