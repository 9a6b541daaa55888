package barrier

// Post has the loop run f.
func (b *Barrier) Post(f func()) { b.post(f) }
