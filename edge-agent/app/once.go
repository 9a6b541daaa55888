package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"muster/edge-agent/internal/agent"
	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/executor"
	"muster/internal/protocol"
)

// Ended is how a single execution ended.
type Ended struct {
	protocol.Result
	TimeLimit bool `json:"-"` // it was ended because its time was over
}

// RunOnce executes one task with the executor that the agent would use, and judges
// its end as the agent does. It asks nobody and keeps nothing. task is an offer, of
// which type and input suffice: {"type":"collect_log","input":{}}. The error says
// why nothing was executed.
func RunOnce(ctx context.Context, cfg *Config, task []byte, log *slog.Logger) (Ended, error) {
	offer := protocol.Offer{TypeVersion: 1}
	if err := protocol.Decode(task, protocol.MaxPayloadBytes, &offer); err != nil {
		return Ended{}, fmt.Errorf("cannot read the task: %w; write an object such as {\"type\":\"collect_log\",\"input\":{}}", err)
	}
	order, limit, err := orderOf(cfg, offer)
	if err != nil {
		return Ended{}, err
	}
	jobs, err := newJobs(cfg)
	if err != nil {
		return Ended{}, err
	}
	job, there := jobs[protocol.JobVersion{Type: order.Type, Version: order.Version}]
	if !there {
		return Ended{}, fmt.Errorf("this terminal has no executor for %s version %d; add it under executors in its configuration", order.Type, order.Version)
	}
	limited, stop := context.WithTimeoutCause(ctx, limit, ending.ErrTimeLimit)
	defer stop()
	began := time.Now()
	answer, cause := agent.Perform(limited, job, order, log)
	ended := time.Now()
	done := Ended{Result: answer.Frame, TimeLimit: errors.Is(cause, ending.ErrTimeLimit)}
	if ctx.Err() != nil && done.Outcome == protocol.AnswerFailed {
		done.Outcome = protocol.AnswerCancelled // by whoever runs it
	}
	done.StartedAt, done.FinishedAt, done.DurationMs, done.Executed = began.UnixMilli(), ended.UnixMilli(), ended.Sub(began).Milliseconds(), true
	return done, nil
}

func orderOf(cfg *Config, offer protocol.Offer) (executor.Order, time.Duration, error) {
	switch {
	case !protocol.ValidID(offer.Type):
		return executor.Order{}, 0, fmt.Errorf("cannot run the task: its type %q is no job's name", offer.Type)
	case offer.RunTimeoutMs < 0:
		return executor.Order{}, 0, fmt.Errorf("cannot run the task: runTimeoutMs is %d, must be 0 (the usual limit) or more", offer.RunTimeoutMs)
	}
	order := executor.Order{TaskID: offer.TaskID, Attempt: max(offer.Attempt, 1), StoreID: cfg.Store, TerminalID: cfg.Terminal, Trial: strconv.Itoa(os.Getpid()),
		Type: offer.Type, Version: offer.TypeVersion, Input: offer.Input, ScheduledFor: offer.ScheduledFor.Time}
	if order.TaskID == "" {
		order.TaskID = "run-once"
	}
	if order.Input == nil {
		order.Input = []byte("{}")
	}
	if order.ScheduledFor.IsZero() {
		order.ScheduledFor = time.Now()
	}
	limit := agent.UsualLimit
	if offer.RunTimeoutMs > 0 {
		limit = protocol.Span(offer.RunTimeoutMs)
	}
	return order, limit, nil
}
