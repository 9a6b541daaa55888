package door

import (
	"crypto/x509"
	"strings"

	"muster/broker/server/access"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// maxClientID bounds a client id; the longest terminal has 127 bytes.
const maxClientID = 128

// FitsClientID binds client ids to identities: a terminal's is its name,
// nobody else's looks like a terminal's.
func FitsClientID(id access.Identity, clientID string) bool {
	if id.Role == access.RoleTerminal {
		return clientID == id.Name
	}
	_, _, terminal := terminalForm(clientID)
	return !terminal && len(clientID) <= maxClientID && !strings.HasPrefix(clientID, "$")
}

// ClaimsTerminal reports whether a client, before it is identified, says it is a
// terminal: by its certificate or by its name.
func ClaimsTerminal(cert *x509.Certificate, name string) bool {
	if cert != nil {
		holder, err := trust.HolderOf(cert)
		return err == nil && holder.Terminal != ""
	}
	_, _, terminal := terminalForm(name)
	return terminal
}

// terminalForm takes "{store}/{terminal}" apart.
func terminalForm(s string) (store, terminal string, ok bool) {
	store, terminal, ok = strings.Cut(s, "/")
	return store, terminal, ok && protocol.ValidID(store) && protocol.ValidID(terminal)
}
