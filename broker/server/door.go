package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
	"muster/broker/server/users"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// visitor is what a client brings to prove who it is.
type visitor struct {
	users.Attempt
	cert *x509.Certificate // verified; nil when there is none
}

// door decides who a client is. Its methods return CodeSuccess with the
// identity, or why not.
type door interface {
	// identify goes by name and password.
	identify(ctx context.Context, v visitor) (access.Identity, packets.Code)
	// vouch is about a user whose certificate names them.
	vouch(user string) (access.Identity, packets.Code)
}

func newDoor(cfg Config, opts Options) (door, error) {
	checked := cfg.Listeners.checksCertificates()
	var d door = openDoor{alone: opts.Intake == nil}
	if !cfg.Anonymous {
		book, err := loadBook(cfg.UsersFile, checked)
		if err != nil {
			return nil, fmt.Errorf("cannot load the users file: %w", err)
		}
		d = bookDoor{book, users.NewVerifier(book, tellLocked(opts.Logger))}
	}
	if checked {
		d = certificateDoor{d}
	}
	return d, nil
}

func loadBook(path string, checked bool) (*users.Book, error) {
	book, err := users.Load(path)
	if err != nil {
		return nil, err
	}
	if err := book.CheckCertificates(checked); err != nil {
		return nil, err
	}
	return book, book.CheckPasswords()
}

func tellLocked(log *slog.Logger) func(users.Attempt) {
	return func(a users.Attempt) {
		log.Warn("too many failed logins, the name is locked for this address", "user", a.Name, "address", a.Address)
	}
}

// refused is a code with a reason of ours, which a client of version 5 is told.
func refused(code packets.Code, reason string) packets.Code {
	return packets.Code{Code: code.Code, Reason: reason}
}

// openDoor believes the name claimed: {store}/{terminal} is that terminal, any
// other id an operator, no name the operator "anonymous". On a broker that runs
// alone the name "dispatcher" is the dispatcher.
type openDoor struct{ alone bool }

func (d openDoor) identify(_ context.Context, v visitor) (access.Identity, packets.Code) {
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

// terminalForm takes "{store}/{terminal}" apart.
func terminalForm(s string) (store, terminal string, ok bool) {
	store, terminal, ok = strings.Cut(s, "/")
	return store, terminal, ok && protocol.ValidID(store) && protocol.ValidID(terminal)
}

// bookDoor asks the users file.
type bookDoor struct {
	book     *users.Book
	verifier *users.Verifier
}

func (d bookDoor) identify(ctx context.Context, v visitor) (access.Identity, packets.Code) {
	id, err := d.verifier.Verify(ctx, v.Attempt)
	switch {
	case err == nil:
		return id, packets.CodeSuccess
	case errors.Is(err, users.ErrWrong):
		return access.Identity{}, packets.ErrBadUsernameOrPassword
	case errors.Is(err, users.ErrGuessable):
		return access.Identity{}, refused(packets.ErrBadUsernameOrPassword, users.ErrGuessable.Error())
	case errors.Is(err, users.ErrLocked):
		return access.Identity{}, errLocked
	}
	return access.Identity{}, packets.ErrServerBusy
}

func (d bookDoor) vouch(user string) (access.Identity, packets.Code) {
	e, ok := d.book.Get(user)
	switch {
	case !ok:
		return access.Identity{}, refused(packets.ErrNotAuthorized, "the users file does not know "+user)
	case !e.Certificate:
		return access.Identity{}, refused(packets.ErrNotAuthorized, "the users file does not say certificate: true of "+user)
	}
	return access.Identity{Name: e.Name, Role: e.Role}, packets.CodeSuccess
}

// certificateDoor lets terminals in by certificate alone, and users by
// certificate or as the door behind it says.
type certificateDoor struct{ door }

func (d certificateDoor) identify(ctx context.Context, v visitor) (access.Identity, packets.Code) {
	if v.cert == nil {
		if _, _, terminal := terminalForm(v.Name); terminal {
			return access.Identity{}, refused(packets.ErrNotAuthorized, "a terminal proves itself by its certificate: it has shown none")
		}
		return d.door.identify(ctx, v)
	}
	holder, err := trust.HolderOf(v.cert)
	if err != nil {
		return access.Identity{}, refused(packets.ErrNotAuthorized, err.Error())
	}
	name := nameOf(holder)
	if v.Name != "" && v.Name != name {
		return access.Identity{}, refused(packets.ErrNotAuthorized, "the certificate is of "+name+", and the user name is another")
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
