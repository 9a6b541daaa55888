package access_test

import (
	"testing"

	"muster/broker/server/access"
)

const root = "muster/v1/"

func user(role access.Role) access.Identity { return access.Identity{Name: "alice", Role: role} }

// Invariant I11: nobody speaks for another, and nobody reads what is not theirs.
func TestPublish(t *testing.T) {
	rules := access.New("muster/v1")
	pos := access.TerminalIdentity("0001", "pos1")
	for _, c := range []struct {
		id    access.Identity
		topic string
		want  bool
	}{
		{pos, root + "stores/0001/terminals/pos1/claim", true},
		{pos, root + "stores/0001/terminals/pos1/result", true},
		{pos, root + "stores/0001/terminals/pos1/presence", true},
		{pos, root + "stores/0001/terminals/pos1/orders", false},
		{pos, root + "stores/0001/terminals/pos2/claim", false},
		{pos, root + "stores/0002/terminals/pos1/claim", false},
		{pos, root + "stores/0001/terminals/pos1/claim/x", false},
		{pos, root + "stores/0001/terminals/pos1", false},
		{pos, root + "stores/0001/tasks/t1", false},
		{pos, "muster/v2/stores/0001/terminals/pos1/claim", false},
		{pos, root + "stores/0001/terminals/+/claim", false},
		{pos, root + "req/0001/run", false},
		{pos, root + "trust", false},
		{user(access.RoleOperator), root + "trust", false},
		{user(access.RoleDeveloper), root + "req/alice/status", true},
		{user(access.RoleTechnician), root + "req/alice/run", true},
		{user(access.RoleTechnician), root + "req/bob/run", false},
		{user(access.RoleTechnician), root + "req/alice", false},
		{user(access.RoleTechnician), root + "req/alice/run/x", false},
		{user(access.RoleTechnician), root + "rep/alice/last", false},
		{user(access.RoleTechnician), root + "runs/r1/state", false},
		{user(access.RoleOperator), root + "req/alice/cancel", true},
		{user(access.RoleOperator), root + "stores/0001/tasks/t1", false},
		{user(access.RoleAuditor), root + "req/alice/run", false},
		{user(access.RoleDispatcher), root + "stores/0001/tasks/t1", true},
		{user(access.RoleDispatcher), "elsewhere", false},
		{user(access.RoleDispatcher), "$SYS/broker/uptime", false},
		{user("nobody"), root + "info", false},
		{access.Identity{}, root + "req//run", false},
		{access.Identity{Role: access.RoleTerminal}, root + "stores//terminals//claim", false},
	} {
		if got := rules.MayPublish(c.id, c.topic); got != c.want {
			t.Errorf("%s %s publishes %s: %v", c.id.Role, c.id.Name, c.topic, got)
		}
	}
}

