package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"muster/internal/protocol"
	"muster/tests/fleet"
)

// Site is one headquarters. It is for one goroutine. Create it with New.
type Site struct {
	Options
	Folder string
	Addr   string

	topics    protocol.Topics
	hq        *exec.Cmd
	ended     chan struct{} // closed when hq has ended
	log       bytes.Buffer  // of headquarters; to be read once it has ended
	people    []*fleet.Conn
	refusals  chan error
	Accepted  chan protocol.Reply
	Summaries chan protocol.Summary
}

// New makes the folder of a headquarters, which Close removes.
func New(ctx context.Context, o Options) (*Site, error) {
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(o.Parent, "muster-load-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder: %w", err)
	}
	s := &Site{Options: o, Folder: folder, topics: topics,
		refusals: make(chan error, 1), Accepted: make(chan protocol.Reply, o.Runs+1), Summaries: make(chan protocol.Summary, o.Runs+1)}
	if s.Barrier == 0 {
		s.Barrier = time.Hour
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Site) prepare(ctx context.Context) error {
	if err := s.configure(ctx); err != nil || !s.Signed {
		return err
	}
	if err := s.identify(ctx); err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil { // which makes the database
		return err
	}
	s.Kill() // one that stops leaves the hash of a file that nobody may change
	return s.enrol(ctx)
}

// Config is the path of headquarters' configuration.
func (s *Site) Config() string { return filepath.Join(s.Folder, "dispatcher.yaml") }

// PID is headquarters' process.
func (s *Site) PID() int { return s.hq.Process.Pid }

// Start starts headquarters and returns once it takes connections.
func (s *Site) Start(ctx context.Context) error {
	s.hq = exec.CommandContext(context.WithoutCancel(ctx), s.Dispatcher, "serve", "--config", s.Config())
	s.hq.Stdout, s.hq.Stderr = &s.log, &s.log
	if err := s.hq.Start(); err != nil {
		s.hq = nil
		return fmt.Errorf("cannot start headquarters: %w", err)
	}
	s.ended = make(chan struct{})
	go func(hq *exec.Cmd, ended chan struct{}) {
		_ = hq.Wait() // whoever ends it judges how
		close(ended)
	}(s.hq, s.ended)
	return s.await(ctx)
}

// pause is between two looks whether headquarters is there.
const pause = 2 * time.Millisecond

func (s *Site) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
			continue
		case <-s.ended:
		case <-ctx.Done():
		}
		s.Kill()
		return fmt.Errorf("headquarters did not come up: %w\n%s", err, s.log.String())
	}
}

// Hire connects the technicians.
func (s *Site) Hire(ctx context.Context) error {
	for i := range s.users() {
		login := fleet.Login{User: user(i)}
		if s.Signed {
			login.Password = Password
		}
		c, err := fleet.Dial(ctx, s.Addr, login, s.receive)
		if err != nil {
			return fmt.Errorf("technician %s: %w", login.User, err)
		}
		s.people = append(s.people, c)
		filters := []string{s.topics.Replies(login.User) + "#"}
		if i == 0 {
			filters = append(filters, s.topics.Root()+"/runs/+/summary")
		}
		if err := c.Subscribe(ctx, filters...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Site) receive(m fleet.Message) {
	if addr, ok := s.topics.Parse(m.Topic); ok && addr.RunKind == protocol.RunSummary {
		var summary protocol.Summary
		if protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &summary) == nil {
			select {
			case s.Summaries <- summary:
			default: // nobody waits for them
			}
		}
		return
	}
	var reply protocol.Reply
	if err := protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &reply); err != nil || !reply.OK {
		s.refuse(fmt.Errorf("headquarters answered %s", m.Payload))
		return
	}
	select {
	case s.Accepted <- reply:
	default: // nobody waits for them
	}
}

func (s *Site) refuse(err error) {
	select {
	case s.refusals <- err:
	default:
	}
}

// Refused tells the first request that was not taken.
func (s *Site) Refused() <-chan error { return s.refusals }

// Ask asks for that many runs over all stores and returns when it began.
func (s *Site) Ask(runs int) (time.Time, error) {
	begin := time.Now()
	for i := range runs {
		at := i / runsAUser
		request := fmt.Sprintf(`{"requestId":"%d-%d","job":"load","stores":"all","input":{"spec":%q}}`, begin.UnixNano(), i, spec)
		if err := s.people[at].Publish(s.topics.Request(user(at), protocol.VerbRun), []byte(request)); err != nil {
			return begin, fmt.Errorf("cannot ask for a run: %w", err)
		}
	}
	return begin, nil
}

// Cancel withdraws the tasks of one store, of a run of the first technician.
func (s *Site) Cancel(runID, store string) error {
	request := fmt.Sprintf(`{"runId":%q,"stores":[%q],"reason":"it has no terminal"}`, runID, store)
	if err := s.people[0].Publish(s.topics.Request(user(0), protocol.VerbCancel), []byte(request)); err != nil {
		return fmt.Errorf("cannot ask to cancel: %w", err)
	}
	return nil
}

// Kill is kill -9.
func (s *Site) Kill() {
	if s.hq == nil {
		return
	}
	_ = s.hq.Process.Kill() // it may have ended
	<-s.ended
	s.hq = nil
}

// Stop ends headquarters in good order.
func (s *Site) Stop() error {
	if s.hq == nil {
		return nil
	}
	_ = s.hq.Process.Signal(syscall.SIGTERM) // it may have ended
	<-s.ended
	code := s.hq.ProcessState.ExitCode()
	s.hq = nil
	if code != 0 {
		return fmt.Errorf("headquarters ended with %d\n%s", code, s.log.String())
	}
	return nil
}

// Close ends everything and removes the folder.
func (s *Site) Close() error {
	for _, c := range s.people {
		c.Close()
	}
	s.Kill()
	return os.RemoveAll(s.Folder)
}
