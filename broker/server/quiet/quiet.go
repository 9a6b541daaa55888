// Package quiet makes the log of the MQTT library fit for ours. It must let
// neither a payload nor a password through.
package quiet

import (
	"context"
	"log/slog"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Logger returns the library's logger: it writes to next, drops whole packets and
// wills, which carry payloads and passwords, and takes the library's chatter down
// one level, because a client's fault is not a fault of ours.
func Logger(next *slog.Logger) *slog.Logger {
	return slog.New(handler{next.Handler()})
}

type handler struct{ next slog.Handler }

func lower(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return level
	}
	return level - 4 // the distance between two levels of slog
}

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, lower(level))
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, lower(r.Level), r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if !secret(a) {
			clean.AddAttrs(a)
		}
		return true
	})
	return h.next.Handle(ctx, clean)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var kept []slog.Attr
	for _, a := range attrs {
		if !secret(a) {
			kept = append(kept, a)
		}
	}
	return handler{h.next.WithAttrs(kept)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.next.WithGroup(name)} }

func secret(a slog.Attr) bool {
	switch a.Value.Any().(type) {
	case packets.Packet, *packets.Packet, mqtt.Will, *mqtt.Will, packets.ConnectParams:
		return true
	}
	return false
}
