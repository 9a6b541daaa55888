package access_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
	"muster/broker/server/access"
	"muster/broker/server/users"
)

// wait bounds what must happen; it only passes in full when the test fails.
const wait = 20 * time.Second

const password = "long enough to be one"

// The broker enforces on the wire what the matrix says, role by role, with the
// reason codes of MQTT 5, 2.4.
func TestEveryRoleOverTheWire(t *testing.T) {
	addr := broker(t)
	p := protocolTopics(t)
	all := slices.DeleteFunc(everyTopic(p), func(topic string) bool { return strings.HasPrefix(topic, "$share") })
	for _, role := range roles() {
		t.Run(string(role), func(t *testing.T) {
			client := login(t, addr, role)
			reads := mayRead(role, all)
			for _, topic := range all {
				subscribes(t, client, topic, slices.Contains(reads, topic))
			}
			for filter, who := range filters() {
				subscribes(t, client, filter, slices.Contains(who, role))
				subscribes(t, client, "$share/g/"+filter, slices.Contains(who, role))
			}
			writes := mayPublish(role, all)
			for _, topic := range all {
				publishes(t, client, topic, slices.Contains(writes, topic))
			}
		})
	}
}

// broker serves every role with a user of its own.
func broker(t *testing.T) (addr string) {
	t.Helper()
	hash, err := users.HashPassword([]byte(password))
	if err != nil {
		t.Fatal(err)
	}
	var book strings.Builder
	book.WriteString("users:\n")
	for _, role := range access.UserRoles() {
		fmt.Fprintf(&book, "  - {name: %s, role: %s, password: %q}\n", userOf(role), role, hash)
	}
	fmt.Fprintf(&book, "terminals:\n  - {store: %q, terminal: %q, password: %q}\n", ownStore, own, hash)
	path := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(path, []byte(book.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Listeners: server.Listeners{TCP: server.ListenerConfig{Address: "127.0.0.1:0"}}, UsersFile: path,
	}, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s.Addr("tcp").String()
}

// userOf is the name under which a role logs in; alice of the matrix holds each
// of them in turn, so topics are translated.
func userOf(role access.Role) string { return alice + "-" + string(role) }

func login(t *testing.T, addr string, role access.Role) *paho.Client {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	name := userOf(role)
	if role == access.RoleTerminal {
		name = holder(role).Name
	}
	client := paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn)})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	ack, err := client.Connect(ctx, &paho.Connect{ClientID: name, CleanStart: true, KeepAlive: 60,
		Username: name, UsernameFlag: true, Password: []byte(password), PasswordFlag: true})
	if err != nil {
		t.Fatalf("%s cannot log in: %v (%+v)", role, err, ack)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) }) // the broker may have gone first
	return client
}

// translate puts the user's own name in alice's place.
func translate(t *testing.T, topic string) string {
	t.Helper()
	_, role, _ := strings.Cut(t.Name(), "/")
	return strings.ReplaceAll(topic, "/"+alice, "/"+userOf(access.Role(role)))
}

func subscribes(t *testing.T, client *paho.Client, filter string, allowed bool) {
	t.Helper()
	filter = translate(t, filter)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	ack, err := client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	if ack == nil {
		t.Fatalf("subscribe %q: %v", filter, err)
	}
	if want := map[bool]byte{true: 0x01, false: 0x87}[allowed]; ack.Reasons[0] != want {
		t.Errorf("subscribe %q: 0x%02x, not 0x%02x", filter, ack.Reasons[0], want)
	}
}

func publishes(t *testing.T, client *paho.Client, topic string, allowed bool) {
	t.Helper()
	topic = translate(t, topic)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	ack, err := client.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("{}")})
	if ack == nil {
		t.Fatalf("publish %q: %v", topic, err)
	}
	refused := ack.ReasonCode >= 0x80
	if refused == allowed || (refused && ack.ReasonCode != 0x87) {
		t.Errorf("publish %q: 0x%02x", topic, ack.ReasonCode)
	}
}
