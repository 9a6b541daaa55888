package users

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"

	"muster/broker/server/access"
	"muster/internal/protocol"
)

// Entry is what the users file says about a user beside the password.
type Entry struct {
	Name string
	Role access.Role
	// Jobs are the jobs that a technician may ask for; nil: every job.
	Jobs []string
	// Stores are the stores that a technician may ask for: all of them when the
	// file does not say. Their labels are as the file has them, unread.
	Stores protocol.Targets
	// Key proves the user's signed requests; nil: the user signs none.
	Key ed25519.PublicKey
	// Certificate says that the user may log in by a certificate.
	Certificate bool
}

// UnmarshalYAML also notes which keys stand in the entry. One without a value is
// there too: nobody shall take "jobs:" for "no job".
func (u *user) UnmarshalYAML(decode func(any) error) error {
	type plain user // without this method
	if err := decode((*plain)(u)); err != nil {
		return err
	}
	return decode(&u.given)
}

func (u user) gives(key string) bool {
	_, ok := u.given[key]
	return ok
}

// about reads what a user's entry says beside name, role and password. It
// returns the member that is wrong and why.
func (u user) about(e *Entry) (member, problem string) {
	e.Stores = protocol.Targets{All: true}
	for _, member := range []string{"jobs", "stores"} {
		if u.gives(member) && e.Role != access.RoleTechnician {
			return member, fmt.Sprintf("binds technicians only, and this user is a %s: remove it", e.Role)
		}
	}
	if u.gives("jobs") {
		jobs, ok := ids(u.Jobs)
		if !ok {
			return "jobs", "is not a list of job names: leave it out to allow every job"
		}
		e.Jobs = jobs
	}
	if u.gives("stores") {
		stores, ok := targets(u.Stores)
		if !ok {
			return "stores", `is not "all", a list of store ids in quotes, or {labels: "key=value"}: leave it out to allow every store`
		}
		e.Stores = stores
	}
	if u.gives("key") {
		key, ok := publicKey(u.Key)
		if !ok {
			return "key", "is not the base64 of an Ed25519 public key of 32 bytes"
		}
		e.Key = key
	}
	e.Certificate = u.Certificate
	return "", ""
}

// targets reads the three forms of a run request's stores.
func targets(value any) (protocol.Targets, bool) {
	switch v := value.(type) {
	case string:
		return protocol.Targets{All: true}, v == "all"
	case map[string]any:
		labels, ok := v["labels"].(string)
		return protocol.Targets{Labels: labels}, ok && labels != "" && len(v) == 1
	}
	stores, ok := ids(value)
	return protocol.Targets{Stores: stores}, ok
}

// ids reads a list of at least one id, each of them once.
func ids(value any) ([]string, bool) {
	list, ok := value.([]any)
	var out []string
	for _, item := range list {
		id, isText := item.(string)
		if !isText || !protocol.ValidID(id) || slices.Contains(out, id) {
			return nil, false
		}
		out = append(out, id)
	}
	return out, ok && len(out) > 0
}

func publicKey(text string) (ed25519.PublicKey, bool) {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	return key, err == nil && len(key) == ed25519.PublicKeySize
}

// CheckCertificates returns an error that names file, line and key when the
// book does not fit its listeners: where they check certificates a terminal has
// no password, and where they do not nobody can show one.
func (b *Book) CheckCertificates(checked bool) error {
	if checked && len(b.entries) > len(b.list) {
		return b.where.Errorf("$.terminals[0].password", "lets nobody in: with client_ca_file set a terminal "+
			"proves itself by its certificate; remove what stands under terminals, and enrol each (dispatcher enroll STORE TERMINAL)")
	}
	for i, e := range b.list {
		if e.Certificate && !checked {
			return b.where.Errorf(fmt.Sprintf("$.users[%d].certificate", i), "no listener checks certificates: "+
				"set client_ca_file on listeners.tls or listeners.ws of the broker, or remove it")
		}
	}
	return nil
}
