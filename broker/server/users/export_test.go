package users

// OccupyAll takes every slot for hashing until the function it returns is
// called.
func (v *Verifier) OccupyAll() (release func()) {
	for range cap(v.slots) {
		v.slots <- struct{}{}
	}
	return func() {
		for range cap(v.slots) {
			<-v.slots
		}
	}
}
