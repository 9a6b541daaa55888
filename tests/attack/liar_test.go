package attack_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/programs"
)

// liar is a broker between headquarters and terminals that hears everything
// and says what it likes: Mosquitto, and a client that may do all.
type liar struct {
	*site
	address string
	tap     *client
}

// newLiar makes a headquarters with an identity over a broker of somebody
// else's. It believes that broker about who asks.
func newLiar(t *testing.T, stores ...string) *liar {
	t.Helper()
	path := programs.Installed(t, "mosquitto")
	l := &liar{address: programs.FreeAddr(t)}
	_, port, err := net.SplitHostPort(l.address)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "mosquitto.conf")
	if err := os.WriteFile(conf, []byte("listener "+port+" 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	programs.Launch(t, path, "-c", conf)
	programs.Eventually(t, "mosquitto", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	l.site = newSite(t, settings{more: "transport: mqtt\nmqtt: {url: \"mqtt://" + l.address + "\", users_file: users.yaml, trust_requests: true}\n"}, stores...)
	l.tap = l.plain("liar")
	l.tap.subscribe("muster/v1/#")
	return l
}

// plain is a client of the liar's broker.
func (l *liar) plain(id string) *client {
	l.t.Helper()
	conn := wire(l.t, l.address)
	c := &client{t: l.t, gone: make(chan struct{})}
	c.paho = paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.messages = append(c.messages, p.Packet)
			return true, nil
		}}})
	ctx, cancel := context.WithTimeout(l.t.Context(), programs.Patience)
	defer cancel()
	if _, err := c.paho.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 60}); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// agent starts an enrolled terminal's agent over the liar's broker.
func (l *liar) agent(store, folder string) (agent *programs.Process, markers string) {
	l.t.Helper()
	tls := l.broker
	l.broker = l.address
	defer func() { l.broker = tls }()
	agent, markers = l.site.agent(store, "pos1", folder)
	agent.Kill()
	config := l.path("agents/" + store + "/pos1.yaml")
	l.write("agents/"+store+"/pos1.yaml", strings.Replace(string(l.read("agents/"+store+"/pos1.yaml")), "mqtts://", "mqtt://", 1))
	agent = programs.Launch(l.t, filepath.Join(bin, "edge-agent"), "-config", config)
	agent.AwaitOutput("link is up")
	return agent, markers
}

