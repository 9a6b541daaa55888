package cli

// AuditCommand is the command as it is registered.
var AuditCommand = auditCommand
