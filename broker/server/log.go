package server

import (
	"context"
	"log/slog"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// quiet is a slog.Handler for the MQTT library: it drops whole packets and
// wills, which carry payloads and passwords, and takes its chatter down one
// level, because a client's fault is not a fault of ours.
type quiet struct{ next slog.Handler }

func quieter(logger *slog.Logger) *slog.Logger {
	return slog.New(quiet{logger.Handler()})
}

func lower(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return level
	}
	return level - 4 // the distance between two levels of slog
}

func (h quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, lower(level))
}

func (h quiet) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, lower(r.Level), r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if !secret(a) {
			clean.AddAttrs(a)
		}
		return true
	})
	return h.next.Handle(ctx, clean)
}

func (h quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	var kept []slog.Attr
	for _, a := range attrs {
		if !secret(a) {
			kept = append(kept, a)
		}
	}
	return quiet{h.next.WithAttrs(kept)}
}

func (h quiet) WithGroup(name string) slog.Handler { return quiet{h.next.WithGroup(name)} }

func secret(a slog.Attr) bool {
	switch a.Value.Any().(type) {
	case packets.Packet, *packets.Packet, mqtt.Will, *mqtt.Will, packets.ConnectParams:
		return true
	}
	return false
}
