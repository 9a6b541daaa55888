package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
	"muster/broker/server/users"
	"muster/internal/protocol"
)

// door decides who a client is from the name and password it sends.
type door interface {
	// identify returns CodeSuccess with the identity, or why not.
	identify(ctx context.Context, name string, password []byte) (access.Identity, packets.Code)
}

func newDoor(cfg Config, opts Options) (door, error) {
	if cfg.Anonymous {
		return openDoor{alone: opts.Intake == nil}, nil
	}
	book, err := users.Load(cfg.UsersFile)
	if err != nil {
		return nil, fmt.Errorf("cannot load the users file: %w", err)
	}
	return bookDoor{users.NewVerifier(book)}, nil
}

// openDoor believes the name claimed: {store}/{terminal} is that terminal, any
// other id an operator, no name the operator "anonymous". On a broker that runs
// alone the name "dispatcher" is the dispatcher.
type openDoor struct{ alone bool }

func (d openDoor) identify(_ context.Context, name string, _ []byte) (access.Identity, packets.Code) {
	if name == "" {
		return access.Identity{Name: "anonymous", Role: access.RoleOperator}, packets.CodeSuccess
	}
	if store, terminal, ok := terminalForm(name); ok {
		return access.TerminalIdentity(store, terminal), packets.CodeSuccess
	}
	if !protocol.ValidID(name) {
		return access.Identity{}, packets.ErrBadUsernameOrPassword
	}
	role := access.RoleOperator
	if d.alone && name == string(access.RoleDispatcher) {
		role = access.RoleDispatcher
	}
	return access.Identity{Name: name, Role: role}, packets.CodeSuccess
}

// terminalForm takes "{store}/{terminal}" apart.
func terminalForm(s string) (store, terminal string, ok bool) {
	store, terminal, ok = strings.Cut(s, "/")
	return store, terminal, ok && protocol.ValidID(store) && protocol.ValidID(terminal)
}

// bookDoor asks the users file.
type bookDoor struct{ verifier *users.Verifier }

func (d bookDoor) identify(ctx context.Context, name string, password []byte) (access.Identity, packets.Code) {
	id, ok, err := d.verifier.Verify(ctx, name, password)
	switch {
	case err != nil:
		return access.Identity{}, packets.ErrServerBusy
	case !ok:
		return access.Identity{}, packets.ErrBadUsernameOrPassword
	}
	return id, packets.CodeSuccess
}
