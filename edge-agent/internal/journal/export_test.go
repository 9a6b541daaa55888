package journal

// Exclusive has the journal close its file before it replaces it, as on Windows.
func (j *Journal) Exclusive() { j.exclusive = true }
