package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"muster/tests/chaos/history"
)

// ledger is the history of everybody in this process: one file an epoch.
type ledger struct {
	folder string
	calls  atomic.Int64
	lines  atomic.Int64

	mu    sync.RWMutex
	epoch int
	out   *history.Shared
}

func newLedger(folder string) (*ledger, error) {
	l := &ledger{folder: folder, epoch: -1}
	return l, l.turn()
}

// of is the folder of an epoch's history.
func (l *ledger) of(epoch int) string { return filepath.Join(l.folder, fmt.Sprintf("epoch-%d", epoch)) }

// turn ends the epoch's file and begins the next one.
func (l *ledger) turn() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		if err := l.out.Close(); err != nil {
			return err
		}
	}
	l.epoch++
	if err := os.MkdirAll(l.of(l.epoch), 0o700); err != nil {
		return err
	}
	out, err := history.CreateShared(l.of(l.epoch), fmt.Sprintf("soak-%d", l.epoch))
	l.out = out
	return err
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		return nil
	}
	return errors.Join(l.out.Close(), func() error { l.out = nil; return nil }())
}

// errOver: the participant goes on after the end.
var errOver = errors.New("the history is over")

func (l *ledger) write(who history.Participant, line history.Line) (history.Line, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.out == nil {
		return line, errOver
	}
	l.lines.Add(1)
	return l.out.Write(who, line)
}

// scribe writes for one participant. It is a fleet.Recorder.
type scribe struct {
	ledger *ledger
	who    history.Participant
}

func (s scribe) write(line history.Line) error {
	_, err := s.ledger.write(s.who, line)
	return err
}

// Sent notes a message before it leaves.
func (s scribe) Sent(topic string, payload []byte, retained bool) error {
	return s.write(history.Line{Act: history.ActSent, Topic: topic, Payload: string(payload), Retained: retained})
}

// Got notes a message before anything follows from it.
func (s scribe) Got(topic string, payload []byte, retained bool) error {
	return s.write(history.Line{Act: history.ActGot, Topic: topic, Payload: string(payload), Retained: retained})
}

// Subscribed notes a subscription before it leaves.
func (s scribe) Subscribed(filter string) error {
	return s.write(history.Line{Act: history.ActSubscribed, Topic: filter})
}

// Connected notes that the way to the broker is there, or is gone.
func (s scribe) Connected(on bool) error {
	if on {
		return s.write(history.Line{Act: history.ActConnected})
	}
	return s.write(history.Line{Act: history.ActDisconnected})
}

func (s scribe) executed(task string, attempt int) error {
	return s.write(history.Line{Act: history.ActExecuted, Task: task, Attempt: attempt, PID: os.Getpid()})
}

func (s scribe) looked(name string, content []byte) error {
	sum := sha256.Sum256(content)
	return s.write(history.Line{Act: history.ActLooked, Name: name, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content))})
}

// fault returns the line as it was written: its time is a boundary of an epoch.
func (s scribe) fault(name string, on bool) (history.Line, error) {
	return s.ledger.write(s.who, history.Line{Act: history.ActFault, Name: name, On: on})
}

func (s scribe) sampled(name string, pid int, sample history.Sample) error {
	return s.write(history.Line{Act: history.ActSampled, Name: name, PID: pid, Sample: &sample})
}

func (s scribe) asked(topic string, payload []byte) (answered func(history.Outcome, []byte) error, err error) {
	call := s.ledger.calls.Add(1)
	s.ledger.mu.RLock()
	epoch := s.ledger.epoch
	s.ledger.mu.RUnlock()
	err = s.write(history.Line{Act: history.ActAsked, Call: call, Topic: topic, Payload: string(payload)})
	return func(outcome history.Outcome, reply []byte) error {
		s.ledger.mu.RLock()
		same := epoch == s.ledger.epoch
		s.ledger.mu.RUnlock()
		if !same { // its answer came across a restore: unknown
			return nil
		}
		return s.write(history.Line{Act: history.ActAnswered, Call: call, Topic: topic, Outcome: outcome, Payload: string(reply)})
	}, err
}
