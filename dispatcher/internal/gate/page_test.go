package gate_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/gate"
	"muster/internal/protocol"
	"muster/internal/trust"
)

const repository = "../../.."

func file(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func example[T any](t *testing.T, name string) (message T) {
	t.Helper()
	if err := protocol.Decode(file(t, "schemas/examples/"+name), protocol.MaxPayloadBytes, &message); err != nil {
		t.Fatal(err)
	}
	return message
}

// TestTheExamplesOfThePageAreTrue: whoever writes another agent checks it
// against docs/protocol/trust.md. The examples hang together: the listed key
// signs the grant, which names the offer, which the result answers.
func TestTheExamplesOfThePageAreTrue(t *testing.T) {
	t.Parallel()
	page := string(file(t, "docs/protocol/trust.md"))
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey)

	offer := example[protocol.Offer](t, "offer/valid-first.json")
	offer.Input, _ = protocol.Compact(offer.Input)
	hash := offer.Hash()
	grant := example[protocol.Order](t, "order/valid-grant.json")
	result := example[protocol.Result](t, "result/valid-succeeded.json")
	if grant.OfferSHA256 != hash || result.OfferSHA256 != hash {
		t.Errorf("the example grant is of offer %s, the result of %s, the offer is %s", grant.OfferSHA256, result.OfferSHA256, hash)
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	topic := topics.Terminal(offer.StoreID, "pos-1", protocol.KindOrders)
	payload, err := protocol.Encode(grant)
	if err != nil {
		t.Fatal(err)
	}
	s := trust.NewSigner(private).Sign(topic, payload)
	list := openList(t)
	if signer, err := list.Verify(topic, payload, s); err != nil || !signer.Covers(grant.At.Time) {
		t.Errorf("the listed keys do not sign the grant: %v", err)
	}
	for _, want := range []string{
		"seed       " + hex.EncodeToString(seed) + "\n",
		"public key " + hex.EncodeToString(public) + "\n",
		"topic      " + topic + "\n",
		"payload    " + string(payload) + "\n",
		"kid        " + s.KeyID + "\n",
		"sig        " + s.Value + "\n",
		fmt.Sprintf(`' %s %s %s %s %d %d '%s' | sha256sum`+"\n%s\n", offer.TaskID, offer.ParentID, offer.StoreID, offer.Type,
			offer.TypeVersion, offer.ScheduledFor.UnixMilli(), offer.Input, hash),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("docs/protocol/trust.md does not say\n%s", want)
		}
	}
}

// openList opens the example list with the example authority.
func openList(t *testing.T) trust.Document {
	t.Helper()
	authority, err := trust.DecodeCertificate(file(t, "schemas/examples/trust/authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := example[trust.Sealed](t, "trust/valid.json").Open(authority)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestThePageSaysHowTheGateDecides: reasons, alarm and size of the window.
func TestThePageSaysHowTheGateDecides(t *testing.T) {
	t.Parallel()
	page := string(file(t, "docs/protocol/trust.md"))
	for reason := range open(t).Stats().Refused {
		if !strings.Contains(page, "`"+string(reason)+"`") {
			t.Errorf("docs/protocol/trust.md does not name the reason %s", reason)
		}
	}
	if !strings.Contains(page, "`"+gate.AlarmForged+"`") || !strings.Contains(page, "lies 1,024 or more below the newest") {
		t.Error("docs/protocol/trust.md does not name the alarm or the window")
	}
	h := open(t)
	p := h.enrol("S1", "pos", 1)
	if !h.pass(h.says(p, protocol.KindClaim, 2000)) || !h.pass(h.says(p, protocol.KindClaim, 2000-1023)) || h.pass(h.says(p, protocol.KindClaim, 2000-1024)) {
		t.Error("the window is not the one of the page")
	}
	sum := sha256.Sum256(p.public)
	if p.signer.KeyID() != hex.EncodeToString(sum[:])[:16] || !h.clock().Before(p.row.NotAfter.Add(-time.Hour)) {
		t.Error("a key id is not the one of the page")
	}
}
