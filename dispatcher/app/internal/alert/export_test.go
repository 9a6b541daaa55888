package alert

import "time"

// Bans are the ends of bans that are waited for.
type Bans struct{ bans }

// End calls tell after a time.
func (b *Bans) End(subject string, after time.Duration, tell func()) { b.end(subject, after, tell) }

// Stop returns when nothing more is called.
func (b *Bans) Stop() { b.stop() }
