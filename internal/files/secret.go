package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// MaxSecret bounds a password or token, in bytes: far beyond what people choose, and
// short of what a login could be slowed down with.
const MaxSecret = 1024

// ReadSecret reads the password or token that a file holds; see Secret.
func ReadSecret(path string) (string, error) {
	data, err := Read(path)
	if err != nil {
		return "", err
	}
	secret, err := Secret(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return secret, nil
}

// SecretFrom reads a password or token to the end of r; see Secret.
func SecretFrom(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, 4*MaxSecret))
	if err != nil {
		return "", err
	}
	return Secret(data)
}

// Secret is the one line of a text: 1 to 1024 bytes of UTF-8 without control
// characters. The byte order mark and the line break that editors put around it are
// no part of it, spaces are.
func Secret(text []byte) (string, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	line, more, _ := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case len(line) == 0:
		return "", errors.New("is empty: write one line into it")
	case len(line) > MaxSecret:
		return "", fmt.Errorf("is longer than %d bytes", MaxSecret)
	case !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0:
		return "", errors.New("is not UTF-8: save it as UTF-8")
	case bytes.ContainsFunc(line, unicode.IsControl):
		return "", errors.New("holds a control character, which nobody can type: write one line of text")
	case len(bytes.Trim(more, "\r\n")) > 0:
		return "", errors.New("holds more than one line: write one")
	}
	return string(line), nil
}
