package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"muster/internal/redact"
)

// Effective is what a key means in the end, and where that was given: a file and
// its line, an environment variable, the command line, or nowhere ("default").
type Effective struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"` // redact.Mark in the place of a secret
	From  string          `json:"from"`
}

// Unsound is what check-config prints as JSON of a configuration with a fault.
type Unsound struct {
	OK    bool   `json:"ok"`    // false
	Fault string `json:"error"` // with file, line and key, as the program says it
}

// Effective lists every key of the configuration that the file was read into, in
// its order.
func (f *File) Effective(config any) ([]Effective, error) {
	var all []Effective
	for _, key := range Keys(config) {
		from := "default"
		if at := f.position("$." + key.Name); at != nil {
			from = fmt.Sprintf("%s:%d", f.name, at.Line)
		}
		if over := f.overlaid(key.Name); over != "" {
			from = over
		}
		value, err := key.shown()
		if err != nil {
			return nil, err
		}
		all = append(all, Effective{key.Name, value, from})
	}
	return all, nil
}

// Changed names the keys of two lists whose values differ, or which stand in one of them
// alone, without those that are, or begin with, one of free.
func Changed(before, after []Effective, free ...string) []string {
	values := map[string]string{}
	for _, key := range after {
		values[key.Key] = string(key.Value)
	}
	names := []string{}
	differs := func(key string) {
		if !slices.ContainsFunc(free, func(name string) bool { return strings.HasPrefix(key, name) }) {
			names = append(names, key)
		}
	}
	for _, key := range before {
		if value, there := values[key.Key]; !there || value != string(key.Value) {
			differs(key.Key)
		}
		delete(values, key.Key)
	}
	for _, key := range after {
		if _, added := values[key.Key]; added {
			differs(key.Key)
		}
	}
	return names
}

// shown is the value without what must stay secret, as JSON, which YAML reads too.
func (k Key) shown() (json.RawMessage, error) {
	value := k.value.Interface()
	if text, isText := value.(string); isText && k.Secret && text != "" {
		return json.RawMessage(`"` + redact.Mark + `"`), nil
	}
	if d, isDuration := value.(time.Duration); isDuration {
		value = d.String()
	}
	text, err := yaml.MarshalWithOptions(value, yaml.JSON())
	if _, isNumber := value.(float64); isNumber {
		text, err = json.Marshal(value) // 200, not 200.0
	}
	if err != nil {
		return nil, fmt.Errorf("cannot show %s: %w", k.Name, err)
	}
	clean, _ := redact.JSON(bytes.TrimSpace(text))
	return clean, nil
}

// WriteEffective writes such a list as a configuration file, with where each value
// came from as its comment. It reads back as what it tells of; where a secret was
// masked it is refused until that is written in.
func WriteEffective(w io.Writer, all []Effective) error {
	var open []string
	for _, e := range all {
		parts := strings.Split(e.Key, ".")
		for i, section := range parts[:len(parts)-1] {
			if i >= len(open) || open[i] != section {
				if _, err := fmt.Fprintf(w, "%s%s:\n", strings.Repeat("  ", i), section); err != nil {
					return err
				}
				open = append(open[:min(i, len(open))], section)
			}
		}
		open = open[:len(parts)-1]
		if _, err := fmt.Fprintf(w, "%s%s: %s # %s\n", strings.Repeat("  ", len(parts)-1), parts[len(parts)-1], e.Value, e.From); err != nil {
			return err
		}
	}
	return nil
}
