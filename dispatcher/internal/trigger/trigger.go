// Package trigger takes what technicians ask for, on req/{user}/{verb}: it
// checks a request, de-duplicates it, lets plan expand it, has the store commit
// it, and answers.
//
// It follows no run and publishes nothing but replies: what comes after the
// commit is for the steps that follow the store's change feed.
package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/example"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger/approval"
	"muster/dispatcher/internal/trigger/once"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/dispatcher/internal/trigger/tell"
	"muster/dispatcher/internal/trigger/wish"
	"muster/internal/logs"
	"muster/internal/protocol"
	"muster/internal/redact"
	"muster/schemas"
)

const (
	// maxReplyTopic bounds a response topic, in bytes.
	maxReplyTopic = 512
	// maxLogged bounds what the log keeps of a refused payload, in bytes.
	maxLogged = 300
)

// Trigger is step 1. Make it with New; safe for concurrent use.
type Trigger struct {
	Config
	schemas   map[protocol.Verb]*schema.Schema
	limits    *limits
	bounds    atomic.Pointer[Bounds]
	wishes    wish.Reader
	approvals *approval.Desk
	locks     once.Locks
	refused   atomic.Int64
	sparing   logs.Sparing // by who and what: a line a refusal would fill the disk

	mu      sync.RWMutex // held for reading by every request, for writing by Start and Stop
	started time.Time
	stopped bool
}

