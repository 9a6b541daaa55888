package durable

import "golang.org/x/sys/windows"

// mediumErrors say that the disk is full, over a quota, read-only, or fails.
var mediumErrors = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
	windows.ERROR_WRITE_PROTECT, windows.ERROR_IO_DEVICE}
