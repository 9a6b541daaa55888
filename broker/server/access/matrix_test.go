package access_test

import (
	"slices"
	"strings"
	"testing"

	"muster/broker/server/access"
	"muster/internal/protocol"
)

// The people and machines of the matrix. S1/pos1 and alice are the ones judged,
// the others are whom they must not speak for or listen to.
const (
	ownStore, otherStore = "S1", "S2"
	own, neighbour       = "pos1", "pos2"
	alice, bob           = "alice", "bob"
)

// roles are all of them, the terminals' among them.
func roles() []access.Role { return append([]access.Role{access.RoleTerminal}, access.UserRoles()...) }

func holder(role access.Role) access.Identity {
	if role == access.RoleTerminal {
		return access.TerminalIdentity(ownStore, own)
	}
	return access.Identity{Name: alice, Role: role}
}

func protocolTopics(t *testing.T) protocol.Topics {
	t.Helper()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	return topics
}

// everyTopic lists each topic of the protocol, one's own and others', and some
// that the protocol does not know.
func everyTopic(p protocol.Topics) []string {
	var all []string
	kinds := append(protocol.FromTerminal(), protocol.KindOrders, protocol.KindPresence)
	for _, place := range [][2]string{{ownStore, own}, {ownStore, neighbour}, {otherStore, own}} {
		for _, kind := range kinds {
			all = append(all, p.Terminal(place[0], place[1], kind))
		}
	}
	all = append(all, p.Offer(ownStore, "t1"), p.Offer(otherStore, "t1"))
	for _, user := range []string{alice, bob} {
		for _, verb := range protocol.Verbs() {
			all = append(all, p.Request(user, verb))
		}
		all = append(all, p.LastReply(user), p.Replies(user)+"tool/1")
	}
	for _, kind := range []protocol.RunKind{protocol.RunState, protocol.RunSummary, protocol.RunText} {
		all = append(all, p.Run("r1", kind))
	}
	for _, severity := range []protocol.Severity{protocol.SeverityWarning, protocol.SeverityCritical} {
		all = append(all, p.Alarm(severity, "storage_full"))
	}
	return append(all, p.RunStore("r1", ownStore), p.Info(), p.Trust(),
		p.Root(), p.Root()+"/new", p.Root()+"/stores/S1/terminals/pos1/shell", p.Root()+"/stores/S1/terminals/pos1/claim/x",
		"muster/v2/info", "muster", "elsewhere", "$SYS/broker/uptime", "$share/g/"+p.Info())
}

// under returns those of all that begin with one of the prefixes and a level's
// end, or are one of them.
func under(all []string, prefixes ...string) []string {
	var found []string
	for _, topic := range all {
		for _, prefix := range prefixes {
			if topic == prefix || strings.HasPrefix(topic, prefix+"/") {
				found = append(found, topic)
				break
			}
		}
	}
	return found
}

// mayPublish is what a role may publish, written down apart from the table that
// the broker goes by. What is not here is refused.
func mayPublish(role access.Role, all []string) []string {
	const r = "muster/v1/"
	switch role {
	case access.RoleTerminal:
		return []string{
			r + "stores/S1/terminals/pos1/claim", r + "stores/S1/terminals/pos1/progress", r + "stores/S1/terminals/pos1/ready",
			r + "stores/S1/terminals/pos1/result", r + "stores/S1/terminals/pos1/hello", r + "stores/S1/terminals/pos1/presence",
		}
	case access.RoleTechnician, access.RoleOperator, access.RoleDeveloper, access.RoleApprover:
		return []string{
			r + "req/alice/run", r + "req/alice/cancel", r + "req/alice/status", r + "req/alice/retry",
			r + "req/alice/approve", r + "req/alice/jobs", r + "req/alice/help",
		}
	case access.RoleDispatcher:
		return under(all, "muster/v1")
	case access.RoleAuditor:
	}
	return nil
}

// mayRead is the same for reading.
func mayRead(role access.Role, all []string) []string {
	const r = "muster/v1/"
	presence := []string{r + "stores/S1/terminals/pos1/presence", r + "stores/S1/terminals/pos2/presence", r + "stores/S2/terminals/pos1/presence"}
	watch := append(under(all, r+"rep/alice", r+"runs", r+"alarms", r+"info", r+"trust"), presence...)
	switch role {
	case access.RoleTerminal:
		return []string{r + "stores/S1/tasks/t1", r + "stores/S1/terminals/pos1/orders", r + "info", r + "trust"}
	case access.RoleTechnician:
		return watch
	case access.RoleDeveloper, access.RoleApprover:
		return append(watch, under(all, r+"stores")...)
	case access.RoleOperator:
		return slices.Concat(watch, under(all, r+"stores", "$SYS"))
	case access.RoleAuditor:
		return under(all, "muster/v1")
	case access.RoleDispatcher:
		return under(all, "muster/v1", "$SYS")
	}
	return nil
}

