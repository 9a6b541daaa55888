package checker

import (
	"cmp"
	"slices"
	"time"

	"muster/internal/protocol"
)

// How long headquarters keeps a slot after it has called for an upload: silence until
// it hears of it, and then the time of the bytes over the slowest link and sendMore.
const (
	silence     = 10 * time.Second
	sendMore    = 30 * time.Second
	slowestLink = 4 << 10 // bytes a second
)

// upload is one call for a result, with the orders that repeat it.
type upload struct {
	order        // the first of them
	called int64 // by headquarters' moment of the first
	begin  int64 // when its terminal had one of them
	end    int64 // until then the slot was surely its own; begin, when nothing is sure
	first  bool  // of this attempt; calling for it again is not counted
}

// collection: uploads in flight stay under their cap, their bytes under burst +
// rate·t.
func (b *book) collection() {
	if b.limits.UploadsInFlight == 0 && b.limits.UploadBytesPerSecond == 0 {
		return
	}
	uploads := b.uploads()
	if b.limits.UploadsInFlight > 0 {
		var steps []step
		for _, u := range uploads {
			if u.end > u.begin {
				b.weigh("uploads", 1)
				steps = append(steps, step{at: u.begin, by: 1, execution: u.execution(), line: u.Source}, step{at: u.end, by: -1, execution: u.execution()})
			}
		}
		if s, sending := over(steps, b.limits.UploadsInFlight); sending > 0 {
			b.broken(Finding{Task: s.task, Attempt: s.attempt, Line: s.line}, "with this order %d uploads were in flight, the cap is %d", sending, b.limits.UploadsInFlight)
		}
	}
	if b.limits.UploadBytesPerSecond > 0 {
		b.uploadedBytes(uploads)
	}
}

// uploads are the calls by headquarters' moments. An order may come twice over a bad
// line, and is repeated when its terminal announces again: that is the same call.
func (b *book) uploads() (list []upload) {
	var orders []order
	seen := map[string]bool{}
	for _, o := range b.orders {
		if o.Order.Order == protocol.OrderSend && !seen[o.Order.ID] {
			seen[o.Order.ID] = true
			orders = append(orders, o)
		}
	}
	slices.SortStableFunc(orders, func(a, c order) int { return cmp.Compare(a.Order.At.UnixMilli(), c.Order.At.UnixMilli()) })
	newest := map[execution]int{} // in the list
	for _, o := range orders {
		at := o.Order.At.UnixMilli()
		i, again := newest[o.execution()]
		if again && at < list[i].called+b.longest(o.execution()) {
			list[i].begin = min(list[i].begin, o.AtMs)
			list[i].end = min(list[i].end, list[i].called+ms(silence-b.limits.Slack)) // a new announcement may have been the sign
			continue
		}
		newest[o.execution()] = len(list)
		u := upload{order: o, called: at, begin: o.AtMs, first: !again}
		u.end = b.uploadEnd(u)
		list = append(list, u)
	}
	return list
}

// longest is how long headquarters keeps a slot at most once it has a sign, in ms.
func (b *book) longest(e execution) int64 { return ms(sendMore) + 1000*b.large[e].bytes/slowestLink }

// broke: the participant's line was broken, or lost something, so that an order before
// may have got lost.
func (b *book) broke(who string, from, to int64) bool {
	within := func(at int64) bool { return at >= from && at <= to }
	return slices.ContainsFunc(b.ended[who], within) || slices.ContainsFunc(b.faults, func(f fault) bool {
		return f.of(who) && f.begin <= to && (f.end == 0 || f.end >= from)
	})
}

// uploadEnd is until when the slot is not another's: while the answer is not there, the
// attempt not over, the line whole and headquarters up. For longer than the silence only
// if headquarters was given a sign in that time; a call that may repeat one which got
// lost proves nothing.
func (b *book) uploadEnd(u upload) int64 {
	if b.broke(u.Who, max(u.called-b.longest(u.execution()), b.large[u.execution()].at), u.called) {
		return u.begin
	}
	slack := ms(b.limits.Slack)
	a := b.attempts[u.execution()]
	end := u.called + ms(silence) - slack
	if a.LastSignAt >= u.begin && a.LastSignAt < end {
		end = u.called + b.longest(u.execution()) - slack
	}
	if a.EndedAt != 0 {
		end = min(end, a.EndedAt-slack)
	}
	if a.ReceivedAt == 0 { // it came for an attempt that was over
		for _, r := range b.results[u.execution()] {
			if r.AtMs >= u.begin {
				end = min(end, r.AtMs)
			}
		}
	} else {
		end = min(end, a.ReceivedAt-slack)
	}
	for _, at := range b.ended[u.Who] {
		if at >= u.begin {
			end = min(end, at)
		}
	}
	for _, f := range b.faults {
		if (f.ofHeadquarters() || f.of(u.Who)) && f.begin >= u.begin {
			end = min(end, f.begin)
		}
	}
	return end
}

// uploadedBytes goes by the moments of the orders, which follow the payment by up to
// Slack. What headquarters had saved up is gone when it starts anew.
func (b *book) uploadedBytes(uploads []upload) {
	var away []fault
	for _, f := range b.faults {
		if f.name == faultDispatcher && f.end != 0 {
			away = append(away, f)
		}
	}
	slices.SortStableFunc(away, func(a, c fault) int { return cmp.Compare(a.end, c.end) })
	rate := float64(b.limits.UploadBytesPerSecond)
	late := rate * b.limits.Slack.Seconds()
	bucket := newBucket(rate, float64(b.limits.UploadBurstBytes)+late)
	for _, u := range uploads {
		if !u.first {
			continue
		}
		for len(away) > 0 && away[0].end <= u.called {
			bucket.hold(away[0].end, rate*float64(away[0].end-away[0].begin)/1000+late)
			away = away[1:]
		}
		b.weigh("bytes", int(b.large[u.execution()].bytes))
		if !bucket.take(u.called, float64(b.large[u.execution()].bytes)) {
			b.broken(Finding{Task: u.Order.TaskID, Attempt: u.Order.Attempt, Line: u.Source},
				"its %d bytes were called for at %s, more than a burst of %d and %d a second allow",
				b.large[u.execution()].bytes, moment(u.called), b.limits.UploadBurstBytes, b.limits.UploadBytesPerSecond)
			return
		}
	}
}
