//go:build linux || darwin || freebsd

package quarantine

import (
	"os"
	"syscall"
)

// mapped is the file's content as memory; nil when the system refuses.
func mapped(name string, size int) (memory []byte, unmap func() error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = file.Close() }() // the mapping stays
	memory, err = syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil
	}
	return memory, func() error { return syscall.Munmap(memory) }
}