// Invariant I11, over everything there is: each role, each topic, both ways.
func TestEveryRoleOnEveryTopic(t *testing.T) {
	p := protocolTopics(t)
	rules, all := access.New(p.Root()), everyTopic(p)
	for _, role := range append(roles(), "", "nobody") {
		writes, reads := mayPublish(role, all), mayRead(role, all)
		for _, topic := range all {
			if got, want := rules.MayPublish(holder(role), topic), slices.Contains(writes, topic); got != want {
				t.Errorf("%s publishes %s: %v", role, topic, got)
			}
			shared := strings.HasPrefix(topic, "$share/g/") // reading it means reading what it shares
			if got, want := rules.MayRead(holder(role), topic), slices.Contains(reads, strings.TrimPrefix(topic, "$share/g/")); got != want {
				t.Errorf("%s reads %s (shared: %v): %v", role, topic, shared, got)
			}
		}
	}
}

// filters says for each wildcard who may subscribe to it; nobody else may.
func filters() map[string][]access.Role {
	const r = "muster/v1/"
	everybody := []access.Role{access.RoleTechnician, access.RoleOperator, access.RoleDeveloper, access.RoleApprover, access.RoleAuditor, access.RoleDispatcher}
	overseers := []access.Role{access.RoleOperator, access.RoleDeveloper, access.RoleApprover, access.RoleAuditor, access.RoleDispatcher}
	all := []access.Role{access.RoleAuditor, access.RoleDispatcher}
	return map[string][]access.Role{
		"#": nil, "+/#": nil, "/#": nil, "muster/#": nil, "+/v1/#": nil, "muster/+/info": nil, "muster/v2/#": nil,
		r + "#": all, r + "+": all, r + "+/#": all,
		r + "stores/#": overseers, r + "stores/+/tasks/+": overseers, r + "stores/S1/#": overseers, r + "stores/S2/tasks/+": overseers,
		r + "stores/S1/tasks/+": append([]access.Role{access.RoleTerminal}, overseers...),
		r + "stores/S1/tasks/#": overseers, r + "stores/S1/+/+": overseers,
		r + "stores/S1/terminals/pos1/#": overseers, r + "stores/S1/terminals/pos1/+": overseers,
		r + "stores/S1/terminals/+/orders": overseers, r + "stores/+/terminals/pos1/orders": overseers, r + "stores/S2/terminals/pos1/orders": overseers,
		r + "stores/+/terminals/+/presence": everybody, r + "stores/S1/terminals/+/presence": everybody, r + "stores/+/terminals/+/claim": overseers,
		r + "stores/+/terminals/+/+": overseers,
		r + "req/#":                  all, r + "req/+/run": all, r + "req/alice/#": all, r + "req/alice/+": all, r + "req/bob/+": all,
		r + "rep/#": all, r + "rep/+/last": all, r + "rep/alice/#": everybody, r + "rep/alice/+": everybody, r + "rep/bob/#": all, r + "rep/+": all,
		r + "runs/#": everybody, r + "runs/+/text": everybody, r + "runs/r1/stores/+": everybody,
		r + "alarms/#": everybody, r + "alarms/critical/+": everybody,
		r + "info/#": all, r + "trust/#": all,
		"$SYS/#": {access.RoleOperator, access.RoleDispatcher}, "$SYS/broker/+": {access.RoleOperator, access.RoleDispatcher}, "$+/#": nil, "$other/#": nil,
	}
}

// broken are filters that nobody may have, whatever they seem to mean.
func broken() []string {
	const r = "muster/v1/"
	return []string{
		"", "$share", "$share/g", "$share/g/", "$share//" + r + "info", "$share/g+/" + r + "info", "$share/#/" + r + "info",
		"$share/g/$share/h/" + r + "info", r + "runs/#/text", r + "ru#", r + "+a/x", r + "runs/a+/text",
	}
}

func TestEveryRoleOnEveryFilter(t *testing.T) {
	rules := access.New(protocol.DefaultRoot)
	for _, role := range append(roles(), "", "nobody") {
		for filter, who := range filters() {
			want := slices.Contains(who, role)
			for _, f := range []string{filter, "$share/g/" + filter, "$SHARE/g/" + filter} {
				if got := rules.MayRead(holder(role), f); got != want {
					t.Errorf("%s subscribes to %q: %v", role, f, got)
				}
			}
			if strings.ContainsAny(filter, "+#") && rules.MayPublish(holder(role), filter) {
				t.Errorf("%s publishes to the filter %q", role, filter)
			}
		}
		for _, filter := range broken() {
			if rules.MayRead(holder(role), filter) {
				t.Errorf("%s subscribes to %q", role, filter)
			}
		}
	}
}
