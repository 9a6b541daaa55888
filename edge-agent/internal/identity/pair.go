package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"muster/internal/trust"
)

// pair is a key and its certificate. They lie in two files, which no file system
// replaces at once, so a new pair comes in four steps, each of which is on the
// disk before the next: next.key, next.crt, then next.key takes the name
// terminal.key, then next.crt the name terminal.crt. From the second step on the
// new pair counts, before it the old one: whatever is read after a crash is a
// key with its own certificate.
type pair struct {
	signer      *trust.Signer
	certificate tls.Certificate
}

// place says in which files a pair lies.
type place struct{ key, cert string }

// places lists where to look for a pair, the newest first.
func places() []place {
	return []place{{nextKeyFile, nextCertFile}, {keyFile, nextCertFile}, {keyFile, certFile}}
}

// errMismatch says that a certificate belongs to another key.
var errMismatch = errors.New("the certificate belongs to another key")

func newPair(key ed25519.PrivateKey, certificate []byte) (pair, error) {
	leaf, err := trust.DecodeCertificate(certificate)
	if err != nil {
		return pair{}, err
	}
	public, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok || !public.Equal(key.Public()) {
		return pair{}, errMismatch
	}
	return pair{signer: trust.NewSigner(key),
		certificate: tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}}, nil
}

func readPair(folder string) (pair, place, error) {
	for _, at := range places() {
		p, err := at.read(folder)
		last := at == place{keyFile, certFile}
		switch {
		case err == nil:
			return p, at, nil
		case last && errors.Is(err, fs.ErrNotExist):
			return pair{}, at, fmt.Errorf("%w: enrolment was not finished: run: edge-agent enroll", ErrNone)
		case last:
			return pair{}, at, fmt.Errorf("%w; %s", err, enrolAgain)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errMismatch):
			return pair{}, at, err
		}
	}
	return pair{}, place{}, ErrNone
}

func (p place) read(folder string) (pair, error) {
	keyText, err := trust.ReadOwn(filepath.Join(folder, p.key))
	if err != nil {
		return pair{}, err
	}
	certText, err := trust.ReadOwn(filepath.Join(folder, p.cert))
	if err != nil {
		return pair{}, err
	}
	key, err := decodeKey(keyText)
	if err != nil {
		return pair{}, fmt.Errorf("%s: %w", p.key, err)
	}
	read, err := newPair(key, certText)
	if err != nil {
		return pair{}, fmt.Errorf("%s and %s: %w", p.key, p.cert, err)
	}
	return read, nil
}

func decodeKey(text []byte) (ed25519.PrivateKey, error) {
	key, err := trust.DecodeKey(text)
	if err != nil {
		return nil, err
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("it holds a key that is not Ed25519")
	}
	return private, nil
}

// settle goes the rest of the way that a crash cut off.
func (p place) settle(folder string) error {
	for _, move := range []struct{ from, to string }{{p.key, keyFile}, {p.cert, certFile}} {
		if move.from == move.to {
			continue
		}
		err := os.Rename(filepath.Join(folder, move.from), filepath.Join(folder, move.to))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // or another process was quicker
			return fmt.Errorf("cannot put %s into its place: %w", move.to, err)
		}
	}
	return nil
}

func writePair(folder string, key ed25519.PrivateKey, certificate []byte) error {
	text, err := trust.EncodeKey(key)
	if err != nil {
		return err
	}
	_ = trust.RemoveUnfinished(folder) // or the next time
	next := place{nextKeyFile, nextCertFile}
	if err := trust.WritePrivate(filepath.Join(folder, next.key), text); err != nil {
		return err
	}
	if err := trust.WritePrivate(filepath.Join(folder, next.cert), certificate); err != nil {
		return err
	}
	return next.settle(folder)
}
