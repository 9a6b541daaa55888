package custody

// Held is a database file that is held.
type Held struct{ *Guard }

// HoldFile is for tests.
func HoldFile(path string) (Held, error) {
	g, err := newGuard(path)
	return Held{g}, err
}

// Fd is the open file.
func (h Held) Fd() uintptr { return h.file.Fd() }

// Release lets it go.
func (h Held) Release() error { return h.Close() }
