package sqlite

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
)

// address is the URI of a file, whatever its name holds. SQLite would take a relative
// path in one for a path from the root.
func address(path string, query url.Values) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	slashed := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: query.Encode()}
	return u.String(), nil
}

// connect returns a pool of connections to a file. None is open yet.
func connect(path string, query url.Values) (*sql.DB, error) {
	uri, err := address(path, query)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite", uri)
}
