package credential

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"

	"muster/internal/files"
)

// watched are files that are used as one, and again when they change. It goes by
// what they hold: a copied file can bring its old time along.
type watched struct {
	files []string
	use   func(contents [][]byte) error
	seen  [sha256.Size]byte // what they held last, good or bad
}

// look reads the files. It does nothing, and returns false and nil, when they
// hold what they held at the last look; so a fault is returned once.
func (w *watched) look() (changed bool, err error) {
	if len(w.files) == 0 {
		return false, nil
	}
	read := files.ReadPlain
	if w.seen == ([sha256.Size]byte{}) {
		read = files.Read // a start waits for a pipe
	}
	sum := sha256.New()
	contents := make([][]byte, len(w.files))
	for i, name := range w.files {
		if contents[i], err = read(name); err != nil {
			fmt.Fprint(sum, err)
			break
		}
		fmt.Fprintf(sum, "%d:%s", len(contents[i]), contents[i])
	}
	if seen := [sha256.Size]byte(sum.Sum(nil)); seen != w.seen {
		w.seen, changed = seen, true
	}
	switch {
	case !changed:
		return false, nil
	case err == nil:
		err = w.use(contents)
	}
	return true, err
}

// readAuthorities reads the certificates of a PEM file; each must be an
// authority's.
func readAuthorities(path string) ([]*x509.Certificate, error) {
	rest, err := files.Read(path)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for {
		block, more := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = more
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !cert.IsCA {
			return nil, fmt.Errorf("%s: the certificate of %q is not an authority's", path, cert.Subject)
		}
		out = append(out, cert)
	}
	if len(out) == 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%s: is not a file of PEM certificates", path)
	}
	return out, nil
}

// revocations are what lists of revoked certificates say.
type revocations struct {
	serials map[string]bool     // by serialOf
	numbers map[string]*big.Int // the highest of each issuer's lists; nil: they have none
}

// readRevoked reads lists of revoked certificates (RFC 5280, section 5), PEM or
// one in DER, each signed by one of the authorities. When the next list is due
// is not looked at: an old one is better than none.
func readRevoked(data []byte, authorities []*x509.Certificate) (*revocations, error) {
	revoked := &revocations{serials: map[string]bool{}, numbers: map[string]*big.Int{}}
	block, rest := pem.Decode(data)
	if block == nil {
		return revoked, revoked.add(data, authorities)
	}
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("it is not a list of revoked certificates, but a PEM %s", block.Type)
		}
		if err := revoked.add(block.Bytes, authorities); err != nil {
			return nil, err
		}
		data = rest
	}
	if len(bytes.TrimSpace(data)) > 0 {
		return nil, errors.New("it ends in something else than a list")
	}
	return revoked, nil
}

func (r *revocations) add(der []byte, authorities []*x509.Certificate) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("it is not a list of revoked certificates: %w", err)
	}
	if !signedByOne(list, authorities) {
		return fmt.Errorf("the list of %q is not signed by an authority of client_ca_file", list.Issuer)
	}
	for _, entry := range list.RevokedCertificateEntries {
		r.serials[serialOf(list.RawIssuer, entry.SerialNumber)] = true
	}
	if most := r.numbers[string(list.RawIssuer)]; most == nil || list.Number != nil && list.Number.Cmp(most) > 0 {
		r.numbers[string(list.RawIssuer)] = list.Number
	}
	return nil
}

// follows asks that the lists are no older than those in use, by the number that
// grows with each list of an authority (RFC 5280, section 5.2.3): an old list is
// as genuine as the newest, and whoever puts it back would forgive those who were
// revoked since. Nil is in use at the start, when any genuine list will do.
func (r *revocations) follows(inUse *revocations) error {
	if inUse == nil {
		return nil
	}
	const restart = "start the broker again if it is meant to count"
	for issuer, before := range inUse.numbers {
		number, listed := r.numbers[issuer]
		switch {
		case before == nil:
		case !listed:
			return errors.New("the list of an authority is missing that was there before; " + restart)
		case number == nil:
			return fmt.Errorf("the list has no number, and the one in use has number %s; %s", before, restart)
		case number.Cmp(before) < 0:
			return fmt.Errorf("the list is older (number %s) than the one in use (number %s); %s", number, before, restart)
		}
	}
	return nil
}

func signedByOne(list *x509.RevocationList, authorities []*x509.Certificate) bool {
	for _, authority := range authorities {
		if bytes.Equal(authority.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(authority) == nil {
			return true
		}
	}
	return false
}

// serialOf names a certificate: serial numbers are unique to their issuer.
func serialOf(issuer []byte, serial *big.Int) string {
	return string(issuer) + "\x00" + serial.String()
}
