package crowd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// terminal is one simulated terminal. Its reader, the clock of the crowd and the
// end of an execution speak for it, one at a time.
type terminal struct {
	crowd  *Crowd
	index  int
	store  string
	topics [kinds]string
	signer *trust.Signer // nil: unsigned

	mu     sync.Mutex
	net    net.Conn
	nextID uint16
	seq    int64
	duties []duty // those that are not over; few at a time
	synced bool
	listed bool // the list of keys has come
}

// The topics that a terminal publishes on.
const (
	toClaim = iota
	toProgress
	toResult
	toHello
	kinds
)

// duty is one task at a terminal.
type duty struct {
	id      string
	offer   string // its hash, as the grant named it
	attempt int    // 0: not granted
	ended   bool   // the execution
	settled bool   // the receipt has come
	gone    bool   // the offer was withdrawn
	again   time.Time
}

// Again is how long a terminal waits for an answer before it asks again.
const again = 20 * time.Second

func (t *terminal) find(id []byte) *duty {
	for i := range t.duties {
		if t.duties[i].id == string(id) {
			return &t.duties[i]
		}
	}
	return nil
}

// drop forgets a duty about which nothing can come any more.
func (t *terminal) drop(d *duty) {
	if !d.settled || !d.gone {
		return
	}
	last := len(t.duties) - 1
	*d = t.duties[last]
	t.duties[last] = duty{}
	t.duties = t.duties[:last]
}

// connect brings the terminal up: CONNECT, SUBSCRIBE, hello.
func (t *terminal) connect(ctx context.Context) error {
	c, err := t.crowd.Dial(ctx, t.index)
	if err != nil {
		return fmt.Errorf("cannot dial: %w", err)
	}
	t.net = c
	r := bufio.NewReaderSize(c, readBuffer)
	topics, root := t.crowd.topics, t.crowd.topics.Root()
	filters := []string{root + "/trust", root + "/stores/" + t.store + "/tasks/+", topics.Terminal(t.store, Terminal, protocol.KindOrders)}
	if t.signer == nil {
		filters = filters[1:]
	}
	if err := open(c, r, t.store+"/"+Terminal, t.crowd.Password, filters, t.receive); err != nil {
		return errors.Join(err, c.Close())
	}
	t.mu.Lock()
	now := time.Now()
	hello, err := t.hello(now)
	if err == nil {
		err = t.write(t.publish(nil, toHello, hello))
	}
	t.mu.Unlock()
	go t.read(r)
	return err
}

func (t *terminal) read(r *bufio.Reader) {
	for {
		p, err := readPacket(r)
		if err == nil {
			err = t.receive(p)
		}
		if err != nil {
			t.crowd.lost(t, err)
			return
		}
	}
}

// publish appends one of the terminal's messages; t.mu is held.
func (t *terminal) publish(b []byte, kind int, payload []byte) []byte {
	if t.nextID++; t.nextID == 0 {
		t.nextID++
	}
	var s trust.Signature
	if t.signer != nil {
		s = t.signer.Sign(t.topics[kind], payload)
	}
	return appendPublish(b, t.topics[kind], payload, t.nextID, s)
}

func (t *terminal) write(b []byte) error {
	_, err := t.net.Write(b)
	return err
}

// receive takes one packet in. What it answers leaves in one write with the
// acknowledgement.
func (t *terminal) receive(p packet) error {
	if p.first&0xf0 != typePublish {
		return nil // acknowledgements and pings
	}
	m, err := parsePublish(p)
	if err != nil {
		return err
	}
	now := time.Now()
	buf := t.crowd.buffer()
	defer t.crowd.give(buf)
	t.mu.Lock()
	defer t.mu.Unlock()
	out := (*buf)[:0]
	if m.id != 0 {
		out = appendPuback(out, m.id)
	}
	if out, err = t.take(out, m, now); err != nil {
		return err
	}
	*buf = out
	if len(out) == 0 {
		return nil
	}
	return t.write(out)
}

func (t *terminal) take(out []byte, m message, now time.Time) ([]byte, error) {
	last := bytes.LastIndexByte(m.topic, '/')
	switch {
	case bytes.HasSuffix(m.topic, []byte("/orders")):
		t.crowd.check(m)
		return t.order(out, m.payload, now)
	case bytes.HasSuffix(m.topic, []byte("/trust")):
		t.ready(t.synced, true)
		return out, t.crowd.keys(m.payload)
	case bytes.HasSuffix(m.topic[:max(last, 0)], []byte("/tasks")):
		t.crowd.check(m)
		return t.offered(out, m.topic[last+1:], m.payload, now), nil
	}
	return out, fmt.Errorf("%w: topic %s", errMalformed, m.topic)
}

// ready tells the crowd once that the terminal heard what it needs to begin.
func (t *terminal) ready(synced, listed bool) {
	was := t.synced && t.listed
	t.synced, t.listed = synced, listed
	if !was && synced && listed {
		t.crowd.up()
	}
}

func (t *terminal) offered(out, id, payload []byte, now time.Time) []byte {
	d := t.find(id)
	if len(payload) == 0 {
		if d != nil {
			d.gone = true
			t.drop(d)
		}
		return out
	}
	if d == nil {
		if !bytes.Equal(member(payload, "taskId"), id) {
			t.crowd.note(&t.crowd.sums.Strays)
			return out
		}
		t.crowd.offers.add(now)
		t.duties = append(t.duties, duty{id: string(id)})
		d = &t.duties[len(t.duties)-1]
	}
	if d.attempt > 0 || t.crowd.Mute {
		return out
	}
	return t.claim(out, d, now)
}

