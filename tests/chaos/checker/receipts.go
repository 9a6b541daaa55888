package checker

import (
	"slices"

	"muster/internal/protocol"
	"muster/internal/task"
)

// receipts: what a receipt names is stored.
func receipts(b *book) {
	for _, o := range b.orders {
		if o.Order.Order != protocol.OrderReceipt || o.Order.Accepted == nil {
			continue
		}
		b.weigh("receipts", 1)
		where := Finding{Task: o.Order.TaskID, Attempt: o.Order.Attempt, Line: o.Source}
		stored, known := b.attempts[o.execution()]
		switch {
		case *o.Order.Accepted && b.withdrawn(o):
		case !*o.Order.Accepted && !wasRefused(o.Order.Code): // it changed nothing
		case !known || stored.ReceivedAt == 0:
			b.broken(where, "the receipt of %s names an answer that the store does not hold", short(o.Order.SHA256))
		case *o.Order.Accepted && wasRefused(stored.Code):
			b.broken(where, "the receipt accepts %s, which the store refused with %s", short(o.Order.SHA256), stored.Code)
		case o.Order.Code == protocol.CodeInvalidResult && stored.Code == "" && stored.SHA256 == o.Order.SHA256:
			b.broken(where, "the receipt refuses %s with %s, which the store took in", short(o.Order.SHA256), o.Order.Code)
		case *o.Order.Accepted && stored.SHA256 != o.Order.SHA256:
			b.broken(where, "the receipt names %s, the store holds %s", short(o.Order.SHA256), short(stored.SHA256))
		}
	}
	for _, a := range b.Store.Attempts {
		if a.Result == nil || a.Redacted > 0 || a.ReceivedAt == 0 || a.Code != "" {
			continue // what was blacked out keeps the hash of what was sent
		}
		b.weigh("values", 1)
		if sum := digest([]byte(*a.Result)); sum != a.SHA256 {
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "the stored result hashes to %s, its record says %s", short(sum), short(a.SHA256))
		}
	}
}

// withdrawn: that a withdrawn task was stopped is receipted, and need not be
// stored.
func (b *book) withdrawn(o order) bool {
	return b.tasks[o.Order.TaskID].Status == task.Cancelled && slices.ContainsFunc(b.results[o.execution()], func(r result) bool {
		return r.names(o.Order.SHA256) && r.Result.Outcome == protocol.AnswerCancelled
	})
}

// wasRefused: the answer was stored as an invalid one, under the hash of what
// came and not of what it said about itself.
func wasRefused(code protocol.Code) bool {
	return slices.Contains([]protocol.Code{protocol.CodeInvalidResult, protocol.CodeBadHash, protocol.CodeWrongOffer, protocol.CodeTooLarge}, code)
}

// names compares with the hash that the answer names.
func (r result) names(sum string) bool { return r.Result.SHA256 == sum }
