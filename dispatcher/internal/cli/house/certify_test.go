package house_test

import (
	"crypto/tls"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/cli/house"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/identity"
	"muster/internal/trust"
)

// office is an identity folder, and one for the certificates of users.
func office(t *testing.T) (authority *identity.Identity, folder, out string) {
	t.Helper()
	dir := t.TempDir()
	folder, out = filepath.Join(dir, "identity"), filepath.Join(dir, "people")
	if err := identity.Create(folder, []string{"hq"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	authority, err := identity.Open(folder, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return authority, folder, out
}

// TestCertifyNamesItsUserAlone; that it opens a broker's door shows
// TestACertificateLogsIn.
func TestCertifyNamesItsUserAlone(t *testing.T) {
	t.Parallel()
	id, folder, out := office(t)
	said, errs, code := run(t, house.CertifyCommand(), "wang", "li", "--identity", folder, "--out", out, "--lifetime", "1h")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, user := range []string{"wang", "li"} {
		cert, key := filepath.Join(out, user+".crt"), filepath.Join(out, user+".key")
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := pair.Leaf.CheckSignatureFrom(id.Certificate()); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		holder, err := trust.HolderOf(pair.Leaf)
		if err != nil || holder != (trust.Holder{User: user}) {
			t.Errorf("%s is certified as %+v, %v", user, holder, err)
		}
		if left := time.Until(pair.Leaf.NotAfter); left < 58*time.Minute || left > time.Hour {
			t.Errorf("%s has %s", user, left)
		}
		if !strings.Contains(said, user+" logs in with "+cert+" and "+key+" until ") {
			t.Errorf("said %s", said)
		}
		if err := trust.CheckPrivate(key); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(out, "ca.crt")); err != nil || string(text) != string(id.Authority()) {
		t.Errorf("the authority's certificate is not beside them: %v", err)
	}
}

func TestCertifyKeepsWhatIsStillGood(t *testing.T) {
	t.Parallel()
	_, folder, out := office(t)
	certify := func(args ...string) {
		t.Helper()
		if _, errs, code := run(t, house.CertifyCommand(), append(args, "--identity", folder, "--out", out, "--keep")...); code != 0 {
			t.Fatal(errs)
		}
	}
	certify("wang")
	certify("li", "--lifetime", "1h")
	before := contents(t, out)
	certify("wang", "li")
	after := contents(t, out)
	path := func(name string) string { return filepath.Join(out, name) }
	for name, same := range map[string]bool{"wang.key": true, "wang.crt": true, "li.key": false, "li.crt": false, "ca.crt": true} {
		if (before[path(name)] == after[path(name)]) != same {
			t.Errorf("%s: kept is not %v", name, same)
		}
	}
	certify("li")
	if !maps.Equal(after, contents(t, out)) {
		t.Error("what was made anew is not kept")
	}
	// Another authority's is good for nothing.
	_, other, _ := office(t)
	if _, errs, code := run(t, house.CertifyCommand(), "wang", "--identity", other, "--out", out, "--keep"); code != 0 {
		t.Fatal(errs)
	}
	if contents(t, out)[path("wang.crt")] == after[path("wang.crt")] {
		t.Error("the certificate of another authority is kept")
	}
}

func TestCertifyRefusesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	_, folder, out := office(t)
	if _, errs, code := run(t, house.CertifyCommand(), "wang", "--identity", folder, "--out", out); code != 0 {
		t.Fatal(errs)
	}
	before := contents(t, out)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"again":      {[]string{"li", "wang", "--identity", folder}, "wang.key exists already: name another folder, or use --keep"},
		"name":       {[]string{"li", "a b", "--identity", folder}, `user "a b" must be`},
		"lifetime":   {[]string{"li", "--identity", folder, "--lifetime", "-1h"}, "--lifetime -1h0m0s must be more than 0"},
		"identity":   {[]string{"li", "--identity", filepath.Join(out, "none")}, "none"},
		"nobody":     {[]string{"--identity", folder}, "requires at least 1 arg"},
		"not a name": {[]string{"../li", "--identity", folder}, `user "../li" must be`},
	} {
		if _, errs, code := run(t, house.CertifyCommand(), append(c.args, "--out", out)...); code != screen.ExitRefused || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", name, code, errs)
		}
	}
	if !maps.Equal(before, contents(t, out)) {
		t.Error("a refused command left files")
	}
}
