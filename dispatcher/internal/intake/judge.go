package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// maxMessage and maxDetail bound what a failure may say, in bytes.
	maxMessage = 1 << 10
	maxDetail  = 4 << 10
)

// fault is why an answer is refused: Code of the receipt, a JSON Pointer into
// the result, and a sentence.
type fault struct {
	code    protocol.Code
	path    string
	message string
}

// verdict is what headquarters makes of an answer: what to commit, and the
// fault if the receipt refuses it.
type verdict struct {
	answer store.Answer
	fault  *fault
}

// judge decides what one answer of the running attempt means. It commits
// nothing. The answer is judged as it came; what is stored of it is free of
// secrets, while its hash stays that of what was sent, which its terminal knows
// it by.
func (i *Intake) judge(a arrival, t store.Task, run frozen, spec job.Spec, now time.Time) verdict {
	m, c := a.message, cleaner{}
	answer := store.Answer{Attempt: store.Attempt{
		TaskID: t.TaskID, Attempt: m.Attempt, StoreID: a.who.store, TerminalID: a.who.id,
		TerminalFrom: moment(m.StartedAt), TerminalTo: moment(m.FinishedAt),
		Duration: protocol.Span(max(m.DurationMs, 0)),
		Answer:   m.Outcome, Executed: m.Executed, ExitCode: m.ExitCode,
		OutputTail: lastBytes(c.text(m.OutputTail), protocol.MaxOutputTailBytes),
		SHA256:     a.hash(), Bytes: int64(len(m.Result)),
	}}
	f := a.fault
	if f == nil {
		f = i.inspect(a, spec, func() string { return run.offerHash(t) })
	}
	switch {
	case f != nil:
		f, c = c.fault(f), cleaner{} // what they repeat is counted in the payload
		answer.Attempt.Failure = &protocol.Failure{Code: f.code, Message: f.message, Path: f.path}
		answer.Rejected = bytes.Clone(c.document(a.payload))
		answer.Reason = task.ReasonInvalidResult
		if m.Outcome != protocol.AnswerFailed {
			answer.Attempt.Answer = protocol.AnswerSucceeded // what it claims to be
		}
		answer.Event, answer.RetryAt = afterFailure(t, run.policy, now, true)
	case m.Outcome == protocol.AnswerSucceeded:
		answer.Event = task.Succeed
		answer.Attempt.Result = c.scanned(a.result)
		answer.Attempt.Columns = run.columns.Extract(answer.Attempt.Result)
	default:
		failure := failureOf(m, &c)
		answer.Attempt.Failure = &failure
		answer.Reason = reasonOf(failure.Code)
		answer.Event, answer.RetryAt = afterFailure(t, run.policy, now, mayRetry(failure.Code, run.policy))
	}
	answer.Attempt.Redacted = c.places
	return verdict{answer: answer, fault: f}
}

// afterFailure tells whether a failed attempt is followed by another one.
func afterFailure(t store.Task, p job.Policy, now time.Time, again bool) (task.Event, time.Time) {
	if !again || t.State.Attempt >= t.Attempts {
		return task.GiveUp, time.Time{}
	}
	return task.Fail, now.Add(p.RetryDelay(t.Used()))
}

func mayRetry(code protocol.Code, p job.Policy) bool {
	switch code {
	case protocol.CodeRefused:
		return false
	case protocol.CodeInterrupted:
		return p.RetryInterrupted
	default:
		return true
	}
}

func reasonOf(code protocol.Code) task.Reason {
	if code == protocol.CodeRefused {
		return task.ReasonRefusedByTerminal
	}
	return task.ReasonExecutionError
}

// inspect checks the offer, shape, size, hash and schema, in this order: the
// cheap before the dear. offer returns the hash of the task's offer.
func (i *Intake) inspect(a arrival, spec job.Spec, offer func() string) *fault {
	m := a.message
	if f := i.answersOffer(m, offer); f != nil {
		return f
	}
	switch m.Outcome {
	case protocol.AnswerSucceeded:
	case protocol.AnswerFailed, protocol.AnswerCancelled:
		if len(m.Error) > 0 && m.SHA256 != "" && m.SHA256 != a.hash() {
			return badHash("error")
		}
		return nil
	default:
		return &fault{protocol.CodeInvalidResult, "", fmt.Sprintf("outcome is %.40q; it must be succeeded, failed or cancelled", m.Outcome)}
	}
	switch {
	case len(m.Result) == 0:
		return &fault{protocol.CodeInvalidResult, "", "result is missing"}
	case len(m.Result) > protocol.MaxResultBytes:
		return tooLarge(int64(len(m.Result)))
	case m.SHA256 != a.hash():
		return badHash("result")
	}
	return i.validate(a, spec)
}

