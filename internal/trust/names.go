package trust

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"muster/internal/protocol"
)

const (
	urnStore    = "muster:store:"
	urnTerminal = ":terminal:"
	urnUser     = "muster:user:"
)

// Holder is whom a certificate names: a terminal of a store, or a user. One of
// Terminal and User is empty.
type Holder struct {
	Store, Terminal string
	User            string
}

// URI is the subject alternative name of the holder's certificate:
// urn:muster:store:<id>:terminal:<id> or urn:muster:user:<id>. Ids hold no colon.
func (h Holder) URI() *url.URL {
	if h.User != "" {
		return &url.URL{Scheme: "urn", Opaque: urnUser + h.User}
	}
	return &url.URL{Scheme: "urn", Opaque: urnStore + h.Store + urnTerminal + h.Terminal}
}

// HolderOf reads whom a certificate names. It must name exactly one holder.
func HolderOf(cert *x509.Certificate) (Holder, error) {
	if len(cert.URIs) != 1 {
		return Holder{}, fmt.Errorf("the certificate names %d holders, not one", len(cert.URIs))
	}
	uri := cert.URIs[0]
	if user, ok := strings.CutPrefix(uri.Opaque, urnUser); ok && uri.Scheme == "urn" && protocol.ValidID(user) {
		return Holder{User: user}, nil
	}
	rest, ok := strings.CutPrefix(uri.Opaque, urnStore)
	store, terminal, named := strings.Cut(rest, urnTerminal)
	if uri.Scheme != "urn" || !ok || !named || !protocol.ValidID(store) || !protocol.ValidID(terminal) {
		return Holder{}, fmt.Errorf("the certificate names no terminal and no user: %s", uri)
	}
	return Holder{Store: store, Terminal: terminal}, nil
}
