// Package progress lets long work say how far it is to whoever wants to know, through
// its context. Nobody has to listen, and what is said changes nothing.
package progress

import "context"

// Listener hears of a step by its name, which is words for people: how much of it is
// done, and of how much in all, 0 when that is not known. It is called by many
// goroutines, often, and returns at once.
type Listener func(step string, done, total int64)

type key struct{}

// Heard returns a context under which work is heard.
func Heard(ctx context.Context, by Listener) context.Context {
	return context.WithValue(ctx, key{}, by)
}

// Of returns who listens, nil when nobody does, so that nothing need be counted.
func Of(ctx context.Context) Listener {
	by, _ := ctx.Value(key{}).(Listener)
	return by
}

// Say tells who listens, if anybody.
func Say(ctx context.Context, step string, done, total int64) {
	if by := Of(ctx); by != nil {
		by(step, done, total)
	}
}
