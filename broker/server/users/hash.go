package users

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"

	"muster/internal/files"
)

// Bounds of a hash that a file may hold. Below the lower ones a stolen file is
// cheap to break (OWASP's minimum for argon2id is 19 MiB and two passes); above
// the upper ones a login costs more than the machine has.
const (
	minMemoryKiB, maxMemoryKiB = 19_456, 262_144
	minPasses, maxPasses       = 2, 16
	minLanes, maxLanes         = 1, 8
	minSalt, maxSalt           = 16, 64
	minKey, maxKey             = 32, 64
)

// MinPassword is the fewest bytes HashPassword takes, files.MaxSecret the most.
const MinPassword = 8

// Hash is an argon2id hash of a password.
type Hash struct {
	memoryKiB, passes uint32
	lanes             uint8
	salt, key         []byte
}

func (h Hash) equal(other Hash) bool {
	return h.memoryKiB == other.memoryKiB && h.passes == other.passes && h.lanes == other.lanes &&
		bytes.Equal(h.salt, other.salt) && bytes.Equal(h.key, other.key)
}

// HashPassword returns a new PHC string, "$argon2id$v=19$m=19456,t=2,p=1$…",
// with a random salt. It refuses what is too short, what no file for a password can
// hold (see files.Secret), and with ErrGuessable what everybody guesses.
func HashPassword(password []byte) (string, error) {
	if len(password) < MinPassword {
		return "", fmt.Errorf("cannot hash a password of fewer than %d bytes: choose a longer one", MinPassword)
	}
	if text, err := files.Secret(password); err != nil || text != string(password) {
		return "", fmt.Errorf("cannot hash it: a password is one line of 8 to %d bytes of UTF-8 without control characters", files.MaxSecret)
	}
	if guessable("", password) {
		return "", fmt.Errorf("cannot hash it: %w", ErrGuessable)
	}
	return hashPassword(password)
}

// HashFrom is HashPassword of the one line that r holds.
func HashFrom(r io.Reader) (string, error) {
	password, err := files.SecretFrom(r)
	if err != nil {
		return "", fmt.Errorf("cannot take the password from standard input: it %w", err)
	}
	return HashPassword([]byte(password))
}

func hashPassword(password []byte) (string, error) {
	h := Hash{memoryKiB: minMemoryKiB, passes: minPasses, lanes: minLanes, salt: make([]byte, minSalt)}
	if _, err := rand.Read(h.salt); err != nil {
		return "", fmt.Errorf("cannot make a salt: %w", err)
	}
	h.key = h.derive(password, minKey)
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		h.memoryKiB, h.passes, h.lanes, enc.EncodeToString(h.salt), enc.EncodeToString(h.key)), nil
}

// ParseHash reads a PHC string. Its errors never repeat the text, which may be
// a password in the clear.
func ParseHash(text string) (Hash, error) {
	if text == "" {
		return Hash{}, errors.New("is empty: put the output of hash-password here")
	}
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return Hash{}, errors.New("is not an argon2id hash: put the output of hash-password here, never a password")
	}
	if parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return Hash{}, fmt.Errorf("is not of argon2 version %d", argon2.Version)
	}
	h, err := parseCost(parts[3])
	if err != nil {
		return Hash{}, err
	}
	if h.salt, err = decode("salt", parts[4], minSalt, maxSalt); err != nil {
		return Hash{}, err
	}
	if h.key, err = decode("hash", parts[5], minKey, maxKey); err != nil {
		return Hash{}, err
	}
	return h, nil
}

func parseCost(text string) (Hash, error) {
	fields := strings.Split(text, ",")
	if len(fields) != 3 {
		return Hash{}, errors.New("has no cost of the form m=,t=,p=")
	}
	values := [3]int{}
	for i, f := range []struct {
		name   string
		lo, hi int
	}{{"m", minMemoryKiB, maxMemoryKiB}, {"t", minPasses, maxPasses}, {"p", minLanes, maxLanes}} {
		digits, ok := strings.CutPrefix(fields[i], f.name+"=")
		n, err := strconv.Atoi(digits)
		switch {
		case !ok || err != nil:
			return Hash{}, errors.New("has no cost of the form m=,t=,p=")
		case n < f.lo:
			return Hash{}, fmt.Errorf("is too weak: %s=%d, at least %d is needed", f.name, n, f.lo)
		case n > f.hi:
			return Hash{}, fmt.Errorf("is too costly: %s=%d, at most %d is allowed", f.name, n, f.hi)
		}
		values[i] = n
	}
	return Hash{memoryKiB: uint32(values[0]), passes: uint32(values[1]), lanes: uint8(values[2])}, nil
}

func decode(what, text string, shortest, longest int) ([]byte, error) {
	b, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("has a %s that is not base64 without padding", what)
	}
	if len(b) < shortest || len(b) > longest {
		return nil, fmt.Errorf("has a %s of %d bytes, not %d to %d", what, len(b), shortest, longest)
	}
	return b, nil
}

func (h Hash) derive(password []byte, length int) []byte {
	return argon2.IDKey(password, h.salt, h.passes, h.memoryKiB, h.lanes, uint32(length))
}

// Matches reports whether the hash is of the password, in time that does not
// depend on where they differ.
func (h Hash) Matches(password []byte) bool {
	return subtle.ConstantTimeCompare(h.derive(password, len(h.key)), h.key) == 1
}
