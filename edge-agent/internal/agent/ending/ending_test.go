package ending_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/executor"
	"muster/internal/protocol"
)

func TestTheEndOfAnExecutionDecidesTheAnswer(t *testing.T) {
	t.Parallel()
	killed := errors.New("signal: killed")
	for name, c := range map[string]struct {
		output  executor.Output
		err     error
		cause   error
		outcome protocol.Answer
		code    protocol.Code
	}{
		"a result":                  {output: executor.Output{Result: []byte(`{"n":1}`)}, outcome: protocol.AnswerSucceeded},
		"a result despite a cancel": {output: executor.Output{Result: []byte(`{}`)}, cause: ending.ErrCancelled, outcome: protocol.AnswerSucceeded},
		"no object":                 {output: executor.Output{Result: []byte(`[1]`)}, outcome: protocol.AnswerFailed, code: protocol.CodeExecution},
		"no JSON":                   {output: executor.Output{Result: []byte(`ok`)}, cause: ending.ErrCancelled, outcome: protocol.AnswerFailed, code: protocol.CodeExecution},
		"a failure":                 {err: killed, outcome: protocol.AnswerFailed, code: protocol.CodeExecution},
		"cancelled":                 {err: killed, cause: ending.ErrCancelled, outcome: protocol.AnswerCancelled, code: protocol.CodeCancelled},
		"the time limit":            {err: killed, cause: ending.ErrTimeLimit, outcome: protocol.AnswerFailed, code: protocol.CodeTimeLimit},
	} {
		answer := ending.Judge(executor.Order{TaskID: "t", Attempt: 2}, c.output, c.err, c.cause)
		if answer.Attempt != 2 || answer.Frame.Outcome != c.outcome {
			t.Errorf("%s: attempt %d is %s, want 2, %s", name, answer.Attempt, answer.Frame.Outcome, c.outcome)
		}
		var failure protocol.Failure
		if c.code != "" {
			if err := json.Unmarshal(answer.Frame.Error, &failure); err != nil {
				t.Errorf("%s: the failure cannot be read: %v", name, err)
			}
		}
		if failure.Code != c.code {
			t.Errorf("%s: code %q, want %q", name, failure.Code, c.code)
		}
	}
}

func TestNoSecretLeavesInAnAnswer(t *testing.T) {
	t.Parallel()
	err := &executor.Error{Message: "login with password=hunter2 failed", Detail: "token: hunter2"}
	failed := ending.Judge(executor.Order{}, executor.Output{Tail: "password=hunter2"}, err, nil)
	succeeded := ending.Judge(executor.Order{}, executor.Output{Result: []byte(`{"password":"hunter2"}`)}, nil, nil)
	for _, frame := range []protocol.Result{failed.Frame, succeeded.Frame} {
		text, err := json.Marshal(frame)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), "[redacted]") {
			t.Errorf("the answer is %s", text)
		}
	}
}
