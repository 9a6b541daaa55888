package checker

import (
	"encoding/json"
	"slices"

	"muster/internal/protocol"
)

// once: one run a request, one record an answer.
func once(b *book) {
	b.onceRequests()
	b.onceRecords()
	b.onceReceipts()
}

type asking struct{ user, id string }

func (b *book) onceRequests() {
	first := map[asking]request{}
	most := map[string]int{} // user: runs that the user's calls may have made
	seen := map[asking]bool{}
	for _, r := range b.requests {
		if !ordersRun(r.verb) {
			continue
		}
		var asked protocol.RunRequest
		key := asking{user: r.user}
		if json.Unmarshal([]byte(r.asked.Payload), &asked) == nil {
			key.id = asked.RequestID
		}
		if key.id == "" || !seen[key] {
			most[r.user]++
		}
		seen[key] = true
		if !r.reply.OK {
			continue
		}
		b.weigh("requests", 1)
		where := Finding{Run: r.reply.RunID, Line: r.answered.Source}
		if _, known := b.runs[r.reply.RunID]; !known {
			b.broken(where, "the request was accepted and the store has no such run")
			continue
		}
		if before, again := first[key]; key.id != "" && again && before.reply.RunID != r.reply.RunID {
			b.broken(where, "request %s of %s made this run and run %s (%s)", key.id, key.user, before.reply.RunID, before.answered.Source)
		} else if !again {
			first[key] = r
		} else if key.id != "" && content(r) != content(before) {
			b.broken(where, "request %s of %s was accepted again with other content (%s)", key.id, key.user, before.asked.Source)
		}
	}
	made := map[string]int{}
	for _, run := range b.Store.Runs {
		made[run.RequestedBy]++
	}
	for _, run := range b.Store.Runs {
		if limit, asks := most[run.RequestedBy]; asks && made[run.RequestedBy] > limit {
			made[run.RequestedBy] = 0 // once a user
			b.broken(Finding{}, "%s asked for at most %d runs and the store has more of them", run.RequestedBy, limit)
		}
	}
	b.onceStored(first)
}

// content is what a request asks for, in whatever order it names stores.
func content(r request) string {
	if r.verb == protocol.VerbRetry {
		var asked protocol.RetryRequest
		if json.Unmarshal([]byte(r.asked.Payload), &asked) != nil {
			return r.asked.Payload
		}
		asked.Stores = slices.Compact(slices.Sorted(slices.Values(asked.Stores)))
		return contentText(r, asked)
	}
	var asked protocol.RunRequest
	if json.Unmarshal([]byte(r.asked.Payload), &asked) != nil {
		return r.asked.Payload
	}
	asked.Stores.Stores = slices.Compact(slices.Sorted(slices.Values(asked.Stores.Stores)))
	asked.Input = json.RawMessage(compact(asked.Input))
	return contentText(r, asked)
}

func contentText(r request, asked any) string {
	text, err := json.Marshal(asked)
	if err != nil {
		return r.asked.Payload
	}
	return string(r.verb) + string(text)
}

// onceStored compares the replies with the table of requests.
func (b *book) onceStored(first map[asking]request) {
	stored := map[asking]string{}
	for _, r := range b.Store.Requests {
		key := asking{r.User, r.RequestID}
		if run, twice := stored[key]; twice && run != r.RunID {
			b.broken(Finding{Run: r.RunID}, "the store has request %s of %s for this run and for run %s", r.RequestID, r.User, run)
		}
		stored[key] = r.RunID
	}
	for key, r := range first {
		if run := stored[key]; key.id != "" && run != r.reply.RunID {
			b.broken(Finding{Run: r.reply.RunID, Line: r.answered.Source},
				"the reply to request %s of %s names this run, the store has %q", key.id, key.user, run)
		}
	}
}

func (b *book) onceRecords() {
	records := map[execution]int{}
	for _, a := range b.Store.Attempts {
		key := execution{a.TaskID, a.Attempt}
		if records[key]++; records[key] == 2 {
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "the store has more than one record of the attempt")
		}
	}
	kept := map[RejectedResult]int{}
	for _, r := range b.Store.Rejected {
		if kept[r]++; kept[r] == 2 {
			b.broken(Finding{Task: r.TaskID, Attempt: r.Attempt}, "the refused answer %s is kept more than once", short(r.SHA256))
		}
	}
}

// onceReceipts: the same answer is not accepted once and refused once.
func (b *book) onceReceipts() {
	type answer struct {
		execution
		terminal, sum string
	}
	first := map[answer]order{}
	for _, o := range b.orders {
		if o.Order.Order != protocol.OrderReceipt || o.Order.Accepted == nil {
			continue
		}
		key := answer{o.execution(), o.Store + "/" + o.Terminal, o.Order.SHA256}
		before, again := first[key]
		b.weigh("receipts", 1)
		if !again {
			first[key] = o
		} else if *before.Order.Accepted && !*o.Order.Accepted {
			b.broken(Finding{Task: key.task, Attempt: key.attempt, Line: o.Source},
				"the answer %s was accepted (%s) and then refused with %s", short(key.sum), before.Source, o.Order.Code)
		}
	}
}
