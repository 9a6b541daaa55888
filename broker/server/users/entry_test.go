package users_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"testing"

	"muster/broker/server/access"
	"muster/broker/server/users"
	"muster/internal/protocol"
)

func TestEntriesSayWhatTheFileSays(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	password := "password: \"" + hash(t, "wonderland") + "\""
	book, err := load(t, "users:\n"+
		"  - {name: alice, role: technician, "+password+", jobs: [collect_log, ping], stores: [\"0001\", SH_0312]}\n"+
		"  - {name: bob, role: technician, "+password+", stores: all, certificate: false}\n"+
		"  - {name: carol, role: technician, certificate: true, stores: {labels: \"region=east\"}}\n"+
		"  - {name: dora, role: approver, "+password+", certificate: true, key: "+base64.StdEncoding.EncodeToString(public)+"}\n"+
		"terminals:\n  - {store: \"0001\", terminal: pos1, "+password+"}\n")
	if err != nil {
		t.Fatal(err)
	}
	all := protocol.Targets{All: true}
	want := []users.Entry{
		{Name: "alice", Role: access.RoleTechnician, Jobs: []string{"collect_log", "ping"}, Stores: protocol.Targets{Stores: []string{"0001", "SH_0312"}}},
		{Name: "bob", Role: access.RoleTechnician, Stores: all},
		{Name: "carol", Role: access.RoleTechnician, Stores: protocol.Targets{Labels: "region=east"}, Certificate: true},
		{Name: "dora", Role: access.RoleApprover, Stores: all, Key: public, Certificate: true},
	}
	if got := book.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	for _, w := range want {
		if got, ok := book.Get(w.Name); !ok || !reflect.DeepEqual(got, w) {
			t.Errorf("%s: %+v %v", w.Name, got, ok)
		}
	}
	for _, name := range []string{"", "Alice", "mallory", "0001/pos1"} {
		if got, ok := book.Get(name); ok {
			t.Errorf("%q: %+v", name, got)
		}
	}
	v := users.NewVerifier(book, nil)
	for _, guess := range []string{"", "wonderland", "x"} {
		if _, err := v.Verify(t.Context(), users.Attempt{Name: "carol", Password: []byte(guess)}); !errors.Is(err, users.ErrWrong) {
			t.Errorf("carol has no password, and %q: %v", guess, err)
		}
	}
	if id, err := v.Verify(t.Context(), users.Attempt{Name: "dora", Password: []byte("wonderland")}); err != nil || id.Name != "dora" {
		t.Errorf("dora's password does not count beside her certificate: %v", err)
	}
}

func TestEntriesAreRefusedWithFileLineAndKey(t *testing.T) {
	sound := hash(t, "wonderland")
	key := base64.StdEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize))
	user := func(role, more string) string {
		return "users:\n  - name: alice\n    role: " + role + "\n    password: \"" + sound + "\"\n" + more
	}
	const jobs, stores = `is not a list of job names`, `is not "all", a list of store ids`
	for name, c := range map[string]struct{ text, want string }{
		"jobs a word":        {user("technician", "    jobs: all\n"), "users.yaml:5: users[0].jobs: " + jobs},
		"jobs empty":         {user("technician", "    jobs: []\n"), "users.yaml:5: users[0].jobs: " + jobs},
		"jobs without value": {user("technician", "    jobs:\n"), "users.yaml:5: users[0].jobs: " + jobs},
		"jobs twice":         {user("technician", "    jobs: [a, a]\n"), "users.yaml:5: users[0].jobs: " + jobs},
		"job no id":          {user("technician", "    jobs: [\"a/b\"]\n"), "users.yaml:5: users[0].jobs: " + jobs},
		"stores word":        {user("technician", "    stores: every\n"), "users.yaml:5: users[0].stores: " + stores},
		"stores empty":       {user("technician", "    stores: []\n"), "users.yaml:5: users[0].stores: " + stores},
		"stores void":        {user("technician", "    stores:\n"), "users.yaml:5: users[0].stores: " + stores},
		"store unquoted":     {user("technician", "    stores: [0001]\n"), "users.yaml:5: users[0].stores: " + stores},
		"labels empty":       {user("technician", "    stores: {labels: \"\"}\n"), "users.yaml:5: users[0].stores: " + stores},
		"labels and more":    {user("technician", "    stores: {labels: a=b, all: true}\n"), "users.yaml:5: users[0].stores: " + stores},
		"labels misspelt":    {user("technician", "    stores: {label: a=b}\n"), "users.yaml:5: users[0].stores: " + stores},
		"jobs of operator":   {user("operator", "    jobs: [a]\n"), "users.yaml:5: users[0].jobs: binds technicians only"},
		"stores of approver": {user("approver", "    stores: all\n"), "users.yaml:5: users[0].stores: binds technicians only"},
		"key short":          {user("approver", "    key: AAAA\n"), "users.yaml:5: users[0].key: is not the base64"},
		"key no base64":      {user("approver", "    key: \"!\"\n"), "users.yaml:5: users[0].key: is not the base64"},
		"key void":           {user("approver", "    key:\n"), "users.yaml:5: users[0].key: must be a text, in quotes"},
		"key of two": {user("approver", "    key: "+key+"\n  - name: bob\n    role: operator\n    certificate: true\n    key: "+key+"\n"),
			"users.yaml:9: users[1].key: is the key of alice too"},
		"certificate a word": {user("approver", "    certificate: yes\n"), "users.yaml:5: users[0].certificate: must be true or false"},
		"no way in":          {"users:\n  - name: alice\n    role: operator\n    certificate: false\n", "users.yaml:2: users[0]: password: is empty"},
		"bad password":       {"users:\n  - name: alice\n    role: operator\n    certificate: true\n    password: x\n", "users.yaml:5: users[0].password: is not an argon2id hash"},
		"terminal's key":     {"terminals:\n  - store: a\n    terminal: b\n    key: " + key + "\n", "users.yaml:4: unknown field \"key\""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