// answersOffer checks that the terminal executed what headquarters offered.
// Nothing is demanded of an attempt that never started.
func (i *Intake) answersOffer(m protocol.Result, offer func() string) *fault {
	switch {
	case m.OfferSHA256 == "" && i.cfg.DemandOffer && m.Executed:
		return &fault{protocol.CodeWrongOffer, "/offerSha256", "offerSha256 is missing; it must name the offer that was executed"}
	case m.OfferSHA256 != "" && m.OfferSHA256 != offer():
		return &fault{protocol.CodeWrongOffer, "/offerSha256", "offerSha256 names another offer than headquarters made for this task"}
	}
	return nil
}

// validate checks a result against its job's schema. Whatever makes the
// validator panic is invalid: a device must not end headquarters.
func (i *Intake) validate(a arrival, spec job.Spec) (f *fault) {
	defer func() {
		if cause := recover(); cause != nil {
			i.stats.panicked.Add(1)
			i.log.Error("a result made the validator panic", "job", spec.Name, "sha256", a.hash(), "cause", legible(fmt.Append(nil, cause)))
			f = &fault{protocol.CodeInvalidResult, "", "it cannot be checked against the job's output schema"}
		}
	}()
	err := spec.Output.ValidateScanned(a.result)
	if err == nil {
		return nil
	}
	var refusal *protocol.Error
	if errors.As(err, &refusal) {
		return &fault{protocol.CodeInvalidResult, refusal.Path, firstBytes(refusal.Message, maxMessage)}
	}
	return &fault{protocol.CodeInvalidResult, "", firstBytes(err.Error(), maxMessage)}
}

func tooLarge(size int64) *fault {
	return &fault{protocol.CodeInvalidResult, "",
		fmt.Sprintf("the result has %d bytes; at most %d are taken", size, protocol.MaxResultBytes)}
}

func badHash(of string) *fault {
	return &fault{protocol.CodeBadHash, "", "sha256 is not the digest of the bytes of " + of}
}

// unreadableResult turns a refusal of the whole payload into one of the result
// in it.
func unreadableResult(e *protocol.Error) *fault {
	return &fault{protocol.CodeInvalidResult, strings.TrimPrefix(e.Path, "/result"), firstBytes(e.Message, maxMessage)}
}

// faultOf is the fault with which a stored answer was refused, nil if it was
// accepted.
func faultOf(known store.Attempt) *fault {
	f := known.Failure
	if f == nil {
		return nil
	}
	switch f.Code {
	case protocol.CodeInvalidResult, protocol.CodeBadHash, protocol.CodeWrongOffer:
	default:
		return nil
	}
	return &fault{f.Code, f.Path, f.Message}
}

// failureOf reads why an attempt failed. A terminal may say only what a
// terminal can know; anything else is an execution error. Secrets go before it
// is cut: half of one looks like none.
func failureOf(m protocol.Result, c *cleaner) protocol.Failure {
	if m.Outcome == protocol.AnswerCancelled {
		// Headquarters knows of no cancel, so it was stopped by somebody else.
		return protocol.Failure{Code: protocol.CodeInterrupted, Message: "the terminal stopped the attempt"}
	}
	var f protocol.Failure
	if err := json.Unmarshal(m.Error, &f); err != nil || m.Error == nil {
		f = protocol.Failure{Message: "the terminal gave no readable error", Detail: string(c.document(m.Error))}
	}
	switch f.Code {
	case protocol.CodeExecution, protocol.CodeTimeLimit, protocol.CodeInterrupted, protocol.CodeRefused:
	default:
		f.Code = protocol.CodeExecution
	}
	f.Message, f.Detail, f.Path = firstBytes(c.text(f.Message), maxMessage), firstBytes(c.text(f.Detail), maxDetail), ""
	return f
}

// sent is what was sent, byte for byte: the result, the error, or the whole payload
// if neither can be told apart. It is nil for a result that was only announced.
func (a *arrival) sent() []byte {
	switch {
	case a.message.Outcome == protocol.AnswerSucceeded && len(a.message.Result) > 0:
		return a.message.Result
	case len(a.message.Error) > 0:
		return a.message.Error
	}
	return a.payload
}

// hash is the digest of what was sent, or the announced one.
func (a *arrival) hash() string {
	if a.sum == "" {
		if a.payload == nil {
			return a.message.SHA256
		}
		a.sum = hashOf(a.sent())
	}
	return a.sum
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func isHash(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return len(s) == hex.EncodedLen(sha256.Size)
}

// moment is a time of the terminal's clock; what no clock can say is no time.
func moment(ms int64) time.Time {
	const year3000 = 32_503_680_000_000
	if ms <= 0 || ms > year3000 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func firstBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

func lastBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	at := len(s) - most
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}
