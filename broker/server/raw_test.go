package server_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"muster/broker/server"
)

// raw speaks MQTT byte by byte, for what no client library would send.
type raw struct {
	net.Conn
	t *testing.T
}

func dial(t *testing.T, s *server.Server) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr("tcp").String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	return &raw{Conn: conn, t: t}
}

func str(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func frame(first byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	out := []byte{first}
	for n := len(body); ; {
		b := byte(n % 128)
		if n /= 128; n > 0 {
			b |= 0x80
		}
		out = append(out, b)
		if n == 0 {
			return append(out, body...)
		}
	}
}

func (r *raw) send(b []byte) {
	r.t.Helper()
	if _, err := r.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

// login connects with properties (version 5) or without (version 4), and
// returns the CONNACK's reason code.
func (r *raw) login(version byte, user, id string, properties ...byte) byte {
	r.t.Helper()
	props := []byte{}
	if version == 5 {
		props = append([]byte{byte(len(properties))}, properties...)
	}
	r.send(frame(0x10, str("MQTT"), []byte{version, 0x82, 0, 60}, props, str(id), str(user)))
	kind, body := r.read()
	if kind != 0x20 {
		r.t.Fatalf("got packet 0x%02x, not CONNACK", kind)
	}
	return body[1]
}

// read returns the next packet.
func (r *raw) read() (kind byte, body []byte) {
	r.t.Helper()
	kind, body, err := r.tryRead()
	if err != nil {
		r.t.Fatal(err)
	}
	return kind, body
}

func (r *raw) tryRead() (kind byte, body []byte, err error) {
	one := make([]byte, 1)
	if _, err := io.ReadFull(r, one); err != nil {
		return 0, nil, err
	}
	kind = one[0]
	size, shift := 0, 0
	for {
		if _, err := io.ReadFull(r, one); err != nil {
			return 0, nil, err
		}
		size |= int(one[0]&0x7f) << shift
		shift += 7
		if one[0]&0x80 == 0 {
			break
		}
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return kind, body, err
}

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// closed fails unless the broker ends the connection; it returns the reason of
// a DISCONNECT, or 0.
func (r *raw) closed() byte {
	r.t.Helper()
	var reason byte
	for {
		kind, body, err := r.tryRead()
		switch {
		case timedOut(err):
			r.t.Fatal("the connection is still open")
		case err != nil:
			return reason
		case kind == 0xe0 && len(body) > 0:
			reason = body[0]
		}
	}
}
