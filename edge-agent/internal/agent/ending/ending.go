// Package ending turns the way in which an execution ended into the answer that
// headquarters is given. It must not touch the outbox, the journal or the clock:
// the same end gives the same answer.
package ending

import (
	"encoding/json"
	"errors"
	"fmt"

	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/outbox"
	"muster/internal/protocol"
	"muster/internal/redact"
)

// Why an execution is ended from outside.
var (
	ErrCancelled = errors.New("cancelled by headquarters")
	ErrTimeLimit = errors.New("the time limit is over")
	ErrDropped   = errors.New("headquarters no longer has the task open")
	ErrStopping  = errors.New("the agent is stopping")
)

// maxMessage bounds the sentence of a failure; what is longer belongs into its
// detail.
const maxMessage = 1 << 10

// Lost is said when the disk lost what was to be said.
func Lost() protocol.Failure {
	return protocol.Failure{Code: protocol.CodeInterrupted, Message: "the attempt ended, but its stored answer was damaged"}
}

// Panicked is the answer when executing the order, or judging its end, panicked.
func Panicked(order executor.Order) outbox.Answer {
	answer := outbox.Answer{TaskID: order.TaskID, Attempt: order.Attempt,
		Frame: protocol.Result{TaskID: order.TaskID, Attempt: order.Attempt, Outcome: protocol.AnswerFailed}}
	Fail(&answer, protocol.Failure{Code: protocol.CodeExecution,
		Message: "the execution panicked, or the judging of its result; the terminal's log says where"})
	return answer
}

// Judge turns the end of an execution into an answer: what it gave, or err and the
// cause for which it was ended from outside. A result that came in spite of a
// cancel or the time limit is a result.
func Judge(order executor.Order, output executor.Output, err error, cause error) outbox.Answer {
	answer := outbox.Answer{TaskID: order.TaskID, Attempt: order.Attempt, Frame: protocol.Result{
		TaskID: order.TaskID, Attempt: order.Attempt, ExitCode: output.ExitCode, OutputTail: cut(withoutSecrets(output.Tail), protocol.MaxOutputTailBytes)}}
	if err == nil {
		var value []byte
		if value, err = checkResult(output.Result); err == nil {
			answer.Frame.Outcome, answer.Frame.Result = protocol.AnswerSucceeded, value
			answer.Seal()
			return answer
		}
		cause = nil
	}
	failure := protocol.Failure{Code: protocol.CodeExecution, Message: err.Error()}
	answer.Frame.Outcome = protocol.AnswerFailed
	switch {
	case errors.Is(cause, ErrCancelled):
		failure.Code, answer.Frame.Outcome = protocol.CodeCancelled, protocol.AnswerCancelled
	case errors.Is(cause, ErrTimeLimit):
		failure.Code = protocol.CodeTimeLimit
	}
	var detailed *executor.Error
	if errors.As(err, &detailed) {
		failure.Detail = detailed.Detail
	}
	Fail(&answer, failure)
	return answer
}

// checkResult gives the compact bytes of what an executor wrote, or says why
// they are no result. Secrets are blacked out; nothing is ever cut.
func checkResult(result json.RawMessage) (json.RawMessage, error) {
	// White space may go, so allow for some before judging the size.
	clean, err := protocol.Scan(result, 2*protocol.MaxResultBytes)
	if err != nil {
		return nil, fmt.Errorf("the executor's output is not a JSON document: %w", err)
	}
	if clean[0] != '{' {
		return nil, errors.New("the executor's output is not a JSON object")
	}
	value, err := protocol.Compact(clean)
	if err != nil {
		return nil, err
	}
	value, _ = redact.JSON(value)
	if len(value) > protocol.MaxResultBytes {
		return nil, fmt.Errorf("the result has %d bytes; at most %d are taken", len(value), protocol.MaxResultBytes)
	}
	return value, nil
}

// Fail makes the answer say why the attempt failed. Secrets are blacked out, and a
// text that is too long is cut.
func Fail(answer *outbox.Answer, failure protocol.Failure) {
	failure.Message = cut(withoutSecrets(failure.Message), maxMessage)
	failure.Detail = cut(withoutSecrets(failure.Detail), protocol.MaxOutputTailBytes)
	value, err := protocol.Encode(failure)
	if err != nil { // strings alone always encode
		value = []byte(`{"code":"EXECUTION","message":"unknown failure"}`)
	}
	answer.Frame.Error = value
	answer.Seal()
}

func withoutSecrets(text string) string {
	clean, _ := redact.Text(text)
	return clean
}

// cut gives at most most bytes of valid UTF-8.
func cut(s string, most int) string {
	s = executor.CleanUTF8(s)
	if len(s) > most {
		s = executor.CleanUTF8(s[:most])
	}
	return s
}
