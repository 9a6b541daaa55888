package settings

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/redact/words"
	"muster/internal/usage"
)

// EnvPrefix opens the name of every environment variable that is a key.
const EnvPrefix = "MUSTER_"

// Value is what goes over a key of the file: Text as people write it, without
// quotes, or YAML for a list or a map. From says where it was given.
type Value struct{ Key, Text, From string }

// Key is one key of a configuration that holds a value: no section.
type Key struct {
	Name   string // such as admission.max_running
	Env    string // such as MUSTER_ADMISSION_MAX_RUNNING
	Secret bool   // its value must not be shown

	value reflect.Value
}

// Keys lists the keys of a configuration, a pointer to a struct with yaml tags, in
// its order. A list or a map is one key.
func Keys(config any) []Key { return keysOf(reflect.ValueOf(config).Elem(), "") }

func keysOf(section reflect.Value, prefix string) []Key {
	var keys []Key
	for i := range section.NumField() {
		tag, _, _ := strings.Cut(section.Type().Field(i).Tag.Get("yaml"), ",")
		if tag == "" || tag == "-" {
			continue
		}
		field, name := section.Field(i), prefix+tag
		if field.Kind() == reflect.Struct {
			keys = append(keys, keysOf(field, name+".")...)
			continue
		}
		keys = append(keys, Key{Name: name, Env: EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_")),
			Secret: words.IsSecretKey(tag) && !strings.HasSuffix(tag, "_file"), value: field})
	}
	return keys
}

// FromEnv picks the values that environ, as os.Environ returns it, has for the
// keys of a configuration. A variable that is empty counts as not set.
func FromEnv(environ []string, config any) []Value {
	set := map[string]string{}
	for _, pair := range environ {
		if name, text, _ := strings.Cut(pair, "="); text != "" {
			set[name] = text
		}
	}
	var values []Value
	for _, key := range Keys(config) {
		if text, there := set[key.Env]; there {
			values = append(values, Value{key.Name, text, "environment " + key.Env})
		}
	}
	return values
}

// fromFlag is what Value.From says of a command line.
const fromFlag = "--set"

func unknownKey(v Value, known []string) error {
	const lists = "check-config --print-effective lists them"
	if nearest := usage.Nearest(v.Key, known); nearest != "" {
		return fmt.Errorf("%s: %s is no key of this program; did you mean %s? %s", v.From, v.Key, nearest, lists)
	}
	return fmt.Errorf("%s: %s is no key of this program; %s", v.From, v.Key, lists)
}

// FromFlags reads KEY=VALUE as --set of a command line gives it.
func FromFlags(sets []string) ([]Value, error) {
	var values []Value
	for _, set := range sets {
		key, text, found := strings.Cut(set, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("--set %q must be KEY=VALUE, such as log.level=debug", set)
		}
		values = append(values, Value{key, text, fromFlag})
	}
	return values, nil
}

// Over is what the environment, and over it --set of a command line, put over the
// file of a configuration.
func Over(environ, sets []string, config any) ([]Value, error) {
	flags, err := FromFlags(sets)
	return append(FromEnv(environ, config), flags...), err
}

// Put puts values over the configuration that the file was read into, the later
// ones over the earlier, and remembers where they came from. A secret and the file
// that holds it take each other's place. The error names where the value was given
// and its key.
func (f *File) Put(config any, values []Value) error {
	byName := map[string]Key{}
	for _, key := range Keys(config) {
		byName[key.Name] = key
	}
	for _, v := range values {
		key, known := byName[v.Key]
		if !known {
			return unknownKey(v, slices.Collect(maps.Keys(byName)))
		}
		if key.Secret && v.From == fromFlag {
			return fmt.Errorf("%s: %s: every process can read a command line: give it by %s_file, or by the environment as %s", v.From, v.Key, v.Key, key.Env)
		}
		if err := key.put(v); err != nil {
			return err
		}
		if f.over == nil {
			f.over = map[string]string{}
		}
		f.over[v.Key] = v.From
		twin, ofFile := strings.CutSuffix(v.Key, "_file")
		if !ofFile {
			twin += "_file"
		}
		if other, there := byName[twin]; there && (other.Secret || key.Secret) {
			other.value.SetZero()
		}
	}
	return nil
}

func (k Key) put(v Value) error {
	wrong := func(want string) error {
		return fmt.Errorf("%s: %s: must be %s, not %q", v.From, v.Key, want, v.Text)
	}
	to := k.value
	if to.Type() == reflect.TypeFor[time.Duration]() {
		if !isDuration(v.Text) {
			return wrong("a duration with its unit, such as 45s")
		}
		d, err := time.ParseDuration(v.Text)
		to.SetInt(int64(d))
		return err
	}
	switch kind := to.Kind(); {
	case kind == reflect.String:
		to.SetString(v.Text)
	case kind == reflect.Bool:
		if v.Text != "true" && v.Text != "false" {
			return wrong("true or false")
		}
		to.SetBool(v.Text == "true")
	case kind >= reflect.Int && kind <= reflect.Int64:
		n, err := strconv.ParseInt(v.Text, 10, to.Type().Bits())
		if err != nil {
			return wrong("a whole number")
		}
		to.SetInt(n)
	case kind == reflect.Float64:
		n, err := strconv.ParseFloat(v.Text, 64)
		if err != nil {
			return wrong("a number")
		}
		to.SetFloat(n)
	case kind == reflect.Slice || kind == reflect.Map:
		fresh := reflect.New(to.Type())
		if _, err := Decode(v.From+": "+v.Key, []byte(v.Text), fresh.Interface()); err != nil {
			return err
		}
		to.Set(fresh.Elem())
	default:
		return wrong("in the file: it cannot be given here")
	}
	return nil
}

// overlaid says what put a value over the key, or over the list or map that it is
// part of; "" when the file's counts.
func (f *File) overlaid(key string) string {
	for name, from := range f.over {
		if rest, found := strings.CutPrefix(key, name); found && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return from
		}
	}
	return ""
}
