package users_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/broker/server/access"
	"muster/broker/server/users"
)

func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := users.HashPassword([]byte(password))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func load(t *testing.T, text string) (*users.Book, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return users.Load(path)
}

func TestLoadAndVerify(t *testing.T) {
	book, err := load(t, "users:\n  - name: alice\n    role: technician\n    password: \""+hash(t, "wonderland")+"\"\n"+
		"terminals:\n  - store: \"007\"\n    terminal: \"1E5\"\n    password: "+hash(t, "terminal-secret")+"\n")
	if err != nil {
		t.Fatal(err)
	}
	v := users.NewVerifier(book, nil)
	for _, c := range []struct {
		name, password string
		want           access.Identity
	}{
		{"alice", "wonderland", access.Identity{Name: "alice", Role: access.RoleTechnician}},
		{"alice", "wonderland", access.Identity{Name: "alice", Role: access.RoleTechnician}}, // from the digest
		{"007/1E5", "terminal-secret", access.TerminalIdentity("007", "1E5")},
		{"alice", "Wonderland", access.Identity{}},
		{"alice", "", access.Identity{}},
		{"alice", "terminal-secret", access.Identity{}},
		{"Alice", "wonderland", access.Identity{}},
		{"7/1E5", "terminal-secret", access.Identity{}},
		{"mallory", "wonderland", access.Identity{}},
		{"", "", access.Identity{}},
	} {
		id, err := v.Verify(t.Context(), users.Attempt{Name: c.name, Password: []byte(c.password)})
		if id != c.want || errors.Is(err, users.ErrWrong) != (c.want == access.Identity{}) {
			t.Errorf("%s with %q: %+v %v", c.name, c.password, id, err)
		}
	}
}

func TestVerifyGivesUpWaitingWithItsContext(t *testing.T) {
	book, err := load(t, "users: []\n")
	if err != nil {
		t.Fatal(err)
	}
	v := users.NewVerifier(book, nil)
	release := v.OccupyAll()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Verify(ctx, users.Attempt{Name: "alice", Password: []byte("x")}); !errors.Is(err, context.Canceled) {
		t.Errorf("verified without a slot: %v", err)
	}
}

func TestLoadNamesFileLineAndKey(t *testing.T) {
	good := hash(t, "wonderland")
	weak := strings.Replace(good, "m=19456", "m=4096", 1)
	costly := strings.Replace(good, "m=19456", "m=4194304", 1)
	one := "users:\n  - name: alice\n    role: technician\n    password: "
	for name, c := range map[string]struct{ text, want string }{
		"plain":          {one + "hunter22\n", "users.yaml:4: users[0].password: is not an argon2id hash"},
		"number":         {one + "12345678\n", "users.yaml:4: users[0].password: "},
		"empty":          {one + "\"\"\n", "users.yaml:2: users[0]: password: is empty"},
		"missing":        {"users:\n  - name: alice\n    role: technician\n", "users.yaml:2: users[0]: password: is empty"},
		"weak":           {one + weak + "\n", "users.yaml:4: users[0].password: is too weak: m=4096, at least 19456 is needed"},
		"one pass":       {one + strings.Replace(good, "t=2", "t=1", 1) + "\n", "is too weak: t=1"},
		"costly":         {one + costly + "\n", "users.yaml:4: users[0].password: is too costly"},
		"other variant":  {one + strings.Replace(good, "argon2id", "argon2i", 1) + "\n", "is not an argon2id hash"},
		"bcrypt":         {one + "$2y$10$abcdefghijklmnopqrstuu\n", "is not an argon2id hash"},
		"other version":  {one + strings.Replace(good, "v=19", "v=16", 1) + "\n", "is not of argon2 version 19"},
		"short salt":     {one + "$argon2id$v=19$m=19456,t=2,p=1$YWJj$" + good[strings.LastIndex(good, "$")+1:] + "\n", "has a salt of 3 bytes"},
		"short key":      {one + good[:strings.LastIndex(good, "$")] + "$YWJj\n", "has a hash of 3 bytes"},
		"not base64":     {one + good[:strings.LastIndex(good, "$")] + "$!!\n", "has a hash that is not base64"},
		"unknown role":   {"users:\n  - name: alice\n    role: king\n    password: " + good + "\n", `users.yaml:3: users[0].role: unknown role "king"`},
		"terminal role":  {"users:\n  - name: alice\n    role: terminal\n    password: " + good + "\n", `users.yaml:3: users[0].role: unknown role "terminal"`},
		"bad name":       {"users:\n  - name: a/b\n    role: technician\n    password: " + good + "\n", "users.yaml:2: users[0].name: is not an id"},
		"unknown key":    {one + good + "\n    admin: true\n", `users.yaml:5: unknown field "admin"`},
		"twice":          {one + good + "\n  - name: ALICE\n    role: operator\n    password: " + good + "\n", "users.yaml:5: users[1].name: names \"ALICE\" a second time, after users[0]"},
		"unquoted store": {"terminals:\n  - store: 007\n    terminal: pos1\n    password: " + good + "\n", "users.yaml:2: terminals[0].store: "},
		"not yaml":       {"users: [\n", "users.yaml:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), "12345678") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

func TestHashesDiffer(t *testing.T) {
	first, second := hash(t, "wonderland"), hash(t, "wonderland")
	if first == second {
		t.Error("two hashes of one password are equal: no salt")
	}
}

func TestHashPasswordTakesOneLineThatPeopleCanType(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1234567":                    "fewer than 8 bytes: choose a longer one",
		strings.Repeat("p", 1025):    "8 to 1024 bytes",
		"correct\thorse":             "without control characters",
		"correct horse\nand another": "one line",
		"correct \xff horse":         "UTF-8",
		"\ufeffcorrect horse":        "one line of",
		"Password":                   "everybody guesses: choose another",
	} {
		if _, err := users.HashPassword([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := users.HashFrom(strings.NewReader("correct horse\nand another\n")); err == nil || !strings.Contains(err.Error(), "it holds more than one line: write one") {
		t.Errorf("two lines: %v", err)
	}
	text, err := users.HashFrom(strings.NewReader("\ufeff密码正确马电池\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if h, err := users.ParseHash(text); err != nil || !h.Matches([]byte("密码正确马电池")) {
		t.Errorf("it is not the hash of the password without what an editor put around it: %v", err)
	}
}

func TestAUsersFileHasABound(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("users:\n")
	for range users.MaxEntries + 1 {
		b.WriteString("- {}\n")
	}
	if _, err := load(t, b.String()); err == nil || !strings.Contains(err.Error(), "names 50001 users and terminals; at most 50000 may log in by it") {
		t.Errorf("too many: %v", err)
	}
	if _, err := load(t, "# "+strings.Repeat("x", users.MaxFileBytes)); err == nil || !strings.Contains(err.Error(), "has more than 16777216 bytes") {
		t.Errorf("too large: %v", err)
	}
}
