package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/internal/protocol"
)

// watcher follows a run the way a technician would, over MQTT.
type watcher struct {
	client    *paho.Client
	topics    protocol.Topics
	replies   chan protocol.Reply
	states    chan protocol.RunStateReport
	summaries chan protocol.Summary
	lost      chan error
}

// watch connects as user and subscribes to replies and runs.
func watch(ctx context.Context, address, user string) (*watcher, error) {
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the broker: %w", err)
	}
	w := &watcher{topics: topics,
		// More than a demo can fill: a full channel would hold up the client.
		replies: make(chan protocol.Reply, 64), states: make(chan protocol.RunStateReport, 4096),
		summaries: make(chan protocol.Summary, 64), lost: make(chan error, 1)}
	w.client = paho.NewClient(paho.ClientConfig{
		Conn:               conn,
		OnPublishReceived:  []func(paho.PublishReceived) (bool, error){w.received},
		OnClientError:      w.onLost,
		OnServerDisconnect: func(d *paho.Disconnect) { w.onLost(fmt.Errorf("the broker sent us away, code %d", d.ReasonCode)) },
	})
	connect := &paho.Connect{ClientID: user, Username: user, UsernameFlag: true, CleanStart: true, KeepAlive: 30}
	if _, err := w.client.Connect(ctx, connect); err != nil {
		return nil, fmt.Errorf("cannot log in as %s: %w", user, err)
	}
	subscribe := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{
		{Topic: topics.Replies(user) + "#", QoS: 1},
		{Topic: topics.Run("+", protocol.RunState), QoS: 1},
		{Topic: topics.Run("+", protocol.RunSummary), QoS: 1},
	}}
	if _, err := w.client.Subscribe(ctx, subscribe); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot subscribe as %s: %w", user, err), w.close())
	}
	return w, nil
}

func (w *watcher) close() error { return w.client.Disconnect(&paho.Disconnect{}) }

func (w *watcher) onLost(err error) {
	select {
	case w.lost <- err:
	default:
	}
}

func (w *watcher) received(in paho.PublishReceived) (bool, error) {
	topic, payload := in.Packet.Topic, in.Packet.Payload
	address, ok := w.topics.Parse(topic)
	if !ok {
		return false, nil
	}
	var err error
	switch {
	case address.Area == protocol.AreaReply:
		err = hand(payload, w.replies)
	case address.RunKind == protocol.RunState:
		err = hand(payload, w.states)
	case address.RunKind == protocol.RunSummary:
		err = hand(payload, w.summaries)
	}
	if err != nil {
		w.onLost(fmt.Errorf("cannot read what came on %s: %w", topic, err))
	}
	return true, nil
}

func hand[T any](payload []byte, to chan<- T) error {
	var message T
	if err := json.Unmarshal(payload, &message); err != nil {
		return err
	}
	select {
	case to <- message:
		return nil
	default:
		return errors.New("nobody takes it")
	}
}

// reply waits for the answer to a request.
func (w *watcher) reply(ctx context.Context, limit time.Duration) (protocol.Reply, error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case reply := <-w.replies:
		return reply, nil
	case err := <-w.lost:
		return protocol.Reply{}, err
	case <-ctx.Done():
		return protocol.Reply{}, context.Cause(ctx)
	case <-timeout.C:
		return protocol.Reply{}, fmt.Errorf("headquarters did not answer within %s", limit)
	}
}

// news is what happens beside the messages: a line to tell, or what went wrong.
type news struct {
	text string
	err  error
}

// summary waits for a revision of the run and tells of each change, and of the
// news, meanwhile.
func (w *watcher) summary(ctx context.Context, runID string, revision int, limit time.Duration,
	changed func(protocol.RunStateReport), happens <-chan news, told func(string),
) (protocol.Summary, error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case state := <-w.states:
			if state.RunID == runID {
				changed(state)
			}
		case n := <-happens:
			if n.err != nil {
				return protocol.Summary{}, n.err
			}
			told(n.text)
		case summary := <-w.summaries:
			if summary.RunID == runID && summary.Revision >= revision {
				return summary, nil
			}
		case err := <-w.lost:
			return protocol.Summary{}, err
		case <-ctx.Done():
			return protocol.Summary{}, context.Cause(ctx)
		case <-timeout.C:
			return protocol.Summary{}, fmt.Errorf("revision %d of run %s did not come within %s", revision, runID, limit)
		}
	}
}

// ready waits until something listens at the address.
func ready(ctx context.Context, address string, c *child, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-again.C:
		case <-c.ended:
			return fmt.Errorf("%s ended: %w; see %s", c.name, c.err, c.log)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fmt.Errorf("%s does not listen at %s after %s; see %s", c.name, address, limit, c.log)
		}
	}
}

// freeAddress picks a loopback address that nobody uses.
func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find a free port: %w", err)
	}
	return strings.Clone(l.Addr().String()), l.Close()
}