func (t *terminal) claim(out []byte, d *duty, now time.Time) []byte {
	d.again = now.Add(again)
	buf := t.crowd.buffer()
	defer t.crowd.give(buf)
	*buf = t.claimOf((*buf)[:0], d, now)
	return t.publish(out, toClaim, *buf)
}

func (t *terminal) order(out, payload []byte, now time.Time) ([]byte, error) {
	kind := protocol.OrderKind(member(payload, "order"))
	if kind == protocol.OrderSync {
		if member(payload, "helloId") != nil {
			t.ready(true, t.listed || t.signer == nil)
			return out, nil
		}
		hello, err := t.hello(now)
		return t.publish(out, toHello, hello), err
	}
	d := t.find(member(payload, "taskId"))
	if d == nil {
		t.crowd.note(&t.crowd.sums.Strays)
		return out, nil
	}
	switch kind {
	case protocol.OrderGrant:
		return t.granted(out, d, payload, now), nil
	case protocol.OrderReceipt:
		t.receipted(d, payload, now)
	case protocol.OrderDeny:
		t.crowd.note(&t.crowd.sums.Denied)
		d.again = now.Add(time.Duration(number(payload, "retryAfterMs")) * time.Millisecond)
	case protocol.OrderSend, protocol.OrderCancel, protocol.OrderSync:
		t.crowd.note(&t.crowd.sums.Strays)
	}
	return out, nil
}

func (t *terminal) granted(out []byte, d *duty, payload []byte, now time.Time) []byte {
	attempt := number(payload, "attempt")
	if attempt <= d.attempt {
		t.crowd.note(&t.crowd.sums.Repeats)
		return out
	}
	t.crowd.grant(now)
	d.attempt, d.offer, d.again = attempt, string(member(payload, "offerSha256")), now.Add(again)
	if t.crowd.work > 0 || t.crowd.Hold {
		t.crowd.begin(t, d.id, now)
		return out
	}
	return t.finish(out, d, now)
}

func (t *terminal) finish(out []byte, d *duty, now time.Time) []byte {
	d.ended, d.again = true, now.Add(again)
	buf := t.crowd.buffer()
	defer t.crowd.give(buf)
	*buf = t.resultOf((*buf)[:0], d, now)
	return t.publish(out, toResult, *buf)
}

func (t *terminal) receipted(d *duty, payload []byte, now time.Time) {
	switch {
	case number(payload, "attempt") != d.attempt || !d.ended:
		t.crowd.note(&t.crowd.sums.Strays)
	case string(member(payload, "accepted")) != "true":
		t.crowd.note(&t.crowd.sums.Refused)
		t.crowd.fail(fmt.Errorf("headquarters refused an answer of terminal %s: %s", t.store, payload))
	case d.settled:
		t.crowd.note(&t.crowd.sums.Repeats)
	default:
		d.settled = true
		t.crowd.receipt(now)
	}
	t.drop(d)
}

// lasts says that an execution lives, if it has not ended.
func (t *terminal) lasts(id string, now time.Time) error {
	buf := t.crowd.buffer()
	defer t.crowd.give(buf)
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.find([]byte(id))
	if d == nil || d.ended {
		return nil
	}
	*buf = t.startOf((*buf)[:0], d, now)
	return t.write(t.publish(nil, toProgress, *buf))
}

// ended ends an execution.
func (t *terminal) ended(id string, now time.Time) error {
	buf := t.crowd.buffer()
	defer t.crowd.give(buf)
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.find([]byte(id))
	if d == nil || d.ended {
		return nil
	}
	*buf = t.finish((*buf)[:0], d, now)
	return t.write(*buf)
}

// remind says again what got no answer, and keeps the connection alive.
func (t *terminal) remind(now time.Time, ping bool) error {
	buf := t.crowd.buffer()
	defer t.crowd.give(buf)
	t.mu.Lock()
	defer t.mu.Unlock()
	out := (*buf)[:0]
	for i := range t.duties {
		d := &t.duties[i]
		if d.settled || now.Before(d.again) || t.crowd.Mute {
			continue
		}
		switch {
		case d.ended:
			t.crowd.note(&t.crowd.sums.Reminders)
			out = t.finish(out, d, now)
		case d.attempt == 0 && !d.gone:
			t.crowd.note(&t.crowd.sums.Reminders)
			out = t.claim(out, d, now)
		}
	}
	if ping {
		out = append(out, typePing, 0)
	}
	*buf = out
	if len(out) == 0 {
		return nil
	}
	return t.write(out)
}

// keysOf reads the list of headquarters' keys. Who sealed it is not asked: what
// the crowd checks is that headquarters signs, not whom to believe.
func keysOf(payload []byte) (trust.Document, error) {
	var sealed trust.Sealed
	var list trust.Document
	if err := json.Unmarshal(payload, &sealed); err != nil {
		return list, fmt.Errorf("cannot read the list of keys: %w", err)
	}
	if err := json.Unmarshal([]byte(sealed.Document), &list); err != nil {
		return list, fmt.Errorf("cannot read the list of keys: %w", err)
	}
	return list, nil
}
