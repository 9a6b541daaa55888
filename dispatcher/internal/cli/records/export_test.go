package records

// The commands, as they are registered.
var (
	AuditCommand  = auditCommand
	ReportCommand = reportCommand
)