// New returns a trigger that takes requests once Start was called. It fails
// only when a built-in schema is broken.
func New(cfg Config) (*Trigger, error) {
	cfg.setDefaults()
	t := &Trigger{Config: cfg, schemas: map[protocol.Verb]*schema.Schema{}, limits: newLimits()}
	t.wishes = wish.Reader{World: cfg.World, Planner: cfg.Planner, Jobs: cfg.Jobs, People: cfg.People, Now: cfg.Now, Zone: cfg.Zone}
	t.approvals = &approval.Desk{Approvals: cfg.Approvals, Past: cfg.Past, People: cfg.People, Wishes: t.wishes, Locks: &t.locks, Create: t.create,
		Do: cfg.Approved, Rotated: cfg.Rotated, Sender: cfg.Sender, Now: cfg.Now, Logger: cfg.Logger}
	t.Limit(cfg.Bounds)
	for _, verb := range []protocol.Verb{protocol.VerbRun, protocol.VerbCancel, protocol.VerbStatus, protocol.VerbRetry, protocol.VerbApprove} {
		file := string(verb) + "_request.v1.schema.json"
		doc, err := fs.ReadFile(schemas.FS, file)
		if err != nil {
			return nil, fmt.Errorf("cannot read the schema of %s requests: %w", verb, err)
		}
		if t.schemas[verb], err = schema.Compile(file, doc); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Limit changes headquarters' bounds for what is asked from now on. What waits for its
// approval is approved by the new ones.
func (t *Trigger) Limit(bounds Bounds) { t.bounds.Store(&bounds) }

// Start opens for requests.
func (t *Trigger) Start(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started, t.stopped = t.Now(), false
	return nil
}

// Stop refuses what comes from now on with SHUTTING_DOWN, and waits for the
// requests that are being handled. It may be called twice, or before Start.
func (t *Trigger) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// Handle answers one request of addr.User. It returns nil once the reply was
// handed to the broker or none is due, whatever the reply says: a technician
// who was told "no" must not see the request come back to life. A request that
// makes headquarters panic is answered too: it is done wholly or not at all,
// since each is one transaction. It fails, and
// so leaves the message unacknowledged, only when the reply could not be
// handed over; the message that then comes again meets the same run.
func (t *Trigger) Handle(ctx context.Context, addr protocol.Address, in transport.Inbound) error {
	if in.Retained && len(in.Payload) == 0 {
		// A retained request was cleared, by us or by its sender. Our own may
		// come while another request is being handled: no lock here.
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	var reply protocol.Reply
	err := t.Ward.Do(quarantine.AlarmPanicked, t.topic(addr), func() (err error) {
		reply, err = t.answer(ctx, addr, in)
		return err
	})
	if err != nil {
		reply = t.refuse(addr, in, reply, err)
	}
	return t.reply(ctx, addr, in, reply)
}

// Decline answers a request that is not looked into, since headquarters ended
// over it in earlier lives. It returns what Handle does.
func (t *Trigger) Decline(ctx context.Context, addr protocol.Address, in transport.Inbound) error {
	return t.reply(ctx, addr, in, t.refuse(addr, in, protocol.Reply{}, refuse.SetAside()))
}

func (t *Trigger) reply(ctx context.Context, addr protocol.Address, in transport.Inbound, reply protocol.Reply) error {
	user := addr.User
	if in.User != "" && in.User != user {
		if user = in.User; !protocol.ValidID(user) {
			return nil // a terminal: it has no topic for replies
		}
	}
	topic := t.replyTopic(user, in.ResponseTopic)
	if err := t.Sender.JSON(ctx, topic, reply, transport.Options{CorrelationData: in.CorrelationData}); err != nil {
		return fmt.Errorf("cannot answer %s of %s: %w", addr.Verb, addr.User, err)
	}
	return nil
}

// refuse turns an error into the reply, logs and counts it. Of the reply as it
// was it keeps what names the request and what waits for approval.
func (t *Trigger) refuse(addr protocol.Address, in transport.Inbound, was protocol.Reply, err error) protocol.Reply {
	refusal := t.refusal(err)
	t.refused.Add(1)
	if left, due := t.sparing.Due(cmp.Or(in.User, addr.User)+" "+string(refusal.Code), t.Now()); due {
		t.Logger.Info("request refused", "user", addr.User, "from", in.User, "verb", addr.Verb, "code", refusal.Code, "message", redact.Excerpt([]byte(refusal.Message), maxLogged),
			"bytes", len(in.Payload), "payload", redact.Excerpt(in.Payload, maxLogged), "left_out", left)
	}
	reply := protocol.Rejected(refusal)
	reply.RequestID, reply.ApprovalID, reply.ContentHash = was.RequestID, was.ApprovalID, was.ContentHash
	reply.ExpiresAt, reply.Stores = was.ExpiresAt, was.Stores
	return reply
}

// Refused is how many requests were refused since the start.
func (t *Trigger) Refused() int64 { return t.refused.Load() }

func (t *Trigger) answer(ctx context.Context, addr protocol.Address, in transport.Inbound) (protocol.Reply, error) {
	switch {
	case in.Retained:
		return protocol.Reply{}, t.refuseRetained(ctx, addr)
	case t.stopped:
		return protocol.Reply{}, refuse.ShuttingDown()
	}
	person, err := t.admit(addr, in)
	if err != nil {
		return protocol.Reply{}, err
	}
	switch addr.Verb {
	case protocol.VerbRun:
		return t.run(ctx, person, in.Payload)
	case protocol.VerbCancel:
		return t.cancel(ctx, person, in.Payload)
	case protocol.VerbStatus:
		return t.status(ctx, person, in.Payload)
	case protocol.VerbApprove:
		return t.approve(ctx, person, in.Payload)
	case protocol.VerbRetry:
		return t.retry(ctx, person, in.Payload)
	case protocol.VerbJobs:
		if err := t.Sound(ctx); err != nil {
			return protocol.Reply{}, err
		}
		return tell.Jobs(t.Jobs.List()), nil
	case protocol.VerbHelp:
	}
	places, _ := t.World.ListPlaces(ctx) // without them the examples name no stores
	return tell.Help(t.Sender.Topics(), person, example.For(person, t.Jobs.List(), places)), nil
}

// admit lets in who may ask for the verb, not too often, and has signed where a
// signature is due.
func (t *Trigger) admit(addr protocol.Address, in transport.Inbound) (people.Person, error) {
	user := addr.User
	if in.User != "" {
		user = in.User // it pays for what it sends, in whose name ever
	}
	person, unknown := t.People.Who(user)
	r, burst := t.Rate, t.Burst
	if unknown != nil || person.Role == people.Technician {
		r, burst = t.TechnicianRate, t.TechnicianBurst
	}
	switch {
	case !t.limits.allow(user, r, burst, t.Steady()):
		return person, refuse.TooFast(r)
	case user != addr.User:
		return person, refuse.Impostor(addr.User)
	case unknown != nil:
		return person, unknown
	}
	if !slices.Contains(protocol.Verbs(), addr.Verb) {
		return person, refuse.UnknownVerb(addr.Verb)
	}
	if err := person.May(addr.Verb); err != nil {
		return person, err
	}
	return person, t.People.Believe(person, addr.Verb, t.topic(addr), in.Payload, in.Signature)
}

// refuseRetained takes a retained request off its topic, where it would come
// again with every start of headquarters.
func (t *Trigger) refuseRetained(ctx context.Context, addr protocol.Address) error {
	topic := t.topic(addr)
	left, due := t.sparing.Due(addr.User+" retained", t.Now())
	if due {
		t.Logger.Warn("retained request refused and cleared", "user", addr.User, "verb", addr.Verb, "topic", topic, "left_out", left)
	}
	if err := t.Sender.Clear(ctx, topic); err != nil && due {
		t.Logger.Warn("cannot clear a retained request", "topic", topic, "error", err)
	}
	return refuse.Retained()
}

// topic is the one that a request came on.
func (t *Trigger) topic(addr protocol.Address) string {
	return t.Sender.Topics().Request(addr.User, addr.Verb)
}

// refusal turns an error into what may cross the wire. What is not worded for
// a technician goes to the log alone.
func (t *Trigger) refusal(err error) *protocol.Error {
	var refusal *protocol.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	switch {
	case quarantine.Broke(err): // the ward has told of it
		return refuse.Broke()
	case errors.Is(err, store.ErrClosed):
		return refuse.ShuttingDown()
	case errors.Is(err, store.ErrNoSpace):
		return refuse.NoSpace()
	}
	if left, due := t.sparing.Due("failed "+err.Error(), t.Now()); due {
		t.Logger.Error("request failed", "error", err, "left_out", left)
	}
	return refuse.Internal()
}

// replyTopic is the response topic if it is one of the user's own.
func (t *Trigger) replyTopic(user, asked string) string {
	addr, ok := t.Sender.Topics().Parse(asked)
	if !ok || addr.Area != protocol.AreaReply || addr.User != user || len(asked) > maxReplyTopic ||
		addr.Rest == "" || strings.ContainsAny(asked, "+#\x00") {
		return t.Sender.Topics().LastReply(user)
	}
	return asked
}

// decode checks payload against the verb's schema and reads it into dst.
func (t *Trigger) decode(verb protocol.Verb, payload []byte, dst any) error {
	err := t.schemas[verb].Validate(payload)
	var refusal *protocol.Error
	if errors.As(err, &refusal) && refusal.Path == "/stores" && refusal.Code == protocol.CodeSchema {
		// The decoder words the four forms of stores better than a schema.
		var worded *protocol.Error
		if errors.As(protocol.DecodeRequest(payload, protocol.MaxPayloadBytes, dst), &worded) && worded.Path == "/stores" {
			return worded
		}
	}
	if err != nil {
		return err
	}
	return protocol.DecodeRequest(payload, protocol.MaxPayloadBytes, dst)
}
