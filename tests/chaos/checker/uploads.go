package checker

import (
	"cmp"
	"slices"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

// silence is how long headquarters waits, after an order to send, for the first
// sign of the upload; then the slot may be another's.
const silence = 10 * time.Second

// upload is one order to send, as its terminal got it.
type upload struct {
	order
	first bool // for this attempt; an order that is repeated costs no bytes
	end   int64
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
			if u.end > u.AtMs {
				steps = append(steps, step{at: u.AtMs, by: 1, execution: u.execution(), line: u.Source}, step{at: u.end, by: -1, execution: u.execution()})
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

// uploads lasted at least from the order that was got to the answer that was
// sent. Before that the slot may be taken back: after the silence, when the
// terminal's connection ends, and with headquarters.
func (b *book) uploads() (list []upload) {
	last := map[execution]int64{} // end of the newest
	for _, o := range b.orders {
		key := o.execution()
		before, again := last[key]
		if o.Order.Order != protocol.OrderSend || again && o.AtMs < before {
			continue // the same upload, called for again
		}
		u := upload{order: o, first: !again, end: o.Order.At.UnixMilli() + ms(silence)}
		for _, r := range b.results {
			if r.execution() == key && r.AtMs >= o.AtMs {
				u.end = min(u.end, r.AtMs)
				break
			}
		}
		for _, l := range b.History {
			if l.AtMs >= o.AtMs && (l.Act == history.ActDisconnected && l.Who == o.Who || l.Act == history.ActFault && l.On) {
				u.end = min(u.end, l.AtMs)
				break
			}
		}
		last[key] = u.end
		list = append(list, u)
	}
	return list
}

// uploadedBytes goes by the moments of the orders, which follow the payment: by
// up to Slack, and each start of headquarters has a full bucket.
func (b *book) uploadedBytes(uploads []upload) {
	announced := map[execution]int64{}
	for _, l := range b.History {
		var ready protocol.Ready
		if addr, ok := b.topics.Parse(l.Topic); ok && l.Act == history.ActSent && addr.Kind == protocol.KindReady &&
			protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &ready) == nil {
			announced[execution{ready.TaskID, ready.Attempt}] = ready.Bytes
		}
	}
	slices.SortStableFunc(uploads, func(a, c upload) int { return cmp.Compare(a.Order.At.UnixMilli(), c.Order.At.UnixMilli()) })
	rate := float64(b.limits.UploadBytesPerSecond)
	full := newBucket(rate, float64(b.limits.UploadBurstBytes)+rate*b.limits.Slack.Seconds())
	var starts []int64
	for _, f := range b.faults {
		if f.name == faultDispatcher {
			starts = append(starts, f.begin)
		}
	}
	bucket := full
	for _, u := range uploads {
		if !u.first {
			continue
		}
		at := u.Order.At.UnixMilli()
		for len(starts) > 0 && starts[0] <= at {
			bucket, starts = full, starts[1:]
		}
		if !bucket.take(at, float64(announced[u.execution()])) {
			b.broken(Finding{Task: u.Order.TaskID, Attempt: u.Order.Attempt, Line: u.Source},
				"its %d bytes were called for at %s, more than a burst of %d and %d a second allow",
				announced[u.execution()], moment(at), b.limits.UploadBurstBytes, b.limits.UploadBytesPerSecond)
			return
		}
	}
}
