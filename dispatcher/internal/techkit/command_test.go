package techkit_test

import (
	"archive/zip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/broker/server/users"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/techkit"
	"muster/internal/protocol"
)

const password = "a kit's own secret"

// house is headquarters' folder with a user of every role, bob, whose stores are those of
// the south, and carl, who logs in with a certificate. Its broker listens on an address
// and is known by the names.
func house(t *testing.T, listens string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := identity.Create(filepath.Join(dir, "identity"), names, time.Now()); err != nil {
		t.Fatal(err)
	}
	hash, err := users.HashPassword([]byte(password))
	if err != nil {
		t.Fatal(err)
	}
	list := "users:\n  - {name: carl, role: technician, certificate: true}\n"
	for _, role := range people.Roles() {
		list += fmt.Sprintf("  - {name: %s, role: %s, password: %q}\n", role, role, hash)
	}
	write(t, dir, "users.yaml", list+fmt.Sprintf("  - {name: bob, role: technician, stores: {labels: \"region=south\"}, password: %q}\n", hash))
	write(t, dir, "stores.csv", "store_id,name,time_zone,labels\nN1,n,UTC,region=north\nS1,s,UTC,region=south\nS2,s,UTC,region=south\n")
	return write(t, dir, "dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
identity: {folder: identity}
broker:
  anonymous: false
  users_file: users.yaml
  listeners:
    tcp: {address: ""}
    tls: {address: %q, cert_file: identity/broker.crt, key_file: identity/broker.key, client_ca_file: identity/ca.crt, crl_file: identity/crl.pem}
enrolment: {address: ""}
`, listens))
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pack packs a kit and returns its files, and what was said beside.
func pack(t *testing.T, args ...string) (kit map[string]string, warned string, err error) {
	t.Helper()
	packed := filepath.Join(t.TempDir(), "kit.zip")
	var said strings.Builder
	cmd := techkit.Command()
	cmd.SetArgs(append(args, "--out", packed))
	cmd.SetOut(io.Discard)
	cmd.SetErr(&said)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		if _, there := os.Lstat(packed); there == nil {
			t.Errorf("%s: a kit is left", args)
		}
		return nil, said.String(), err
	}
	archive, err := zip.OpenReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	kit = map[string]string{}
	for _, f := range archive.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		kit[filepath.Base(f.Name)] = string(text)
	}
	return kit, said.String(), nil
}

// TestALaptopIsGivenANameOfAnotherMachine: the certificate's first that is one, wherever
// the broker listens; without any, whoever packs it is told that no laptop can use it.
func TestALaptopIsGivenANameOfAnotherMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listens string
		names   []string
		asked   string
		want    string
		warned  bool
	}{
		{"0.0.0.0:8883", []string{"hq.example.com", "localhost", "127.0.0.1"}, "", "-h hq.example.com\n-p 8883\n", false},
		{"0.0.0.0:8883", []string{"localhost", "hq.example.com", "192.0.2.7"}, "", "-h hq.example.com\n-p 8883\n", false},
		{"127.0.0.1:8883", []string{"localhost", "127.0.0.1", "192.0.2.7"}, "", "-h 192.0.2.7\n-p 8883\n", false},
		{"192.0.2.9:8883", []string{"localhost"}, "", "-h 192.0.2.9\n-p 8883\n", false},
		{"127.0.0.1:8883", []string{"localhost", "127.0.0.1"}, "", "-h 127.0.0.1\n-p 8883\n", true},
		{"0.0.0.0:8883", []string{"localhost", "127.0.0.1"}, "", "-h localhost\n-p 8883\n", true},
		{"127.0.0.1:8883", []string{"localhost"}, "hq.example.com:9", "-h hq.example.com\n-p 9\n", false},
		{"127.0.0.1:8883", []string{"localhost"}, "localhost", "-h localhost\n-p 8883\n", false},
	} {
		kit, warned, err := pack(t, "operator", "-c", house(t, c.listens, c.names...), "--host", c.asked)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if !strings.Contains(kit["mosquitto_sub"], c.want) || strings.Contains(warned, "this machine itself") != c.warned || !c.warned && warned != "" {
			t.Errorf("%+v: got %s, warned %q", c, kit["mosquitto_sub"], warned)
		}
	}
}

// TestAWrongPasswordIsNotPacked: the kit would lock its user out at the first try.
func TestAWrongPasswordIsNotPacked(t *testing.T) {
	t.Parallel()
	config := house(t, "0.0.0.0:8883", "hq.example.com")
	dir := t.TempDir()
	right, wrong := write(t, dir, "right", "\ufeff"+password+"\r\n"), write(t, dir, "wrong", password+" \n")
	kit, _, err := pack(t, "bob", "-c", config, "--password-file", right)
	if err != nil || !strings.Contains(kit["mosquitto_pub"], "\n-P "+password+"\n") {
		t.Errorf("the right one: %v, %s", err, kit["mosquitto_pub"])
	}
	for user, want := range map[string]string{"bob": "is not that of bob in ", "carl": "has no password of carl, who logs in with a certificate"} {
		if _, _, err := pack(t, user, "-c", config, "--password-file", wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", user, err, want)
		}
	}
}

// TestASheetHasWhatItsUserMaySend: each of the role's verbs and no other one; whoever may
// send nothing has nothing to send with.
func TestASheetHasWhatItsUserMaySend(t *testing.T) {
	t.Parallel()
	config := house(t, "0.0.0.0:8883", "hq.example.com")
	asks := regexp.MustCompile(`(?m)^    (?:\./ask\.sh|\.\\ask\.ps1) ([a-z]+)`)
	topics := regexp.MustCompile(`muster/v1/req/(\w+)/(\w+)`)
	for _, role := range people.Roles() {
		kit, _, err := pack(t, string(role), "-c", config)
		if err != nil {
			t.Fatal(err)
		}
		sends := len(role.Verbs()) > 0
		for _, name := range []string{"ask.sh", "ask.ps1", "mosquitto_pub", "mosquitto_rr"} {
			if _, has := kit[name]; has != sends {
				t.Errorf("%s has %s: %t", role, name, has)
			}
		}
		verbs := map[protocol.Verb]bool{}
		for _, sheet := range []string{"cheatsheet.en.md", "cheatsheet.zh-CN.md"} {
			for _, found := range asks.FindAllStringSubmatch(kit[sheet], -1) {
				verbs[protocol.Verb(found[1])] = true
			}
			if strings.Contains(kit[sheet], "ask.") != sends || strings.Contains(kit[sheet], "mosquitto_rr") != sends {
				t.Errorf("%s of %s:\n%s", sheet, role, kit[sheet])
			}
			for _, found := range topics.FindAllStringSubmatch(kit[sheet], -1) {
				if verbs[protocol.Verb(found[2])] = true; found[1] != string(role) {
					t.Errorf("%s of %s has %s", sheet, role, found[0])
				}
			}
		}
		want := slices.Sorted(slices.Values(role.Verbs()))
		if got := slices.Sorted(maps.Keys(verbs)); !slices.Equal(got, want) {
			t.Errorf("the sheets of %s have %q, want %q", role, got, want)
		}
	}
}

// TestASheetNamesStoresOfItsUser, and without a register that can be read none.
func TestASheetNamesStoresOfItsUser(t *testing.T) {
	t.Parallel()
	config := house(t, "0.0.0.0:8883", "hq.example.com")
	named := regexp.MustCompile(`"(?:stores|storeId)":("all"|"\w+"|\[[^]]*\]|\{.*?\})`)
	said := func(user string) (list []string, warned string) {
		kit, warned, err := pack(t, user, "-c", config)
		if err != nil {
			t.Fatal(err)
		}
		for _, sheet := range []string{"cheatsheet.en.md", "cheatsheet.zh-CN.md"} {
			for _, found := range named.FindAllStringSubmatch(kit[sheet], -1) {
				list = append(list, found[1])
			}
		}
		slices.Sort(list)
		return slices.Compact(list), warned
	}
	for user, want := range map[string][]string{
		"bob":      {`"S1"`, `["S1","S2"]`, `["S1"]`, `{"labels":"region=south"}`},
		"operator": {`"N1"`, `"all"`, `["N1","S1"]`, `["N1"]`, `{"allBut":["N1"]}`, `{"labels":"region=south"}`},
		"approver": {`"N1"`},
	} {
		if got, warned := said(user); !slices.Equal(got, want) || warned != "" {
			t.Errorf("%s: got %q, warned %q", user, got, warned)
		}
	}
	write(t, filepath.Dir(config), "stores.csv", "store_id\n")
	if got, warned := said("bob"); !slices.Equal(got, []string{`{"labels":"region=south"}`}) || !strings.Contains(warned, "fewer examples") {
		t.Errorf("without a register: got %q, warned %q", got, warned)
	}
}
