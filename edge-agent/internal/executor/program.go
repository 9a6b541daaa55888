package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"muster/internal/protocol"
)

// The environment variables that an external program finds.
const (
	EnvTask      = "MUSTER_TASK_ID"
	EnvAttempt   = "MUSTER_ATTEMPT"
	EnvStore     = "MUSTER_STORE_ID"
	EnvTerminal  = "MUSTER_TERMINAL_ID"
	EnvScheduled = "MUSTER_SCHEDULED_FOR" // RFC 3339, the moment the run was ordered
	EnvTrial     = "MUSTER_TRIAL"         // empty, but not where the program is tried out
)

const (
	// termGrace is the time between asking a program to end and killing it:
	// enough to finish a write, short against the agent's own 5 s to stop.
	termGrace = 2 * time.Second
	// pipeGrace bounds the wait for output after the program has ended, when a
	// grandchild still holds the pipe.
	pipeGrace = time.Second
)

// Program runs an external program: the order's input on its standard input,
// one JSON object from its standard output, its standard error kept as a tail.
// The program and whatever it starts are ended together.
type Program struct {
	Argv []string // the program and its arguments, not empty
	Dir  string   // working folder, "" for the agent's own
	// MaxOutputBytes bounds standard output; more ends the program. 0 means
	// protocol.MaxResultBytes.
	MaxOutputBytes int
}

// ErrOutputTooLarge says that a program wrote more than it may.
var ErrOutputTooLarge = errors.New("the program's output is too large")

// Run starts the program and waits for its end. The error says how it failed;
// context.Cause(ctx) is in its chain when ctx ended it.
func (p Program) Run(ctx context.Context, order Order) (Output, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := p.MaxOutputBytes
	if limit == 0 {
		limit = protocol.MaxResultBytes
	}
	stdout := &bounded{most: limit, full: func() { cancel(fmt.Errorf("%w: over %d bytes", ErrOutputTooLarge, limit)) }}
	stderr := &tail{most: protocol.MaxOutputTailBytes}
	// Its end is waitTree's, which ends the whole tree and asks first.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.Argv[0], p.Argv[1:]...)
	cmd.Dir = p.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(order.Input), stdout, stderr
	cmd.Env = append(os.Environ(), marks(order)...)
	cmd.Env = append(cmd.Env, EnvScheduled+"="+order.ScheduledFor.Format(time.RFC3339Nano))
	cmd.WaitDelay = pipeGrace
	if err := ctx.Err(); err != nil {
		return Output{}, context.Cause(ctx)
	}
	tree, err := startTree(cmd)
	if err != nil {
		return Output{}, fmt.Errorf("cannot start %s: %w", p.Argv[0], err)
	}
	err = waitTree(ctx, cmd, tree, order)
	out := Output{Tail: stderr.String()}
	if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
		code := cmd.ProcessState.ExitCode()
		out.ExitCode = &code
	}
	if cause := context.Cause(ctx); cause != nil {
		return out, cause
	}
	// A grandchild that kept a pipe open does not spoil a good exit.
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return out, &Error{Message: fmt.Sprintf("the program ended with %v", err), Detail: out.Tail}
	}
	out.Result = stdout.buf.Bytes()
	return out, nil
}

// marks are the variables by which the processes of one attempt are found
// again; a machine may run several terminals, and somebody may try a program out with
// the task that one of them is at.
func marks(order Order) []string {
	return []string{EnvTask + "=" + order.TaskID, EnvAttempt + "=" + strconv.Itoa(order.Attempt),
		EnvStore + "=" + order.StoreID, EnvTerminal + "=" + order.TerminalID, EnvTrial + "=" + order.Trial}
}

// waitTree waits for the program. When ctx ends it asks the whole tree to end,
// and kills it after a grace. Whatever the program left running is killed too.
func waitTree(ctx context.Context, cmd *exec.Cmd, tree *processTree, order Order) error {
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		tree.terminate()
		grace := time.NewTimer(termGrace)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C:
			tree.kill(marks(order))
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-stopped
	tree.kill(marks(order))
	tree.release()
	return err
}

// bounded keeps up to most bytes and calls full once when there are more.
type bounded struct {
	buf  bytes.Buffer
	most int
	full func()
}

// Write swallows what is over the limit: the program is being ended.
func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) <= b.most {
		return b.buf.Write(p)
	}
	b.full()
	return len(p), nil
}
