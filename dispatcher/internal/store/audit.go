package store

import (
	"context"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// AuditEntry is one line of the audit.
type AuditEntry = audit.Entry

// AuditHead is where the audit's chain ends.
type AuditHead = audit.Head

// AuditReport says how an audit's chain was found.
type AuditReport = audit.Report

// AuditFaultKind tells what is wrong with a chain.
type AuditFaultKind = audit.FaultKind

// The kinds of fault.
const (
	AuditEdited    = audit.FaultEdited
	AuditRemoved   = audit.FaultRemoved
	AuditBroken    = audit.FaultBroken
	AuditUnchained = audit.FaultUnchained
	AuditRewritten = audit.FaultRewritten
	AuditCut       = audit.FaultCut
)

// chainVersion is the schema version from which on the audit is a chain.
const chainVersion = 2

// VerifyAudit walks the audit in a database file and compares it with heads
// that were noted down before. It opens the file for reading only, takes no
// lock, and works beside a running dispatcher as on a copy. What is wrong
// stands in the report; the error says why it could not look.
func VerifyAudit(ctx context.Context, databasePath string, heads []AuditHead) (report AuditReport, err error) {
	err = sqlite.Look(ctx, databasePath, applicationID, chainVersion, func(q sqlite.Querier) error {
		report, err = audit.Verify(ctx, q, heads)
		return err
	})
	return report, err
}

// ReadAudit calls each with the entries since a time, of one actor unless that
// is empty, oldest first. It opens the file like VerifyAudit.
func ReadAudit(ctx context.Context, databasePath string, since time.Time, actor string, each func(AuditEntry) error) error {
	return sqlite.Look(ctx, databasePath, applicationID, chainVersion, func(q sqlite.Querier) error {
		return audit.List(ctx, q, sqlite.Millis(since), actor, each)
	})
}
