// Package register reads the chain's list of stores from a CSV file.
//
// It only reads and checks: who is a store's neighbour, who is online and what
// became of a store that left the list is the store package's business.
package register

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a list is read alike on a machine without zone files
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"

	"muster/dispatcher/internal/store"
	"muster/internal/files"
	"muster/internal/protocol"
)

const (
	// maxNameRunes bounds a store's name; a label's value is shorter still.
	maxNameRunes  = 200
	maxLabelRunes = 64
)

var labelKey = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// ErrEmpty says that a list holds no store.
var ErrEmpty = errors.New("holds no store: write a line such as SH_0312,Nanjing Road,Asia/Shanghai,region=east below the header")

// rules counts the changes of what a file means. With another number nothing that
// was read before counts as read.
const rules = 1

// File is a list that was read and not yet looked at. Name stands in errors.
type File struct {
	Name string
	Data []byte
}

// Read reads the file at the path.
func Read(path string) (File, error) {
	data, err := files.Read(path)
	if err != nil {
		return File{}, fmt.Errorf("cannot load stores: %w", err)
	}
	return File{path, data}, nil
}

// Hash names what the list says: the SHA-256, in hex, of its bytes and of the rules
// by which they are read.
func (f File) Hash() string {
	h := sha256.New()
	fmt.Fprintln(h, rules)
	h.Write(f.Data)
	return hex.EncodeToString(h.Sum(nil))
}

// Places returns the stores: the file is UTF-8 with or without byte order mark, or GBK
// as spreadsheets in Chinese save it, LF or CRLF, with the header store_id,name,time_zone,labels. Labels are key=value pairs
// parted by semicolons. Ids are text: 007 and 1E5 stay. It fails with "file:line: …"
// on a bad or doubled id, ids that differ only in case, an unknown time zone,
// and a list without stores.
func (f File) Places() ([]store.Place, error) {
	places, err := parse(f.Name, f.Data)
	if err != nil {
		return nil, fmt.Errorf("cannot load stores: %w", err)
	}
	return places, nil
}

func parse(name string, data []byte) ([]store.Place, error) {
	data, err := asUTF8(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	reader := csv.NewReader(bytes.NewReader(data))
	reader.FieldsPerRecord = -1
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: is empty", name)
	}
	if err != nil {
		return nil, unreadable(name, err)
	}
	if got := strings.Join(header, ","); got != "store_id,name,time_zone,labels" {
		return nil, fmt.Errorf("%s:1: the header is %q, must be \"store_id,name,time_zone,labels\"", name, clip(got))
	}
	l := list{seen: map[string]row{}, zones: map[string]bool{}}
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unreadable(name, err)
		}
		line, _ := reader.FieldPos(0)
		if err := l.add(line, fields); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if len(l.places) == 0 {
		return nil, fmt.Errorf("%s: %w", name, ErrEmpty)
	}
	return l.places, nil
}

// asUTF8 is the text without a byte order mark. What is not UTF-8 is taken for GBK,
// by its superset GB18030, unless that makes no sense of it.
func asUTF8(data []byte) ([]byte, error) {
	const instead = "save it as \"CSV UTF-8\""
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return nil, errors.New("is UTF-16; " + instead)
	case utf8.Valid(data):
		return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil
	}
	text, err := simplifiedchinese.GB18030.NewDecoder().Bytes(data)
	if err != nil || bytes.ContainsRune(text, utf8.RuneError) {
		return nil, errors.New("is neither UTF-8 nor GBK; " + instead)
	}
	return text, nil
}

// Format writes a register as Load reads it, in UTF-8.
func Format(places []store.Place) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{"store_id", "name", "time_zone", "labels"}) // Flush tells
	for _, p := range places {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
			labels = append(labels, key+"="+p.Labels[key])
		}
		_ = w.Write([]string{p.StoreID, p.Name, p.TimeZone, strings.Join(labels, ";")}) // Flush tells
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return nil, fmt.Errorf("cannot write the register: %w", err)
	}
	return out.Bytes(), nil
}

func unreadable(name string, err error) error {
	var bad *csv.ParseError
	switch {
	case !errors.As(err, &bad):
		return fmt.Errorf("%s: %w", name, err)
	case errors.Is(bad, csv.ErrBareQuote):
		return fmt.Errorf("%s:%d: a \" stands within a field that does not begin with one: write the field in quotes, and \"\" for each within", name, bad.Line)
	case errors.Is(bad, csv.ErrQuote):
		return fmt.Errorf("%s:%d: a field that begins with \" has no end, or text behind it: end it with \", and write \"\" for each within", name, bad.StartLine)
	}
	return fmt.Errorf("%s:%d: %w", name, bad.Line, bad.Err)
}

// row remembers where an id was read.
type row struct {
	id   string
	line int
}

type list struct {
	places []store.Place
	seen   map[string]row  // by lower-cased id
	zones  map[string]bool // that are known: a zone is a file, and a chain has few
}

func (l *list) add(line int, fields []string) error {
	if len(fields) != 4 {
		return fmt.Errorf("has %d fields, must have 4", len(fields))
	}
	id, name, zone := fields[0], strings.TrimSpace(fields[1]), fields[2]
	if !protocol.ValidID(id) {
		return fmt.Errorf("store_id %q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", clip(id))
	}
	if other, twice := l.seen[strings.ToLower(id)]; twice {
		if other.id == id {
			return fmt.Errorf("store_id %q stands in line %d already", id, other.line)
		}
		return fmt.Errorf("store_id %q differs only in case from %q in line %d", id, other.id, other.line)
	}
	if err := checkText("name", name, maxNameRunes); err != nil {
		return err
	}
	if !l.zones[zone] {
		if err := checkZone(zone); err != nil {
			return err
		}
		l.zones[zone] = true
	}
	labels, err := parseLabels(fields[3])
	if err != nil {
		return err
	}
	l.seen[strings.ToLower(id)] = row{id, line}
	l.places = append(l.places, store.Place{StoreID: id, Name: name, TimeZone: zone, Labels: labels})
	return nil
}

// checkZone takes IANA names alone: "" and "Local" would mean another zone on
// another machine.
func checkZone(zone string) error {
	if zone == "" || zone == "Local" {
		return fmt.Errorf("time_zone %q must be an IANA name such as Asia/Shanghai", zone)
	}
	if _, err := time.LoadLocation(zone); err != nil {
		return fmt.Errorf("time_zone %q is unknown; it must be an IANA name such as Asia/Shanghai", clip(zone))
	}
	return nil
}

func checkText(what, text string, most int) error {
	if text == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if utf8.RuneCountInString(text) > most {
		return fmt.Errorf("%s %q has more than %d characters", what, clip(text), most)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s %q holds a control character", what, clip(text))
	}
	return nil
}

func parseLabels(field string) (map[string]string, error) {
	labels := map[string]string{}
	for part := range strings.SplitSeq(field, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("label %q must be key=value", clip(part))
		case !labelKey.MatchString(key):
			return nil, fmt.Errorf("label %q has the key %q, which must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit; its value may be in any script", clip(part), clip(key))
		}
		if err := checkText("label "+key, value, maxLabelRunes); err != nil {
			return nil, err
		}
		if strings.ContainsAny(value, ",=!") {
			return nil, fmt.Errorf("label %s has the value %q; , = and ! would break label expressions", key, clip(value))
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("label %q stands twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
