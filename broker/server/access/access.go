// Package access holds who may publish and who may read what: one table of
// rules, one judge. Whatever no rule names is refused.
//
// It knows neither sockets nor passwords and never looks at payloads.
package access

import (
	"fmt"
	"strings"
)

// Role says what a client may do.
type Role string

// The roles. RoleTerminal is held by terminals only, the others by users.
const (
	RoleTerminal   Role = "terminal"
	RoleTechnician Role = "technician"
	RoleOperator   Role = "operator"
	RoleDeveloper  Role = "developer"
	RoleApprover   Role = "approver"
	RoleAuditor    Role = "auditor"
	RoleDispatcher Role = "dispatcher"
)

// UserRoles lists the roles a user may be given, in a fixed order.
func UserRoles() []Role {
	return []Role{RoleTechnician, RoleOperator, RoleDeveloper, RoleApprover, RoleAuditor, RoleDispatcher}
}

// Identity is who a client has proven to be. Store and Terminal are set for
// terminals only, whose Name is "{store}/{terminal}".
type Identity struct {
	Name     string
	Role     Role
	Store    string
	Terminal string
}

// TerminalIdentity is the identity of one terminal.
func TerminalIdentity(store, terminal string) Identity {
	return Identity{Name: store + "/" + terminal, Role: RoleTerminal, Store: store, Terminal: terminal}
}

// grant is one row of the table. Patterns lie under the topic root, except
// those that begin with "$". {store}, {terminal} and {user} stand for the
// client's own; "+" and "#" mean what they mean in a topic filter.
type grant struct {
	role      Role
	publish   []string
	subscribe []string
}

// table is the whole law. A role that is missing may do nothing.
func table() []grant {
	watch := []string{
		"rep/{user}/#", "runs/#", "info", "trust", "alarms/#", "stores/+/terminals/+/presence",
	}
	oversee := append([]string{"stores/#"}, watch...)
	ask := []string{"req/{user}/+"}
	return []grant{
		{RoleTerminal,
			[]string{
				"stores/{store}/terminals/{terminal}/claim",
				"stores/{store}/terminals/{terminal}/progress",
				"stores/{store}/terminals/{terminal}/ready",
				"stores/{store}/terminals/{terminal}/result",
				"stores/{store}/terminals/{terminal}/hello",
				"stores/{store}/terminals/{terminal}/presence",
			},
			[]string{
				"stores/{store}/tasks/+",
				"stores/{store}/terminals/{terminal}/orders",
				"info",
				"trust",
			}},
		{RoleTechnician, ask, watch},
		{RoleDeveloper, ask, oversee},
		{RoleApprover, ask, oversee},
		{RoleOperator, ask, append([]string{"$SYS/#"}, oversee...)},
		{RoleAuditor, nil, []string{"#"}},
		{RoleDispatcher, []string{"#"}, []string{"#", "$SYS/#"}},
	}
}

// consumed are the topics that headquarters takes in.
func consumed() []string {
	return []string{
		"stores/+/terminals/+/claim",
		"stores/+/terminals/+/progress",
		"stores/+/terminals/+/ready",
		"stores/+/terminals/+/result",
		"stores/+/terminals/+/hello",
		"req/+/+",
	}
}

type pattern []string // levels, the root's among them

type allowed struct{ publish, subscribe []pattern }

// Rules judges under one topic root. Safe for concurrent use.
type Rules struct {
	byRole   map[Role]allowed
	consumed []pattern
	presence pattern
}

// New compiles the table for a topic root such as "muster/v1".
func New(root string) *Rules {
	compile := func(texts []string) []pattern {
		var out []pattern
		for _, text := range texts {
			if !strings.HasPrefix(text, "$") {
				text = root + "/" + text
			}
			out = append(out, strings.Split(text, "/"))
		}
		return out
	}
	r := &Rules{byRole: map[Role]allowed{}, consumed: compile(consumed())}
	for _, g := range table() {
		r.byRole[g.role] = allowed{compile(g.publish), compile(g.subscribe)}
	}
	r.presence = compile([]string{"stores/{store}/terminals/{terminal}/presence"})[0]
	return r
}

// MayPublish reports whether id may publish to a topic.
func (r *Rules) MayPublish(id Identity, topic string) bool {
	if strings.ContainsAny(topic, "+#") {
		return false
	}
	return anyCovers(r.byRole[id.Role].publish, id, topic)
}

// MayRead reports whether id may subscribe to a filter, or be sent a message
// with a topic: everything the filter can match must lie within what the role
// may read. A shared subscription is judged by the filter it shares.
func (r *Rules) MayRead(id Identity, filter string) bool {
	filter, ok := unshare(filter)
	if !ok || !wellFormed(filter) {
		return false
	}
	return anyCovers(r.byRole[id.Role].subscribe, id, filter)
}

// MayRetain reports whether a retained message of id on a topic is kept. A
// terminal keeps its own presence, the dispatcher what it likes, nobody else
// anything.
func (r *Rules) MayRetain(id Identity, topic string) bool {
	return id.Role == RoleDispatcher || r.OwnPresence(id, topic)
}

// MayLeaveWill reports whether id may leave a will on a topic: a terminal on its
// own presence, the dispatcher where it may publish, nobody else anywhere.
func (r *Rules) MayLeaveWill(id Identity, topic string) bool {
	return r.OwnPresence(id, topic) || (id.Role == RoleDispatcher && r.MayPublish(id, topic))
}

// OwnPresence reports whether a topic is the presence of the terminal id.
func (r *Rules) OwnPresence(id Identity, topic string) bool {
	return id.Role == RoleTerminal && covers(r.presence, id, topic)
}

// Consumed reports whether headquarters takes in messages of a topic.
func (r *Rules) Consumed(topic string) bool {
	return anyCovers(r.consumed, Identity{}, topic)
}

// ParseRole returns the user role of a name.
func ParseRole(name string) (Role, error) {
	for _, role := range UserRoles() {
		if string(role) == name {
			return role, nil
		}
	}
	return "", fmt.Errorf("unknown role %q: use one of %v", name, UserRoles())
}
