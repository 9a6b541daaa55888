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

// HashAny hashes a password that HashPassword refuses.
func HashAny(password string) (string, error) { return hashPassword([]byte(password)) }

// FillQueue takes every place of those that wait for hashing until the function
// it returns is called.
func (v *Verifier) FillQueue() (release func()) {
	for range cap(v.queue) {
		v.queue <- struct{}{}
	}
	return func() {
		for range cap(v.queue) {
			<-v.queue
		}
	}
}

// Trials is how many hashes CheckPasswords costs.
func (b *Book) Trials() int { return len(b.trials()) }
