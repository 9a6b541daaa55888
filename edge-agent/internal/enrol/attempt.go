package enrol

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"muster/edge-agent/internal/identity"
	"muster/internal/protocol"
)

// attempt is one enrolment and what it leaves in its folder when it fails: the key alone
// that headquarters may have taken, since the same token is answered for no other.
type attempt struct {
	folder string
	new    bool // the folder was not there before
	key    ed25519.PrivateKey
	kept   bool // by an enrolment before that was cut off

	unkept atomic.Pointer[error] // why the key could not be kept
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// keeping has the key kept once headquarters has proven itself, before it is asked.
func (a *attempt) keeping(config *tls.Config) *tls.Config {
	prove := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := prove(state); err != nil || a.kept {
			return err
		}
		err := identity.KeepEnrolmentKey(a.folder, a.key)
		if err != nil {
			a.unkept.Store(&err)
		}
		return err
	}
	return config
}

// failed is why the enrolment failed, after what it must not leave is gone.
func (a *attempt) failed(err error) error {
	if unkept := a.unkept.Load(); unkept != nil {
		return fmt.Errorf("cannot enrol into %s: %w", a.folder, *unkept)
	}
	if !a.over(err) {
		return err
	}
	err = errors.Join(err, identity.DropEnrolmentKey(a.folder))
	if a.new {
		_ = os.Remove(a.folder) // unless it holds something
	}
	return err
}

// over tells whether headquarters takes the key never again, or has not taken it: a key that
// it refuses, unless another enrolment left it, and one that is revoked.
func (a *attempt) over(err error) bool {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return false
	}
	revoked := refusal.Code == protocol.CodeConflict && refusal.Path == "/csr"
	return revoked || !a.kept && refusal.Status < http.StatusInternalServerError
}
