package auditor

// Passes reports whether what stands in the way of the heads may end by itself.
func Passes(err error) bool { return passes(err) }
