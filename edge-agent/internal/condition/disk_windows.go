package condition

import "golang.org/x/sys/windows"

func diskFreeMB(folder string) *int64 {
	path, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return nil
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, nil, nil); err != nil {
		return nil
	}
	free := int64(available >> 20)
	return &free
}
