package house_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

const registerHead = "store_id,name,time_zone,labels\n"

// newRegister is a headquarters' folder whose database has what its register says,
// and that does not run.
func newRegister(t *testing.T, lines string) (config, file string, st *store.Store) {
	t.Helper()
	folder := t.TempDir()
	config, file = filepath.Join(folder, "dispatcher.yaml"), filepath.Join(folder, "stores.csv")
	for name, text := range map[string]string{config: "data_folder: data\nstores_file: stores.csv\n", file: registerHead + lines} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{Path: filepath.Join(folder, "data", "muster.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return config, file, st
}

func TestImportTakesGBKAndKeepsIDsAsText(t *testing.T) {
	t.Parallel()
	config, file, _ := newRegister(t, "A1,One,UTC,\nA2,Two,UTC,\n")
	source := filepath.Join(t.TempDir(), "new.csv")
	if err := os.WriteFile(source, []byte(registerHead+"007,\xb5\xea,UTC,\n1E5,x,UTC,region=east\nA1,Other,UTC,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, code := shell(t, "stores", "import", source, "-c", config, "--dry-run"); code != 0 || !strings.Contains(out, "added    2  007 1E5\nchanged  1  A1\nretired  1  A2\n") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("a dry run has written: %q, %v", after, err)
	}
	lone := filepath.Join(t.TempDir(), "one.csv")
	if err := os.WriteFile(lone, []byte(registerHead+"A1,One,UTC,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := shell(t, "stores", "import", lone, "-c", config, "--dry-run"); code != 0 || !strings.HasSuffix(out, " would hold 1 store; nothing was written\n") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	out, errs, code := shell(t, "stores", "import", source, "-c", config, "--json")
	var done struct {
		Stores                  int
		Added, Changed, Retired []string
		Written, InForce        bool
	}
	if err := json.Unmarshal([]byte(out), &done); err != nil || code != 0 || done.Stores != 3 || !done.Written || done.InForce || len(done.Retired) != 1 {
		t.Errorf("%d, %v: %s%s", code, err, out, errs)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != registerHead+"007,店,UTC,\n1E5,x,UTC,region=east\nA1,Other,UTC,\n" {
		t.Errorf("register: %q, %v", after, err)
	}
}

func TestImportAndRetireRefuseAndChangeNothing(t *testing.T) {
	t.Parallel()
	config, file, _ := newRegister(t, "A1,One,UTC,\n")
	twins := filepath.Join(t.TempDir(), "twins.csv")
	if err := os.WriteFile(twins, []byte(registerHead+"B1,x,UTC,\nb1,y,UTC,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"twins":       {[]string{"stores", "import", twins, "-c", config}, twins + `:3: store_id "b1" differs only in case from "B1" in line 2`},
		"no file":     {[]string{"stores", "import", "gone.csv", "-c", config}, "gone.csv"},
		"unknown":     {[]string{"stores", "retire", "a1", "-c", config}, `store "a1" is not on the register`},
		"the last":    {[]string{"stores", "retire", "A1", "-c", config}, "no store would be left"},
		"no register": {[]string{"stores", "retire", "A1"}, "write stores_file into its configuration"},
	} {
		if _, errs, code := shell(t, c.args...); code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d: %s", name, code, errs)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != registerHead+"A1,One,UTC,\n" {
		t.Errorf("register: %q, %v", after, err)
	}
}

func TestRetireAndList(t *testing.T) {
	t.Parallel()
	config, file, st := newRegister(t, "A1,One,UTC,\nA2,上海店,UTC,region=east\n")
	now := time.Now()
	if _, _, _, err := st.ReplacePlaces(t.Context(), "", []store.Place{{StoreID: "A1", Name: "One", TimeZone: "UTC"},
		{StoreID: "A2", Name: "上海店", TimeZone: "UTC", Labels: map[string]string{"region": "east"}}}, now); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := shell(t, "stores", "retire", "A1", "-c", config); code != 0 || !strings.Contains(out, "retired  1  A1\n") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != registerHead+"A2,上海店,UTC,region=east\n" {
		t.Errorf("register: %q, %v", after, err)
	}
	out, errs, code := shell(t, "stores", "list", "-c", config)
	if want := "STORE  NAME    TERMINALS  STATE    LAST SEEN  LABELS\nA1     One                offline  never      \nA2     上海店             offline  never      region=east\n2 stores\n"; code != 0 || out != want {
		t.Errorf("%d: %q, want %q: %s", code, out, want, errs)
	}
	if _, _, _, err := st.ReplacePlaces(t.Context(), "", []store.Place{{StoreID: "A2", Name: "上海店", TimeZone: "UTC"}}, now); err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Store   string
		Retired bool
	}
	out, _, code = shell(t, "stores", "list", "-c", config, "--retired", "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || len(all) != 2 || !all[0].Retired || all[1].Retired {
		t.Errorf("%d, %v: %s", code, err, out)
	}
}

func TestUsersAreListedAndTheirPasswordsHashed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := filepath.Join(folder, "dispatcher.yaml")
	cmd := shellIn(t, "correct horse battery\n", "users", "hash-password")
	hash := strings.TrimSpace(cmd)
	if !strings.HasPrefix(hash, "$argon2id$") {
		t.Fatalf("got %q", hash)
	}
	for name, text := range map[string]string{config: "broker: {anonymous: false, users_file: users.yaml}\n",
		filepath.Join(folder, "users.yaml"): "users:\n  - {name: wang, role: technician, password: \"" + hash + "\", jobs: [collect_log], stores: {labels: \"region=east\"}}\n  - {name: dora, role: approver, certificate: true}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := shell(t, "users", "list", "-c", config)
	if want := "USER  ROLE        LOGS IN BY   SIGNS  JOBS         STORES\nwang  technician  password     no     collect_log  region=east\ndora  approver    certificate  no     -            -\n2 users\n"; code != 0 || out != want {
		t.Errorf("%d: %q, want %q: %s", code, out, want, errs)
	}
	if out, _, code := shell(t, "users", "list", "-c", config, "--json"); code != 0 || strings.Contains(out, "argon2id") || !strings.Contains(out, `"role": "approver"`) ||
		!strings.Contains(out, "\"jobs\": [],\n    \"stores\": []\n") {
		t.Errorf("%d: %s", code, out)
	}
}
