package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"muster/internal/doctor"
	"muster/tests/programs"
)

// newHeadquarters is the configuration of one that init has made.
func newHeadquarters(t *testing.T) (config, folder string) {
	t.Helper()
	programs.BareEnvironment(t)
	folder = filepath.Join(t.TempDir(), "hq")
	var said bytes.Buffer
	if code := run(t.Context(), []string{"init", folder, "--host", "localhost", "--certificate"}, &said, &said); code != 0 {
		t.Fatalf("exit %d: %s", code, said.String())
	}
	if err := os.WriteFile(filepath.Join(folder, "stores.csv"), []byte("store_id,name,time_zone,labels\nA001,One,UTC,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "dispatcher.yaml"), folder
}

// examined is what doctor says of one thing.
func examined(t *testing.T, config, check string) doctor.Finding {
	t.Helper()
	var said bytes.Buffer
	run(t.Context(), []string{"doctor", "-c", config, "--json"}, &said, &said)
	var all doctor.Findings
	if err := json.Unmarshal(said.Bytes(), &all); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	for _, one := range all.Findings {
		if one.Check == check {
			return one
		}
	}
	t.Fatalf("doctor does not look at %s: %s", check, said.String())
	return doctor.Finding{}
}

// TestDoctorMendsAMissingCertificateAsTheStartDoes: no start makes it again.
func TestDoctorMendsAMissingCertificateAsTheStartDoes(t *testing.T) {
	config, folder := newHeadquarters(t)
	if found := examined(t, config, "certificate of the broker"); found.State != doctor.Well {
		t.Fatalf("of a new headquarters: %+v", found)
	}
	if err := os.Remove(filepath.Join(folder, "identity", "broker.crt")); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if code := run(t.Context(), []string{"serve", "-c", config}, &said, &said); code == 0 || !strings.Contains(said.String(), "restore it from a backup") {
		t.Errorf("the start: %d, %s", code, said.String())
	}
	if found := examined(t, config, "certificate of the broker"); found.State != doctor.Ill || !strings.Contains(found.Mend, "restore it from a backup") {
		t.Errorf("got %+v", found)
	}
}

// TestAUsersFileThatOthersMayWriteIsNamed, as the files of the identity are.
func TestAUsersFileThatOthersMayWriteIsNamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("rights are kept elsewhere")
	}
	config, folder := newHeadquarters(t)
	const check = "users, certificates and identity files"
	users := filepath.Join(folder, "users.yaml")
	for mode, c := range map[os.FileMode]struct {
		state doctor.State
		words string
	}{0o600: {doctor.Well, ""}, 0o644: {doctor.Watch, "everybody may read it"}, 0o666: {doctor.Ill, "others may write it"}} {
		if err := os.Chmod(users, mode); err != nil {
			t.Fatal(err)
		}
		if found := examined(t, config, check); found.State != c.state || !strings.Contains(found.Text, c.words) {
			t.Errorf("%04o: doctor says %+v", mode, found)
		}
		var said, errs bytes.Buffer
		if code := run(t.Context(), []string{"check-config", "-c", config}, &said, &errs); code != 0 || (errs.Len() > 0) != (c.words != "") || !strings.Contains(errs.String(), c.words) {
			t.Errorf("%04o: check-config: %d, %s%s", mode, code, said.String(), errs.String())
		}
	}
}
