package sources

import (
	"context"
	"time"
)

// FindWithin is Find with bounds of the test's own.
func (g *Glob) FindWithin(ctx context.Context, limit, entries int, most time.Duration) (Found, error) {
	return g.find(ctx, limit, searchBounds{entries: entries, time: most})
}
