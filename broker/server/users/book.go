// Package users reads the file of users and terminals and checks passwords.
//
// It never holds a password in the clear beyond a call, never writes one
// anywhere, and knows nothing of MQTT.
package users

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/broker/server/access"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/settings"
)

// MaxFileBytes bounds a users file: some 50,000 users and terminals, whose file is
// read in seconds. MaxEntries bounds both together.
const (
	MaxFileBytes = 16 << 20
	MaxEntries   = 50_000
)

// Book holds who may log in. Immutable once loaded.
type Book struct {
	entries map[string]entry // by name
	list    []Entry          // the users, as the file has them
	where   *settings.File
}

type entry struct {
	identity access.Identity
	hash     Hash // zero when there is no password
	about    Entry
}

// Get returns the user of a name, exactly as it is written; a terminal is none.
func (b *Book) Get(name string) (Entry, bool) {
	e, ok := b.entries[name]
	return e.about, ok && e.identity.Role != access.RoleTerminal
}

// HasPassword reports whether a name can log in by password.
func (b *Book) HasPassword(name string) bool { return b.entries[name].hash.passes > 0 }

// Keeps reports whether a name gets in as it did by an earlier book: under the same
// role, with the same password or by certificate still, or by neither book.
func (b *Book) Keeps(name string, earlier *Book) bool {
	now, there := b.entries[name]
	before, was := earlier.entries[name]
	return there == was && now.identity == before.identity && now.hash.equal(before.hash) && now.about.Certificate == before.about.Certificate
}

// Count is how many users and terminals may log in.
func (b *Book) Count() (users, terminals int) { return len(b.list), len(b.entries) - len(b.list) }

// List returns the users as the file has them. The slice is the caller's.
func (b *Book) List() []Entry { return slices.Clone(b.list) }

// file is the users file. Passwords are PHC strings of argon2id.
type file struct {
	Users     []user     `yaml:"users"`
	Terminals []terminal `yaml:"terminals"`
}

type user struct {
	Name        string `yaml:"name"`
	Role        string `yaml:"role"`
	Password    string `yaml:"password"`
	Jobs        any    `yaml:"jobs"`
	Stores      any    `yaml:"stores"`
	Key         string `yaml:"key"`
	Certificate bool   `yaml:"certificate"`

	given map[string]any
}

type terminal struct {
	Store    string `yaml:"store"`
	Terminal string `yaml:"terminal"`
	Password string `yaml:"password"`
}

// Load reads a users file. An error names file, line and key: an unknown key, a
// role that does not exist, a name used twice (also when only the case
// differs), an id that is not quoted, and a password that is not a sound hash.
func Load(path string) (*Book, error) {
	data, err := files.Read(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read users: %w", err)
	}
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("cannot read users: %s has more than %d bytes: give terminals certificates, which stand in no file", path, MaxFileBytes)
	}
	var f file
	where, err := settings.Decode(path, data, &f)
	if err != nil {
		// The lines after the first quote the file, where a password may stand.
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, errors.New(first)
	}
	if n := len(f.Users) + len(f.Terminals); n > MaxEntries {
		return nil, fmt.Errorf("%s: names %d users and terminals; at most %d may log in by it: give terminals certificates, which stand in no file", path, n, MaxEntries)
	}
	r := reader{
		where: where, book: &Book{entries: map[string]entry{}, where: where},
		folded: map[string]string{}, keys: map[string]string{},
	}
	for i, u := range f.Users {
		if err := r.addUser(fmt.Sprintf("$.users[%d]", i), u); err != nil {
			return nil, err
		}
	}
	for i, t := range f.Terminals {
		if err := r.addTerminal(fmt.Sprintf("$.terminals[%d]", i), t); err != nil {
			return nil, err
		}
	}
	return r.book, nil
}

type reader struct {
	where  *settings.File
	book   *Book
	folded map[string]string // where a name stands first, by the name in lower case
	keys   map[string]string // whose a public key is
}

const notAnID = "is not an id of 1 to 63 of A-Z a-z 0-9 . _ -"

func (r *reader) addUser(key string, u user) error {
	if !protocol.ValidID(u.Name) {
		return r.fault(key, "name", u.Name, notAnID)
	}
	role, err := access.ParseRole(u.Role)
	if err != nil {
		return r.fault(key, "role", u.Role, err.Error())
	}
	e := Entry{Name: u.Name, Role: role}
	if member, problem := u.about(&e); problem != "" {
		return r.fault(key, member, "given", problem)
	}
	if other, taken := r.keys[string(e.Key)]; taken && e.Key != nil {
		return r.fault(key, "key", "given", fmt.Sprintf("is the key of %s too: nobody could tell who signed", other))
	}
	r.keys[string(e.Key)] = u.Name
	if err := r.add(key, "name", entry{identity: access.Identity{Name: u.Name, Role: role}, about: e}, u.Password); err != nil {
		return err
	}
	r.book.list = append(r.book.list, e)
	return nil
}

func (r *reader) addTerminal(key string, t terminal) error {
	if !protocol.ValidID(t.Store) {
		return r.fault(key, "store", t.Store, notAnID)
	}
	if !protocol.ValidID(t.Terminal) {
		return r.fault(key, "terminal", t.Terminal, notAnID)
	}
	return r.add(key, "terminal", entry{identity: access.TerminalIdentity(t.Store, t.Terminal)}, t.Password)
}

func (r *reader) add(key, named string, e entry, password string) error {
	name := e.identity.Name
	folded := strings.ToLower(name)
	if first, twice := r.folded[folded]; twice {
		return r.fault(key, named, name, fmt.Sprintf("names %q a second time, after %s (case does not tell names apart)", name, first[2:]))
	}
	r.folded[folded] = key
	if password != "" || !e.about.Certificate {
		hash, err := ParseHash(password)
		if err != nil {
			return r.fault(key, "password", password, err.Error())
		}
		e.hash = hash
	}
	r.book.entries[name] = e
	return nil
}

// fault names file, line and key; a member that is missing has its parent's
// line.
func (r *reader) fault(key, member, value, problem string) error {
	if value == "" {
		return r.where.Errorf(key, "%s: %s", member, problem)
	}
	return r.where.Errorf(key+"."+member, "%s", problem)
}
