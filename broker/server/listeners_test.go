package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/gorilla/websocket"

	"muster/broker/server"
)

// certificate writes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER), pool
}

// roundTrip logs in over a connection and hears a message.
func roundTrip(t *testing.T, s *server.Server, conn net.Conn) {
	t.Helper()
	c, _, err := connectOver(t, packets.NewThreadSafeConn(conn), as("olga"))
	if err != nil {
		t.Fatal(err)
	}
	c.subscribe(root + "/runs/#")
	big := string(make([]byte, 300_000))
	publish(t, s, root+"/runs/r1/state", big, false)
	if got := c.next(); string(got.Payload) != big {
		t.Errorf("%d bytes arrived", len(got.Payload))
	}
	if code := c.say(root+"/req/olga/run", big); code != 0 {
		t.Errorf("PUBACK 0x%02x", code)
	}
}

func TestTLS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	for minimum, lowest := range map[string]uint16{"": tls.VersionTLS13, "1.2": tls.VersionTLS12} {
		t.Run("minimum "+minimum, func(t *testing.T) {
			cfg := anonymous()
			cfg.Limits.ConnectDeadline = 300 * time.Millisecond
			cfg.Listeners = server.Listeners{TLS: server.ListenerConfig{Address: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile, MinTLS: minimum}}
			s := start(t, cfg, server.Options{})
			address := s.Addr("tls").String()
			conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, s, conn)
			old, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12})
			if (err == nil) != (lowest == tls.VersionTLS12) {
				t.Errorf("TLS 1.2: %v", err)
			}
			if err == nil {
				_ = old.Close()
			}
			silent, err := net.Dial("tcp", address) // no handshake
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			_ = silent.SetReadDeadline(time.Now().Add(wait))
			if _, err := silent.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
				t.Errorf("a silent connection: %v", err)
			}
		})
	}
}

func TestTLSFilesMustExist(t *testing.T) {
	cfg := anonymous()
	cfg.Listeners.TLS = server.ListenerConfig{Address: "127.0.0.1:0", CertFile: "none.crt", KeyFile: "none.key"}
	s, err := server.New(cfg, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", s.Addr("tcp").String()); err == nil {
		_ = conn.Close()
		t.Error("the other listener stayed open")
	}
}

// wsStream is the client's end of MQTT over WebSocket.
type wsStream struct {
	*websocket.Conn
	message io.Reader
}

func (c *wsStream) Read(p []byte) (int, error) {
	for {
		if c.message == nil {
			_, r, err := c.NextReader()
			if err != nil {
				return 0, err
			}
			c.message = r
		}
		n, err := c.message.Read(p)
		if errors.Is(err, io.EOF) {
			c.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *wsStream) Write(p []byte) (int, error) {
	return len(p), c.WriteMessage(websocket.BinaryMessage, p)
}

func (c *wsStream) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func TestWebSocket(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	for scheme, lc := range map[string]server.ListenerConfig{
		"ws":  {Address: "127.0.0.1:0"},
		"wss": {Address: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile},
	} {
		t.Run(scheme, func(t *testing.T) {
			cfg := anonymous()
			cfg.Listeners = server.Listeners{WS: lc}
			cfg.Limits.ConnectDeadline = 300 * time.Millisecond
			s := start(t, cfg, server.Options{})
			url := scheme + "://" + s.Addr("ws").String() + "/mqtt"
			dialer := websocket.Dialer{Subprotocols: []string{"mqtt"}, TLSClientConfig: &tls.Config{RootCAs: pool}}
			open := func(header http.Header) (*websocket.Conn, error) {
				ws, answer, err := dialer.Dial(url, header)
				if answer != nil {
					_ = answer.Body.Close()
				}
				return ws, err
			}
			ws, err := open(nil)
			if err != nil {
				t.Fatal(err)
			}
			if ws.Subprotocol() != "mqtt" {
				t.Errorf("subprotocol %q", ws.Subprotocol())
			}
			roundTrip(t, s, &wsStream{Conn: ws})
			if _, err := open(http.Header{"Origin": {"https://evil.example"}}); err == nil {
				t.Error("a page of another host was let in")
			}
			for name, message := range map[string][]byte{"silent": nil, "huge": {0x10, 0xff, 0xff, 0xff, 0x7f}, "malformed": frame(0x82, []byte{0})} {
				bad, err := open(nil)
				if err != nil {
					t.Fatal(err)
				}
				if message != nil {
					_ = bad.WriteMessage(websocket.BinaryMessage, message)
				}
				_ = bad.SetReadDeadline(time.Now().Add(wait))
				if _, _, err := bad.ReadMessage(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
			}
			words, err := open(nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = words.WriteMessage(websocket.TextMessage, frame(0x10, str("MQTT"), []byte{5, 2, 0, 60, 0}, str("x")))
			if _, _, err := words.ReadMessage(); err == nil {
				t.Error("a text frame was taken")
			}
		})
	}
}
