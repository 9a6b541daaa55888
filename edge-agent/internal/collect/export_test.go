package collect

// OnRead calls f after each file that c reads, with its path.
func OnRead(c *Collector, f func(path string)) { c.onRead = f }

// StartOfDay is startOfDay.
var StartOfDay = startOfDay