func TestSubscribe(t *testing.T) {
	rules := access.New("muster/v1")
	pos := access.TerminalIdentity("0001", "pos1")
	for _, c := range []struct {
		id     access.Identity
		filter string
		want   bool
	}{
		{pos, root + "stores/0001/tasks/+", true},
		{pos, root + "stores/0001/tasks/t1", true},
		{pos, root + "stores/0001/tasks/#", false},
		{pos, root + "stores/+/tasks/+", false},
		{pos, root + "stores/0001/+/+", false},
		{pos, root + "stores/0002/tasks/+", false},
		{pos, root + "stores/0001/terminals/pos1/orders", true},
		{pos, root + "stores/0001/terminals/+/orders", false},
		{pos, root + "stores/0001/terminals/pos1/#", false},
		{pos, root + "info", true},
		{pos, root + "trust", true},
		{pos, root + "#", false},
		{pos, "#", false},
		{pos, "+/+/+", false},
		{pos, "", false},
		{pos, "$share/g/" + root + "stores/0001/tasks/+", true},
		{pos, "$share/g/" + root + "stores/+/tasks/+", false},
		{pos, "$SHARE/g/" + root + "stores/+/tasks/+", false},
		{pos, "$share/g/$share/h/" + root + "info", false},
		{pos, "$share/g", false},
		{pos, "$share//" + root + "info", false},
		{pos, "$share/g+/" + root + "info", false},
		{pos, "$share/g/#", false},
		{pos, "$SYS/#", false},
		{user(access.RoleTechnician), root + "rep/alice/#", true},
		{user(access.RoleTechnician), root + "rep/alice", true}, // rep/alice/# matches it too
		{user(access.RoleTechnician), root + "rep/+/#", false},
		{user(access.RoleTechnician), root + "rep/#", false},
		{user(access.RoleTechnician), root + "rep/bob/last", false},
		{user(access.RoleTechnician), root + "runs/#", true},
		{user(access.RoleTechnician), root + "runs/+/text", true},
		{user(access.RoleTechnician), root + "runs/r#", false},
		{user(access.RoleTechnician), root + "runs/#/text", false},
		{user(access.RoleTechnician), root + "runs/a+b/text", false},
		{user(access.RoleTechnician), root + "stores/+/terminals/+/presence", true},
		{user(access.RoleTechnician), root + "stores/#", false},
		{user(access.RoleTechnician), root + "req/#", false},
		{user(access.RoleTechnician), "$SYS/#", false},
		{user(access.RoleDeveloper), root + "stores/#", true},
		{user(access.RoleApprover), root + "stores/+/tasks/#", true},
		{user(access.RoleDeveloper), root + "req/alice/run", false},
		{user(access.RoleDeveloper), "$SYS/#", false},
		{user(access.RoleOperator), "$SYS/broker/uptime", true},
		{user(access.RoleOperator), root + "rep/bob/#", false},
		{user(access.RoleAuditor), root + "#", true},
		{user(access.RoleAuditor), "$share/g/" + root + "#", true},
		{user(access.RoleAuditor), "muster/#", false},
		{user(access.RoleAuditor), "+/v1/#", false},
		{user(access.RoleAuditor), "#", false},
		{user(access.RoleAuditor), "$SYS/#", false},
		{user(access.RoleTechnician), root + "trust", true},
		{user(access.RoleDeveloper), root + "trust", true},
		{user(access.RoleApprover), root + "trust", true},
		{user(access.RoleOperator), root + "trust", true},
		{user(access.RoleDispatcher), root + "#", true},
		{user(access.RoleDispatcher), "$SYS/#", true},
		{user("nobody"), root + "info", false},
	} {
		if got := rules.MayRead(c.id, c.filter); got != c.want {
			t.Errorf("%s %s reads %q: %v", c.id.Role, c.id.Name, c.filter, got)
		}
	}
}

func TestRetainAndConsumed(t *testing.T) {
	rules := access.New("muster/v1")
	pos := access.TerminalIdentity("0001", "pos1")
	presence := root + "stores/0001/terminals/pos1/presence"
	if !rules.MayRetain(pos, presence) || rules.MayRetain(pos, root+"stores/0001/terminals/pos2/presence") ||
		rules.MayRetain(user(access.RoleOperator), root+"req/alice/run") || !rules.MayRetain(user(access.RoleDispatcher), root+"info") {
		t.Error("wrong about who may retain")
	}
	for topic, want := range map[string]bool{
		root + "stores/0001/terminals/pos1/claim":  true,
		root + "stores/0001/terminals/pos1/hello":  true,
		root + "stores/0001/terminals/pos1/orders": false,
		presence:                  false,
		root + "req/alice/run":    true,
		root + "req/alice":        false,
		root + "stores/1/tasks/1": false,
	} {
		if got := rules.Consumed(topic); got != want {
			t.Errorf("%s consumed: %v", topic, got)
		}
	}
}

func TestEveryUserRoleParses(t *testing.T) {
	for _, role := range access.UserRoles() {
		if got, err := access.ParseRole(string(role)); err != nil || got != role {
			t.Errorf("%s: %v %v", role, got, err)
		}
	}
	for _, name := range []string{"", "terminal", "Operator", "root"} {
		if _, err := access.ParseRole(name); err == nil {
			t.Errorf("%q is taken for a role", name)
		}
	}
}