// heard returns the first message that matches.
func (l *liar) heard(what string, match func(*paho.Publish) bool) *paho.Publish {
	l.t.Helper()
	var found *paho.Publish
	programs.Eventually(l.t, what, func() bool {
		l.tap.mu.Lock()
		defer l.tap.mu.Unlock()
		for _, m := range l.tap.messages {
			if match(m) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// order is the first order of a kind to a store's terminal.
func (l *liar) order(store, kind string) *paho.Publish {
	l.t.Helper()
	return l.heard("a "+kind+" for "+store, func(m *paho.Publish) bool {
		return m.Topic == "muster/v1/stores/"+store+"/terminals/pos1/orders" && strings.Contains(string(m.Payload), `"order":"`+kind+`"`)
	})
}

// offer is the first offer to a store.
func (l *liar) offer(store string) *paho.Publish {
	l.t.Helper()
	return l.heard("an offer for "+store, func(m *paho.Publish) bool {
		return strings.HasPrefix(m.Topic, "muster/v1/stores/"+store+"/tasks/") && len(m.Payload) > 0
	})
}

// say publishes something with the user properties of another message.
func (l *liar) say(topic string, payload []byte, like *paho.Publish, retain bool) {
	l.t.Helper()
	m := message{topic: topic, payload: string(payload), retain: retain}
	if like != nil {
		m.signature = trust.Signature{KeyID: like.Properties.User.Get("kid"), Value: like.Properties.User.Get("sig")}
	}
	if _, err := l.tap.publish(m); err != nil {
		l.t.Fatal(err)
	}
}

// settled waits until everything said so far has been dealt with: another run of
// the same terminal has come to its end.
func (l *liar) settled(store string) {
	l.t.Helper()
	reply := l.tap.ask("operator", "run", fmt.Sprintf(`{"job":"probe","stores":[%q],"requestId":"settle-%d","barrierSeconds":25}`, store, time.Now().UnixNano()))
	if !reply.OK {
		l.t.Fatalf("%+v", reply)
	}
	if row := l.report(reply.RunID, 1).Stores[0]; row.Outcome != "succeeded" {
		l.t.Fatalf("the terminal does not work any more: %+v", row)
	}
}

func TestS10ReplayedOffersAndGrantsStartNothing(t *testing.T) {
	t.Parallel()
	l := newLiar(t, "A", "B")
	folder := l.enrol("A", "pos1")
	agent, markers := l.agent("A", folder)
	_, otherMarkers := l.agent("B", l.enrol("B", "pos1"))
	reply := l.tap.ask("operator", "run", `{"job":"probe","stores":["A"],"requestId":"first"}`)
	l.report(reply.RunID, 1)
	offer, grant := l.offer("A"), l.order("A", "grant")
	for round := range 2 {
		for range 3 {
			l.say(offer.Topic, offer.Payload, offer, true)
			l.say(grant.Topic, grant.Payload, grant, false)
			// The same to another store, by topic alone and by altered text.
			for from, to := range map[string]string{`"storeId":"A"`: `"storeId":"B"`, "": ""} {
				payload := []byte(strings.ReplaceAll(string(offer.Payload), from, to))
				if from == "" {
					payload = offer.Payload
				}
				l.say(strings.Replace(offer.Topic, "/A/", "/B/", 1), payload, offer, false)
			}
			l.say(strings.Replace(grant.Topic, "/A/", "/B/", 1), grant.Payload, grant, false)
		}
		l.settled("A")
		l.settled("B")
		if round == 0 { // and to an agent that was started anew
			agent.Kill()
			agent, _ = l.agent("A", folder)
		}
	}
	seen := map[string]int{}
	for _, line := range append(lines(t, markers), lines(t, otherMarkers)...) {
		seen[line]++
	}
	if len(seen) != 5 { // the first, and two at each store to settle
		t.Errorf("executions: %v", seen)
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("%s was executed %d times", line, n)
		}
	}
}

// TestS12AndS41ABrokerSpeaksForNoTerminal: what it says in a terminal's name,
// unsigned or with another terminal's key, answers nothing and moves nobody.
func TestS12AndS41ABrokerSpeaksForNoTerminal(t *testing.T) {
	t.Parallel()
	l := newLiar(t, "A", "B")
	other := l.steal("B", "pos1", l.enrol("B", "pos1"))
	gate := l.path("gate")
	l.write("wait.sh", "while [ -e \"$0\" ] && [ ! -e "+gate+" ]; do sleep 0.05; done\n")
	l.answers("A", "pos1", `{"marker":"true answer"}`)
	_, markers := l.agent("A", l.enrol("A", "pos1"))
	script := string(l.read("A.pos1.sh"))
	l.write("A.pos1.sh", script+"sh "+l.path("wait.sh")+"\n")
	reply := l.tap.ask("operator", "run", `{"job":"probe","stores":["A"],"requestId":"first"}`)
	programs.Eventually(t, "the execution", func() bool { return len(lines(t, markers)) == 1 })
	task, _, _ := strings.Cut(lines(t, markers)[0], "/")

	const answer = `{"marker":"forged"}`
	forged := map[string]string{
		"result":   fmt.Sprintf(`"taskId":%q,"attempt":1,"outcome":"succeeded","result":%s,"startedAt":1,"finishedAt":2,"durationMs":1,"executed":true,"sha256":%q`, task, answer, digest(answer)),
		"presence": `"online":false,"since":"2099-01-01T00:00:00.000Z","sessionId":"zzzz"`,
		"hello":    `"agentVersion":"forged","protocols":[1],"jobs":[],"open":[],"clockMs":1`,
	}
	for kind, fields := range forged {
		topic := "muster/v1/stores/A/terminals/pos1/" + kind
		payload := fmt.Sprintf(`{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-09-17T12:00:00.000Z","seq":%d,%s}`, nextSeq(), fields)
		l.say(topic, []byte(payload), nil, false)
		if _, err := l.tap.publish(message{topic: topic, payload: payload, signature: other.signer.Sign(topic, []byte(payload))}); err != nil {
			t.Fatal(err)
		}
	}
	l.hq.AwaitOutput("forged_message")
	status := l.tap.ask("operator", "status", fmt.Sprintf(`{"runId":%q}`, reply.RunID))
	if status.State == nil || status.State.Online != 1 || status.State.Tasks["RUNNING"] != 1 {
		t.Errorf("headquarters believes it: %+v", status.State)
	}
	l.write("gate", "")
	if row := l.report(reply.RunID, 1).Stores[0]; row.Outcome != "succeeded" || strings.Contains(mustJSON(t, row), "forged") {
		t.Errorf("row %s", mustJSON(t, row))
	}
}

// TestNoNumberEndsHeadquartersOrLocksATerminalOut: whoever copied a terminal's
// key may use up its numbers; a new enrolment of that terminal counts anew.
func TestNoNumberEndsHeadquartersOrLocksATerminalOut(t *testing.T) {
	t.Parallel()
	l := newLiar(t, "A")
	folder := l.enrol("A", "pos1")
	thief := l.steal("A", "pos1", folder)
	topic := "muster/v1/stores/A/terminals/pos1/hello"
	for _, seq := range []string{"9223372036854775800", "9223372036854775807", "9007199254740993", "9007199254740992", "9223372036854775801", "-9223372036854775808"} {
		payload := `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-09-17T12:00:00.000Z","seq":` + seq +
			`,"agentVersion":"x","protocols":[1],"jobs":[],"open":[],"clockMs":1,"orderSeq":` + strings.TrimPrefix(seq, "-") + `}`
		if _, err := l.tap.publish(message{topic: topic, payload: payload, signature: thief.signer.Sign(topic, []byte(payload))}); err != nil {
			t.Fatal(err)
		}
	}
	if reply := l.tap.ask("operator", "jobs", ""); !reply.OK {
		t.Fatalf("%+v", reply)
	}
	l.run("dispatcher", "revoke", "A", "pos1", "--data", l.path("data"))
	again := l.path("terminals/A/again")
	l.run("edge-agent", "enroll", "--token", l.token("A", "pos1"), "--headquarters", "https://"+l.enrolment, "--identity", again)
	l.agent("A", again)
	l.settled("A")
	l.hq.Kill()
	l.serve()
	l.settled("A")
}

func TestS42OnlyHeadquartersKeysGiveOrders(t *testing.T) {
	t.Parallel()
	l := newLiar(t, "A", "B")
	folder := l.enrol("A", "pos1")
	other := l.steal("B", "pos1", l.enrol("B", "pos1"))
	mine := l.steal("A", "pos1", folder)
	expired := l.expire(folder)
	_, markers := l.agent("A", folder)
	l.settled("A")
	like := l.offer("A")
	unknown := trust.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	for name, signer := range map[string]*trust.Signer{"unsigned": nil, "unknown": unknown, "another store's": other.signer, "its own": mine.signer, "expired": expired} {
		task := "FORGED-" + strings.ReplaceAll(name, " ", "-")
		task = strings.ReplaceAll(task, "'", "")
		l.forge(like, task, signer)
	}
	l.settled("A")
	for _, line := range lines(t, markers) {
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("the terminal executed %s", line)
		}
	}
	if n := l.tap.received(func(m *paho.Publish) bool {
		return strings.Contains(m.Topic, "/claim") && strings.Contains(string(m.Payload), "FORGED")
	}); n > 0 {
		t.Errorf("the terminal claimed %d forged offers", n)
	}
}

// forge says an offer and the grant for it, both signed by signer.
func (l *liar) forge(like *paho.Publish, task string, signer *trust.Signer) {
	l.t.Helper()
	var offer protocol.Offer
	if err := json.Unmarshal(like.Payload, &offer); err != nil {
		l.t.Fatal(err)
	}
	soon := time.Now().Add(time.Hour)
	offer.TaskID, offer.Seq, offer.At = task, time.Now().UnixMicro()+1e9, protocol.At(time.Now())
	offer.Deadline, offer.QueueDeadline = soon.UnixMilli(), soon.UnixMilli()
	grant := protocol.Order{Meta: offer.Meta, Order: protocol.OrderGrant, TaskID: task, Attempt: 1, LeaseMs: 60_000,
		RunTimeoutMs: 60_000, OfferID: offer.ID, OfferSHA256: offer.Hash()}
	grant.Seq++
	for topic, v := range map[string]any{"muster/v1/stores/A/tasks/" + task: offer, "muster/v1/stores/A/terminals/pos1/orders": grant} {
		payload, err := protocol.Encode(v)
		if err != nil {
			l.t.Fatal(err)
		}
		m := message{topic: topic, payload: string(payload)}
		if signer != nil {
			m.signature = signer.Sign(topic, payload)
		}
		for range 2 { // whichever comes first
			if _, err := l.tap.publish(m); err != nil {
				l.t.Fatal(err)
			}
		}
	}
}

// expire puts into a terminal's list of trusted keys one that ended an hour ago,
// under the authority's own seal, and returns its signer.
func (l *liar) expire(folder string) *trust.Signer {
	l.t.Helper()
	path := filepath.Join(folder, "trust.json")
	text, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	var sealed trust.Sealed
	if err := json.Unmarshal(text, &sealed); err != nil {
		l.t.Fatal(err)
	}
	var document trust.Document
	if err := json.Unmarshal([]byte(sealed.Document), &document); err != nil {
		l.t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("e", ed25519.SeedSize)))
	signer := trust.NewSigner(key)
	public, _ := key.Public().(ed25519.PublicKey)
	document.Version++
	document.Keys = append(document.Keys, trust.Key{KeyID: signer.KeyID(), Public: public,
		NotBefore: protocol.At(time.Now().Add(-2 * time.Hour)), NotAfter: protocol.At(time.Now().Add(-time.Hour))})
	if sealed.Document, err = document.Text(); err != nil {
		l.t.Fatal(err)
	}
	authority, err := trust.DecodeKey(l.read("identity/ca.key"))
	if err != nil {
		l.t.Fatal(err)
	}
	private, _ := authority.(*ecdsa.PrivateKey)
	sum := sha256.Sum256([]byte(sealed.Document))
	if sealed.Signature, err = ecdsa.SignASN1(rand.Reader, private, sum[:]); err != nil {
		l.t.Fatal(err)
	}
	if text, err = json.Marshal(sealed); err != nil {
		l.t.Fatal(err)
	}
	if err := trust.WritePrivate(path, text); err != nil {
		l.t.Fatal(err)
	}
	return signer
}
