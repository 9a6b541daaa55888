// Package door decides who a client is: by its certificate, by name and password,
// or, for development, by what it claims. It also says which client ids an
// identity may use.
//
// It knows nothing of topics: what an identity may do is package access.
package door

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
	"muster/broker/server/users"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// Visitor is what a client brings to prove who it is.
type Visitor struct {
	users.Attempt
	Cert *x509.Certificate // verified; nil when there is none
}

// Door decides who a client is. It is safe for concurrent use.
type Door interface {
	// Identify returns CodeSuccess with the identity, or why not: ErrLocked, or a
	// code that the client may be sent.
	Identify(ctx context.Context, v Visitor) (access.Identity, packets.Code)
	// Book is who may come now, nil when anybody may.
	Book() *users.Book
	// Use takes another book of Load in its place.
	Use(book *users.Book)
	// vouch is about a user whose certificate names them.
	vouch(user string) (access.Identity, packets.Code)
}

// Options say which door it is.
type Options struct {
	Anonymous    bool   // believe the name claimed; UsersFile is not read then
	UsersFile    string // who may come, with what password
	Certificates bool   // some listener checks them: terminals come by theirs alone
	Alone        bool   // no dispatcher embeds the broker: one has to come by name
	Logger       *slog.Logger
}

// New reads the users file, unless anybody is let in.
func New(o Options) (Door, error) {
	var d Door = openDoor{alone: o.Alone}
	if !o.Anonymous {
		book, err := Load(o.UsersFile, o.Certificates)
		if err != nil {
			return nil, err
		}
		d = bookDoor{users.NewVerifier(book, tellLocked(o.Logger))}
	}
	if o.Certificates {
		d = certificateDoor{d}
	}
	return d, nil
}

// Load reads a users file for a door; certificates says whether some listener
// checks them.
func Load(path string, certificates bool) (*users.Book, error) {
	book, err := users.Load(path)
	if err == nil {
		err = book.CheckCertificates(certificates)
	}
	if err == nil {
		err = book.CheckPasswords()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load the users file: %w", err)
	}
	return book, nil
}

func tellLocked(log *slog.Logger) func(users.Attempt) {
	return func(a users.Attempt) {
		log.Warn("too many failed logins, the name is locked for this address", "user", a.Name, "address", a.Address)
	}
}

// Refused is a code with a reason of ours, which a client of version 5 is told.
func Refused(code packets.Code, reason string) packets.Code {
	return packets.Code{Code: code.Code, Reason: reason}
}

// ErrLocked refuses a name that is locked for an address. The log is told once,
// when that begins.
var ErrLocked = Refused(packets.ErrBanned, users.ErrLocked.Error())

// openDoor believes the name claimed: {store}/{terminal} is that terminal, any
// other id an operator, no name the operator "anonymous". On a broker that runs
// alone the name "dispatcher" is the dispatcher.
type openDoor struct{ alone bool }

func (openDoor) Book() *users.Book { return nil }

func (openDoor) Use(*users.Book) {}

func (d openDoor) Identify(_ context.Context, v Visitor) (access.Identity, packets.Code) {
	if v.Name == "" {
		return access.Identity{Name: "anonymous", Role: access.RoleOperator}, packets.CodeSuccess
	}
	if store, terminal, ok := terminalForm(v.Name); ok {
		return access.TerminalIdentity(store, terminal), packets.CodeSuccess
	}
	if !protocol.ValidID(v.Name) {
		return access.Identity{}, packets.ErrBadUsernameOrPassword
	}
	return d.vouch(v.Name)
}

func (d openDoor) vouch(user string) (access.Identity, packets.Code) {
	role := access.RoleOperator
	if d.alone && user == string(access.RoleDispatcher) {
		role = access.RoleDispatcher
	}
	return access.Identity{Name: user, Role: role}, packets.CodeSuccess
}

// bookDoor asks the users file.
type bookDoor struct {
	verifier *users.Verifier
}

func (d bookDoor) Book() *users.Book { return d.verifier.Book() }

func (d bookDoor) Use(book *users.Book) { d.verifier.Use(book) }

func (d bookDoor) Identify(ctx context.Context, v Visitor) (access.Identity, packets.Code) {
	id, err := d.verifier.Verify(ctx, v.Attempt)
	switch {
	case err == nil:
		return id, packets.CodeSuccess
	case errors.Is(err, users.ErrWrong):
		return access.Identity{}, packets.ErrBadUsernameOrPassword
	case errors.Is(err, users.ErrGuessable):
		return access.Identity{}, Refused(packets.ErrBadUsernameOrPassword, users.ErrGuessable.Error())
	case errors.Is(err, users.ErrLocked):
		return access.Identity{}, ErrLocked
	}
	return access.Identity{}, packets.ErrServerBusy
}

func (d bookDoor) vouch(user string) (access.Identity, packets.Code) {
	e, ok := d.verifier.Book().Get(user)
	switch {
	case !ok:
		return access.Identity{}, Refused(packets.ErrNotAuthorized, "the users file does not know "+user)
	case !e.Certificate:
		return access.Identity{}, Refused(packets.ErrNotAuthorized, "the users file does not say certificate: true of "+user)
	}
	return access.Identity{Name: e.Name, Role: e.Role}, packets.CodeSuccess
}

// certificateDoor lets terminals in by certificate alone, and users by
// certificate or as the door behind it says.
type certificateDoor struct{ Door }

func (d certificateDoor) Identify(ctx context.Context, v Visitor) (access.Identity, packets.Code) {
	if v.Cert == nil {
		if _, _, terminal := terminalForm(v.Name); terminal {
			return access.Identity{}, Refused(packets.ErrNotAuthorized, "a terminal proves itself by its certificate: it has shown none")
		}
		return d.Door.Identify(ctx, v)
	}
	holder, err := trust.HolderOf(v.Cert)
	if err != nil {
		return access.Identity{}, Refused(packets.ErrNotAuthorized, err.Error())
	}
	name := nameOf(holder)
	if v.Name != "" && v.Name != name {
		return access.Identity{}, Refused(packets.ErrNotAuthorized, "the certificate is of "+name+", and the user name is another")
	}
	if holder.User != "" {
		return d.vouch(holder.User)
	}
	return access.TerminalIdentity(holder.Store, holder.Terminal), packets.CodeSuccess
}

func nameOf(h trust.Holder) string {
	if h.User != "" {
		return h.User
	}
	return access.TerminalIdentity(h.Store, h.Terminal).Name
}
