// Package users reads the file of users and terminals and checks passwords.
//
// It never holds a password in the clear beyond a call, never writes one
// anywhere, and knows nothing of MQTT.
package users

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"muster/broker/server/access"
	"muster/internal/protocol"
)

// Book holds who may log in. Immutable once loaded.
type Book struct{ entries map[string]entry }

type entry struct {
	identity access.Identity
	hash     Hash
}

// Len is how many users and terminals the book holds.
func (b *Book) Len() int { return len(b.entries) }

// file is the users file. Passwords are PHC strings of argon2id.
type file struct {
	Users []struct {
		Name     string `yaml:"name"`
		Role     string `yaml:"role"`
		Password string `yaml:"password"`
	} `yaml:"users"`
	Terminals []struct {
		Store    string `yaml:"store"`
		Terminal string `yaml:"terminal"`
		Password string `yaml:"password"`
	} `yaml:"terminals"`
}

// Load reads a users file. An error names file, line and key: an unknown key, a
// role that does not exist, a name used twice (also when only the case
// differs), an id that is not quoted, and a password that is not a sound hash.
func Load(path string) (*Book, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read users: %w", err)
	}
	book, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	return book, nil
}

func parse(path string, data []byte) (*Book, error) {
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	var f file
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	r := reader{path: path, tree: tree, book: &Book{entries: map[string]entry{}}, folded: map[string]string{}}
	for i, u := range f.Users {
		key := fmt.Sprintf("users[%d]", i)
		role, roleErr := access.ParseRole(u.Role)
		switch {
		case !protocol.ValidID(u.Name):
			return nil, r.fault(key+".name", "is not an id of 1 to 63 of A-Z a-z 0-9 . _ -")
		case roleErr != nil:
			return nil, r.fault(key+".role", roleErr.Error())
		}
		if err := r.add(key, key+".name", access.Identity{Name: u.Name, Role: role}, u.Password); err != nil {
			return nil, err
		}
	}
	for i, t := range f.Terminals {
		key := fmt.Sprintf("terminals[%d]", i)
		for _, id := range []struct{ key, value string }{{key + ".store", t.Store}, {key + ".terminal", t.Terminal}} {
			if !r.quoted(id.key) {
				return nil, r.fault(id.key, `must be text: put it in quotes, such as "007"`)
			}
			if !protocol.ValidID(id.value) {
				return nil, r.fault(id.key, "is not an id of 1 to 63 of A-Z a-z 0-9 . _ -")
			}
		}
		if err := r.add(key, key+".terminal", access.TerminalIdentity(t.Store, t.Terminal), t.Password); err != nil {
			return nil, err
		}
	}
	return r.book, nil
}

type reader struct {
	path   string
	tree   *ast.File
	book   *Book
	folded map[string]string // key of the entry by its name in lower case
}

func (r *reader) add(key, nameKey string, id access.Identity, password string) error {
	folded := strings.ToLower(id.Name)
	if first, twice := r.folded[folded]; twice {
		return r.fault(nameKey, fmt.Sprintf("names %q a second time, after %s (case does not tell names apart)", id.Name, first))
	}
	r.folded[folded] = key
	hash, err := ParseHash(password)
	if err != nil {
		return r.fault(key+".password", err.Error())
	}
	r.book.entries[id.Name] = entry{identity: id, hash: hash}
	return nil
}

// fault names file, line and key. A key that is missing has the line of its
// parent.
func (r *reader) fault(key, problem string) error {
	line := 0
	for at := key; line == 0 && at != ""; {
		if node := r.node(at); node != nil {
			line = node.GetToken().Position.Line
		}
		cut := strings.LastIndexAny(at, ".[")
		at = at[:max(cut, 0)]
	}
	return fmt.Errorf("%s:%d: %s: %s", r.path, max(line, 1), key, problem)
}

func (r *reader) node(key string) ast.Node {
	at, err := yaml.PathString("$." + key)
	if err != nil {
		return nil
	}
	node, err := at.FilterFile(r.tree)
	if err != nil {
		return nil
	}
	return node
}

// quoted reports whether a value is text in the file, not a number that only
// looks like an id: 007 would lose its zeros.
func (r *reader) quoted(key string) bool {
	node := r.node(key)
	if node == nil {
		return true // missing: the id check says so
	}
	_, text := node.(*ast.StringNode)
	return text
}
