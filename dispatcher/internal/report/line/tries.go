package line

import (
	"muster/internal/protocol"
	"muster/internal/task"
)

// Many is above how many stores a report tells the attempts of a store one by one only
// where its row does not tell them.
const Many = 10_000

// Unfolds reports whether a report of so many stores tells the attempts of the store one
// by one. It needs the row up to its evidence.
func Unfolds(targets int, row *protocol.StoreRow) bool {
	return targets <= Many || row.Outcome != task.OutcomeSucceeded || row.Evidence.Attempts > 1
}

// Tries are the row's attempts, valid as long as the row; where it lists none, the one that
// it tells itself.
func Tries(row *protocol.StoreRow) []protocol.Try {
	e := &row.Evidence
	if len(row.Tries) > 0 || row.Attempt == 0 || e.GrantedAt.IsZero() {
		return row.Tries
	}
	try := protocol.Try{Attempt: row.Attempt, TerminalID: row.TerminalID, GrantedAt: e.GrantedAt, StartedAt: e.StartedAt, EndedAt: row.FinishedAt,
		SHA256: row.SHA256, Bytes: row.Bytes}
	switch row.Status {
	case task.Succeeded:
		try.Answer = protocol.AnswerSucceeded
	case task.Failed:
		try.Answer = protocol.AnswerFailed
	case task.Cancelled:
		try.Answer = protocol.AnswerCancelled
	case task.Pending, task.Running:
	}
	if row.Error != nil {
		try.Code, try.Message = row.Error.Code, row.Error.Message
	}
	return []protocol.Try{try}
}
