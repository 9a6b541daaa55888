package journal

// Exclusive has the journal close its file before it replaces it, as on Windows.
func (j *Journal) Exclusive() { j.exclusive = true }

// Gap reports whether lines were lost or moved, or the file was missing.
func (j *Journal) Gap() bool { return j.gap }
