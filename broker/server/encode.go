package server

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// publishInto writes a PUBLISH as the library does, which looks each of thirty kinds
// of property up in two maps to find that it is not there. It returns false when an id
// is missing.
func publishInto(buf *bytes.Buffer, pk *packets.Packet) (ok bool) {
	if pk.FixedHeader.Qos > 0 && pk.PacketID == 0 {
		return false
	}
	properties := 0
	if pk.ProtocolVersion == 5 {
		properties = propertiesSize(pk)
	}
	size := 2 + len(pk.TopicName) + len(pk.Payload)
	if pk.FixedHeader.Qos > 0 {
		size += 2
	}
	if pk.ProtocolVersion == 5 {
		size += lengthSize(properties) + properties
	}
	pk.FixedHeader.Remaining = size
	buf.Grow(5 + size)
	pk.FixedHeader.Encode(buf)
	b := appendText(buf.AvailableBuffer(), pk.TopicName)
	if pk.FixedHeader.Qos > 0 {
		b = binary.BigEndian.AppendUint16(b, pk.PacketID)
	}
	if pk.ProtocolVersion == 5 {
		b = appendProperties(appendLength(b, properties), pk)
	}
	buf.Write(append(b, pk.Payload...))
	return true
}

// Identifiers of the properties of a PUBLISH (MQTT 5, 2.2.2.2).
const (
	propertyFormat      = 0x01
	propertyExpiry      = 0x02
	propertyContentType = 0x03
	propertyResponse    = 0x08
	propertyCorrelation = 0x09
	propertyIdentifier  = 0x0b
	propertyAlias       = 0x23
	propertyUser        = 0x26
)

// answerable reports whether a response topic goes along (MQTT 5, 3.3.2.3.5).
func answerable(pk *packets.Packet) bool {
	return pk.Properties.ResponseTopic != "" && !strings.ContainsAny(pk.Properties.ResponseTopic, "+#")
}

// propertiesSize is how long appendProperties is.
func propertiesSize(pk *packets.Packet) (n int) {
	p := &pk.Properties
	if p.PayloadFormatFlag {
		n += 1 + 1
	}
	if p.MessageExpiryInterval > 0 {
		n += 1 + 4
	}
	if p.ContentType != "" {
		n += 1 + 2 + len(p.ContentType)
	}
	if answerable(pk) {
		n += 1 + 2 + len(p.ResponseTopic)
	}
	if len(p.CorrelationData) > 0 {
		n += 1 + 2 + len(p.CorrelationData)
	}
	for _, id := range p.SubscriptionIdentifier {
		if id > 0 {
			n += 1 + lengthSize(id)
		}
	}
	if p.TopicAliasFlag && p.TopicAlias > 0 {
		n += 1 + 2
	}
	if !pk.Mods.DisallowProblemInfo {
		for _, u := range p.User {
			n += 1 + 2 + len(u.Key) + 2 + len(u.Val)
		}
	}
	return n
}

// appendProperties appends them in the library's order.
func appendProperties(b []byte, pk *packets.Packet) []byte {
	p := &pk.Properties
	if p.PayloadFormatFlag {
		b = append(b, propertyFormat, p.PayloadFormat)
	}
	if p.MessageExpiryInterval > 0 {
		b = binary.BigEndian.AppendUint32(append(b, propertyExpiry), p.MessageExpiryInterval)
	}
	if p.ContentType != "" {
		b = appendText(append(b, propertyContentType), p.ContentType)
	}
	if answerable(pk) {
		b = appendText(append(b, propertyResponse), p.ResponseTopic)
	}
	if len(p.CorrelationData) > 0 {
		b = binary.BigEndian.AppendUint16(append(b, propertyCorrelation), uint16(len(p.CorrelationData)))
		b = append(b, p.CorrelationData...)
	}
	for _, id := range p.SubscriptionIdentifier {
		if id > 0 {
			b = appendLength(append(b, propertyIdentifier), id)
		}
	}
	if p.TopicAliasFlag && p.TopicAlias > 0 {
		b = binary.BigEndian.AppendUint16(append(b, propertyAlias), p.TopicAlias)
	}
	if !pk.Mods.DisallowProblemInfo {
		for _, u := range p.User {
			b = appendText(appendText(append(b, propertyUser), u.Key), u.Val)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

// appendLength appends a variable byte integer (MQTT 5, 1.5.5).
func appendLength(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func lengthSize(n int) int {
	size := 1
	for ; n > 0x7f; n >>= 7 {
		size++
	}
	return size
}
