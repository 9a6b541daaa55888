package roster

// Known is the register as it was last read.
type Known struct{ known }

// Get is what ListPlaces asks first.
func (k *Known) Get() (places []Place, change int) { return k.get() }

// Keep is what it does with what it read.
func (k *Known) Keep(places []Place, change int) { k.keep(places, change) }

// Forget is what ReplacePlaces does.
func (k *Known) Forget() { k.forget() }
