package protocol

import "fmt"

// Code is a stable refusal code. Codes are never renamed or reused.
type Code string

// The codes of replies to technicians.
const (
	CodeEmptyPayload    Code = "EMPTY_PAYLOAD"
	CodeBadJSON         Code = "BAD_JSON"
	CodeSchema          Code = "SCHEMA"
	CodeUnknownJob      Code = "UNKNOWN_JOB"
	CodeUnknownStore    Code = "UNKNOWN_STORE"
	CodeNoTargets       Code = "NO_TARGETS"
	CodeNotAllowed      Code = "NOT_ALLOWED"
	CodeNeedsApproval   Code = "NEEDS_APPROVAL"
	CodeRateLimited     Code = "RATE_LIMITED"
	CodeConflict        Code = "CONFLICT"
	CodeRetainedCommand Code = "RETAINED_COMMAND"
	CodeExpired         Code = "EXPIRED"
	CodeTooLarge        Code = "TOO_LARGE"
	CodeShuttingDown    Code = "SHUTTING_DOWN"
	CodeInternal        Code = "INTERNAL"
)

// The codes of orders (deny, receipt) and of failed attempts.
const (
	// CodeNotFound: headquarters knows no such task or run.
	CodeNotFound Code = "NOT_FOUND"
	// CodeSettled: the task is over; the terminal drops it.
	CodeSettled Code = "SETTLED"
	// CodeTaken: another terminal of the store runs it.
	CodeTaken Code = "TAKEN"
	// CodeNotYet: a retry is not due; retryAfterMs says when to ask.
	CodeNotYet Code = "NOT_YET"
	// CodeStale: a message of an attempt that is no longer the current one.
	CodeStale Code = "STALE"
	// CodeLate: it came after the barrier and the job's policy does not take it.
	CodeLate Code = "LATE"
	// CodeInvalidResult: the result breaks the job's output schema.
	CodeInvalidResult Code = "INVALID_RESULT"
	// CodeInterrupted: the terminal stopped in the middle of an execution.
	CodeInterrupted Code = "INTERRUPTED"
	// CodeTimeLimit: the execution outlasted runTimeoutMs and was killed.
	CodeTimeLimit Code = "TIME_LIMIT"
	// CodeExecution: the executor ended with an error.
	CodeExecution Code = "EXECUTION"
	// CodeRefused: the terminal cannot do the task (type, version, condition).
	CodeRefused Code = "REFUSED"
	// CodeCancelled: the attempt was stopped by a cancel order.
	CodeCancelled Code = "CANCELLED"
	// CodeLeaseExpired: the attempt was silent for longer than its lease.
	CodeLeaseExpired Code = "LEASE_EXPIRED"
	// CodeBadHash: the sha256 does not fit the bytes it names.
	CodeBadHash Code = "BAD_HASH"
	// CodeWrongOffer: the result answers an offer that headquarters never made.
	CodeWrongOffer Code = "WRONG_OFFER"
)

// Error is a refusal that crosses a wire: a stable code, a human sentence
// and what to do about it, both in two languages. Path is a JSON Pointer into the
// refused document, "" when the whole is meant.
type Error struct {
	Code      Code
	Message   string
	MessageZh string
	Hint      string
	HintZh    string
	Path      string
}

// Error gives code, place and sentence.
func (e *Error) Error() string {
	if e.Path != "" {
		return fmt.Sprintf("%s at %s: %s", e.Code, e.Path, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}
