package store

// InUse is the number of read connections that are not given back.
func (s *Store) InUse() int { return s.db.Readers().InUse() + s.db.Streams().InUse() }
