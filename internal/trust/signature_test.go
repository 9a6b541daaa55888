package trust_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"muster/internal/trust"
)

const topic = "muster/v1/stores/007/tasks/t1"

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey {
	public, _ := key.Public().(ed25519.PublicKey)
	return public
}

func TestSignatureHoldsForItsTopicAndPayloadAlone(t *testing.T) {
	t.Parallel()
	key, other := keyOf('a'), keyOf('b')
	payload := []byte(`{"taskId":"t1"}`)
	good := trust.NewSigner(key).Sign(topic, payload)
	if err := good.Verify(publicOf(key), topic, payload); err != nil {
		t.Fatal(err)
	}
	if good.KeyID != trust.KeyID(publicOf(key)) || len(good.KeyID) != 16 {
		t.Errorf("key id %q", good.KeyID)
	}
	for name, c := range map[string]struct {
		signature trust.Signature
		public    ed25519.PublicKey
		topic     string
		payload   string
		want      error
	}{
		"other key":         {good, publicOf(other), topic, string(payload), trust.ErrBadSignature},
		"other topic":       {good, publicOf(key), topic + "2", string(payload), trust.ErrBadSignature},
		"topic cut":         {good, publicOf(key), topic[:len(topic)-1], "1" + string(payload), trust.ErrBadSignature},
		"topic grown":       {good, publicOf(key), topic + "{", string(payload[1:]), trust.ErrBadSignature},
		"altered payload":   {good, publicOf(key), topic, `{"taskId":"t2"}`, trust.ErrBadSignature},
		"empty payload":     {good, publicOf(key), topic, "", trust.ErrBadSignature},
		"unsigned":          {trust.Signature{}, publicOf(key), topic, string(payload), trust.ErrUnsigned},
		"key id alone":      {trust.Signature{KeyID: good.KeyID}, publicOf(key), topic, string(payload), trust.ErrBadSignature},
		"not base64":        {trust.Signature{KeyID: good.KeyID, Value: "!"}, publicOf(key), topic, string(payload), trust.ErrBadSignature},
		"padded":            {trust.Signature{KeyID: good.KeyID, Value: good.Value + "=="}, publicOf(key), topic, string(payload), trust.ErrBadSignature},
		"cut":               {trust.Signature{KeyID: good.KeyID, Value: good.Value[:40]}, publicOf(key), topic, string(payload), trust.ErrBadSignature},
		"payload no object": {trust.NewSigner(key).Sign(topic, []byte("x")), publicOf(key), topic, "x", trust.ErrBadSignature},
	} {
		if err := c.signature.Verify(c.public, c.topic, []byte(c.payload)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	signer, payload := trust.NewSigner(keyOf('a')), []byte("{"+strings.Repeat("x", 1024)+"}")
	for b.Loop() {
		signer.Sign(topic, payload)
	}
}

func BenchmarkVerify(b *testing.B) {
	key, payload := keyOf('a'), []byte("{"+strings.Repeat("x", 1024)+"}")
	signature := trust.NewSigner(key).Sign(topic, payload)
	for b.Loop() {
		if err := signature.Verify(publicOf(key), topic, payload); err != nil {
			b.Fatal(err)
		}
	}
}
