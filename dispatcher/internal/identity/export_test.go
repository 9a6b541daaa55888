package identity

// Made are the rotations that are remembered.
func (id *Identity) Made() []Rotated { return id.rotations() }
