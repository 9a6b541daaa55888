// Package people says who may ask headquarters for what: which verbs a role
// has, which jobs and stores a person may order, and whose signature proves a
// request.
//
// It authenticates nobody (the broker does), reads no file and keeps no state:
// what it is not told is refused.
package people

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"muster/dispatcher/internal/selector"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// Person is one user as the list of users has them.
type Person struct {
	Name string
	Role Role
	// Jobs are the names of the jobs that a technician may order; nil: every job.
	Jobs []string
	// Stores are the stores that a technician may order at; zero: none.
	Stores protocol.Targets
	// Key proves their requests where the broker's word is not enough; nil: they
	// have none.
	Key ed25519.PublicKey

	approves bool // beside what the role may
	wanted   selector.Expression
}

// Config is what New takes.
type Config struct {
	Persons []Person
	// Anonymous: there is no list. Everybody is an operator who may approve too.
	Anonymous bool
	// RequireSigned: what changes something is believed only with the signature
	// of its user, because a broker that is not ours says who it was.
	RequireSigned bool
}

// People is who may ask. It is safe for concurrent use.
type People struct{ now atomic.Pointer[list] }

// list never changes after it was made.
type list struct {
	persons   map[string]Person
	anonymous bool
	signed    bool
}

// New checks the list: roles, names, keys and label expressions. The error names
// the user.
func New(cfg Config) (*People, error) {
	all := &list{persons: map[string]Person{}, anonymous: cfg.Anonymous, signed: cfg.RequireSigned}
	for _, person := range cfg.Persons {
		if err := person.check(); err != nil {
			return nil, fmt.Errorf("cannot take user %q: %w", person.Name, err)
		}
		if _, twice := all.persons[person.Name]; twice {
			return nil, fmt.Errorf("cannot take user %q: the name stands twice", person.Name)
		}
		all.persons[person.Name] = person
	}
	return peopleOf(all), nil
}

// Anonymous is everybody, as without a list.
func Anonymous() *People { return peopleOf(&list{anonymous: true}) }

func peopleOf(all *list) *People {
	p := &People{}
	p.now.Store(all)
	return p
}

// Use takes another list in the place of this one.
func (p *People) Use(other *People) { p.now.Store(other.now.Load()) }

func (p *Person) check() error {
	switch {
	case !protocol.ValidID(p.Name):
		return fmt.Errorf("the name must be 1 to 63 of A-Z a-z 0-9 . _ -")
	case !slices.Contains(Roles(), p.Role):
		return fmt.Errorf("unknown role %q; use one of %v", p.Role, Roles())
	case len(p.Key) != 0 && len(p.Key) != ed25519.PublicKeySize:
		return fmt.Errorf("the key has %d bytes; a public Ed25519 key has %d", len(p.Key), ed25519.PublicKeySize)
	}
	if p.Stores.Labels == "" {
		return nil
	}
	var err error
	p.wanted, err = selector.Parse(p.Stores.Labels)
	return err
}

// Who returns the person of a name, compared exactly. Anybody is somebody
// without a list; with one, a stranger is refused with NOT_ALLOWED.
func (p *People) Who(name string) (Person, error) {
	all := p.now.Load()
	if person, ok := all.persons[name]; ok {
		return person, nil
	}
	if all.anonymous && protocol.ValidID(name) {
		return Person{Name: name, Role: Operator, approves: true}, nil
	}
	return Person{}, &protocol.Error{Code: protocol.CodeNotAllowed,
		Message:   fmt.Sprintf("headquarters knows no user %s", clip(name)),
		MessageZh: fmt.Sprintf("总部没有用户 %s", clip(name)),
		Hint:      "names are compared exactly; an operator of headquarters adds users to its users file",
		HintZh:    "用户名须完全一致；用户由总部管理员添加到用户文件"}
}

// Signed reports whether what changes something must be signed.
func (p *People) Signed() bool { return p.now.Load().signed }

// Believe refuses with NOT_ALLOWED a request that changes something and does not
// carry the person's signature where one is due. topic is the one that the
// request was published on.
func (p *People) Believe(person Person, verb protocol.Verb, topic string, payload []byte, s trust.Signature) error {
	if !p.Signed() || !changes(verb) {
		return nil
	}
	problem, problemZh := "is not signed", "没有签名"
	hint, hintZh := "sign it: dispatcher "+string(verb)+" --key FILE", "请签名后发送：dispatcher "+string(verb)+" --key FILE"
	switch {
	case len(person.Key) == 0:
		problem, problemZh = "cannot be proven: the user has no key", "无法验证：该用户没有登记密钥"
		hint = "make one with: dispatcher request-key FILE; an operator of headquarters puts its public part into the users file"
		hintZh = "请用 dispatcher request-key FILE 生成密钥，公钥由总部管理员写入用户文件"
	case s.IsZero():
	case s.Verify(person.Key, topic, payload) != nil:
		problem, problemZh = "carries a signature that is not of the user's key", "签名与该用户登记的密钥不符"
	default:
		return nil
	}
	return &protocol.Error{Code: protocol.CodeNotAllowed,
		Message:   fmt.Sprintf("the request of %s %s; nothing was done", clip(person.Name), problem),
		MessageZh: fmt.Sprintf("%s 的请求%s，未执行任何操作", clip(person.Name), problemZh),
		Hint:      hint,
		HintZh:    hintZh}
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
