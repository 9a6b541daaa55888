// Package durability judges, from the system calls that a program made, whether
// what it says had been made durable before: it reads traces and knows the wire
// and the names of files, and nothing inside a program.
package durability

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/tests/chaos/strace"
)

// Packet is one MQTT packet that a program sent, from the call with its first
// byte.
type Packet struct {
	Call    strace.Call
	Conn    string
	Type    byte // of the packets package
	Topic   string
	ID      uint16
	Payload string
}

// Sent takes apart what was written to each connection, in the order of calls.
func Sent(calls []strace.Call) ([]Packet, error) {
	var sent []Packet
	left := map[string][]byte{} // connection: an unfinished packet
	from := map[string]strace.Call{}
	for _, c := range calls {
		conn := c.Path()
		if c.Name != "write" && c.Name != "writev" || !strings.HasPrefix(conn, "TCP:") {
			continue
		}
		if len(left[conn]) == 0 {
			from[conn] = c
		}
		rest := slices.Concat(left[conn], c.Data())
		for {
			pk, length, err := first(rest)
			if err != nil {
				return nil, fmt.Errorf("cannot read a packet at line %d: %w", c.Begin, err)
			}
			if length == 0 {
				break
			}
			pk.Call, pk.Conn = from[conn], conn
			sent, rest, from[conn] = append(sent, pk), rest[length:], c
		}
		left[conn] = rest
	}
	return sent, nil
}

// first decodes the packet with which data begins; length is 0 when it is not
// all there.
func first(data []byte) (out Packet, length int, err error) {
	if len(data) < 2 {
		return Packet{}, 0, nil
	}
	pk := packets.Packet{ProtocolVersion: 5}
	if err := pk.FixedHeader.Decode(data[0]); err != nil {
		return Packet{}, 0, err
	}
	body, used, err := packets.DecodeLength(bytes.NewReader(data[1:]))
	if length = 1 + used + body; err != nil || len(data) < length {
		return Packet{}, 0, nil //nolint:nilerr // the length itself is not all there
	}
	out.Type = pk.FixedHeader.Type
	pk.FixedHeader.Remaining = body
	switch raw := data[1+used : length]; out.Type {
	case packets.Publish:
		err = pk.PublishDecode(raw)
		out.Topic, out.ID, out.Payload = pk.TopicName, pk.PacketID, string(pk.Payload)
	case packets.Puback:
		err = pk.PubackDecode(raw)
		out.ID = pk.PacketID
	}
	return out, length, err
}

// Order is one promise: what Change did to the file was synced, by Sync, before
// any of Then began.
type Order struct {
	What         string
	Change, Sync func(strace.Call) bool
	Then         []strace.Call
}

// Broken says how the order was not kept, and "" when it was. Nothing to judge
// breaks it too.
func (o Order) Broken(calls []strace.Call) string {
	var change, sync *strace.Call
	for i, c := range calls {
		switch {
		case change == nil && c.OK() && o.Change(c):
			change = &calls[i]
		case change != nil && sync == nil && c.Begin > change.End && c.OK() && o.Sync(c):
			sync = &calls[i]
		}
	}
	switch {
	case change == nil:
		return o.What + ": it was never written"
	case sync == nil:
		return o.What + ": it was never synced"
	case len(o.Then) == 0:
		return o.What + ": nothing followed"
	}
	for _, then := range o.Then {
		if then.Begin <= sync.End {
			return fmt.Sprintf("%s: written at line %d and synced at line %d, but line %d was before: %s %.120s",
				o.What, change.Begin, sync.End, then.Begin, then.Name, then.Args)
		}
	}
	return ""
}

// Writes matches a call of that name on a file whose path ends so, with data
// that holds the text.
func Writes(name, ending, text string) func(strace.Call) bool {
	return func(c strace.Call) bool {
		return c.Name == name && strings.HasSuffix(c.Path(), ending) && strings.Contains(string(c.Data()), text)
	}
}

// Syncs matches an fsync or fdatasync of a file whose path ends so.
func Syncs(ending string) func(strace.Call) bool {
	return func(c strace.Call) bool {
		return (c.Name == "fsync" || c.Name == "fdatasync") && strings.HasSuffix(c.Path(), ending)
	}
}

// Renames matches the rename to a name that ends so.
func Renames(ending string) func(strace.Call) bool {
	return func(c strace.Call) bool {
		return strings.HasPrefix(c.Name, "rename") && strings.HasSuffix(string(c.Data()), ending)
	}
}

// Calls are the calls of those packets that match.
func Calls(sent []Packet, match func(Packet) bool) (calls []strace.Call) {
	for _, pk := range sent {
		if match(pk) {
			calls = append(calls, pk.Call)
		}
	}
	return calls
}
