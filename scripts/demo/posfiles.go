package main

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// facts is what the demo knows of a shop's files and looks for in the report.
type facts struct {
	date    string // yesterday at the shop
	lines   int    // of yesterday, over all files
	errors  int    // of those, with level ERROR
	secrets []string
}

// furnish writes the shop's point-of-sale folder: a live log, a rotated one, a
// compressed one, and configuration with secrets in it.
func (s shop) furnish(folder string, now time.Time) (facts, error) {
	from, to, err := s.yesterday(now)
	if err != nil {
		return facts{}, fmt.Errorf("cannot find yesterday at %s: %w", s.id, err)
	}
	lines := s.trading(now, from, to)
	known := facts{date: from.Format(time.DateOnly)}
	for _, l := range lines {
		if l.at.Before(from) || !l.at.Before(to) {
			continue
		}
		known.lines++
		if l.level == "ERROR" {
			known.errors++
		}
	}
	if err := s.writeLogs(filepath.Join(folder, "logs"), lines, from); err != nil {
		return facts{}, err
	}
	known.secrets, err = s.writeConfiguration(filepath.Join(folder, "conf"))
	return known, err
}

// writeLogs spreads the lines over three files. The cuts lie inside yesterday,
// so that each file holds a part of it.
func (s shop) writeLogs(folder string, lines []line, from time.Time) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("cannot make the log folder of %s: %w", s.id, err)
	}
	first, second := cut(lines, from.Add(11*time.Hour)), cut(lines, from.Add(17*time.Hour))
	for _, f := range []struct {
		name  string
		lines []line
		pack  bool
	}{
		{"pos.log.2.gz", lines[:first], true},
		{"pos.log.1", lines[first:second], false},
		{"pos.log", lines[second:], false},
	} {
		data, err := s.encode(s.text(f.lines))
		if err != nil {
			return fmt.Errorf("cannot write %s of %s: %w", f.name, s.id, err)
		}
		if f.pack {
			data = pack(data)
		}
		path := filepath.Join(folder, f.name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return fmt.Errorf("cannot write a log of %s: %w", s.id, err)
		}
		// A rotated file is as old as its last line.
		last := f.lines[len(f.lines)-1].at
		if err := os.Chtimes(path, last, last); err != nil {
			return fmt.Errorf("cannot date a log of %s: %w", s.id, err)
		}
	}
	return nil
}

// cut is the index of the first line at or after the moment.
func cut(lines []line, at time.Time) int {
	for i, l := range lines {
		if !l.at.Before(at) {
			return i
		}
	}
	return len(lines)
}

func (s shop) encode(text string) ([]byte, error) {
	var enc encoding.Encoding
	switch s.encoding {
	case "utf-8":
		return []byte(text), nil
	case "utf-8-bom":
		enc = unicode.UTF8BOM
	case "gbk":
		enc = simplifiedchinese.GBK
	case "big5":
		enc = traditionalchinese.Big5
	case "utf-16le":
		enc = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	default:
		return nil, fmt.Errorf("unknown encoding %s", s.encoding)
	}
	return enc.NewEncoder().Bytes([]byte(text))
}

func pack(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // a buffer takes every byte
	_ = w.Close()
	return b.Bytes()
}

// writeConfiguration writes what a terminal really has lying about, and
// returns the secrets in it: none of them may leave the terminal.
func (s shop) writeConfiguration(folder string) ([]string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the configuration folder of %s: %w", s.id, err)
	}
	var secrets []string
	secret := func(kind string) string {
		value := kind + "-" + rand.Text()
		secrets = append(secrets, value)
		return value
	}
	key := rand.Text() + rand.Text()
	secrets = append(secrets, key)
	pem := strings.Join([]string{"-----BEGIN RSA " + "PRIVATE KEY-----", key, "-----END RSA " + "PRIVATE KEY-----"}, "\n")
	ini, err := s.encode(fmt.Sprintf("[till]\r\nstore=%s\r\nname=%s\r\ntills=2\r\n\r\n[database]\r\nhost=127.0.0.1\r\nuser=pos\r\npassword=%s\r\n",
		s.id, s.name, secret("ini")))
	if err != nil {
		return nil, fmt.Errorf("cannot write the configuration of %s: %w", s.id, err)
	}
	files := map[string][]byte{
		"pos.ini": ini,
		"appsettings.json": fmt.Appendf(nil, `{
  "Store": {"Id": %q, "Name": %q, "TimeZone": %q},
  "ConnectionStrings": {"Main": "Server=127.0.0.1;Database=pos;User Id=sa;Password=%s;"},
  "Payment": {"Gateway": "https://pay.example.com/v2", "ApiKey": %q, "TimeoutSeconds": 5}
}
`, s.id, s.name, s.zone, secret("connection"), secret("api")),
		"sync.properties": fmt.Appendf(nil, "sync.url=https://hq.example.com/sync\nsync.interval=300\nsync.token=%s\nsync.key=%s\n",
			secret("token"), strings.ReplaceAll(pem, "\n", "\\n\\\n")),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			return nil, fmt.Errorf("cannot write the configuration of %s: %w", s.id, err)
		}
	}
	return secrets, nil
}
