package cli

// The commands on headquarters' database.
var (
	BackupCommand  = backupCommand
	RestoreCommand = restoreCommand
)
