package durable

// SyncFolder does nothing: Windows cannot flush a folder handle, and NTFS
// journals renames itself.
func SyncFolder(string) error { return nil }
