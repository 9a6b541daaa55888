package settings_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/settings"
)

type layered struct {
	Name  string            `yaml:"name"`
	Wait  time.Duration     `yaml:"wait"`
	Quiet bool              `yaml:"quiet"`
	Many  []string          `yaml:"many"`
	Words map[string]string `yaml:"words"`
	Inner struct {
		Count        int     `yaml:"count"`
		Rate         float64 `yaml:"rate"`
		Password     string  `yaml:"password"`
		PasswordFile string  `yaml:"password_file"`
	} `yaml:"inner"`
}

const layeredFile = "name: file\nwait: 1s\nmany: [a]\ninner:\n  count: 1\n  password: hunter2pass\n"

func load(t *testing.T, environ, sets []string) (layered, *settings.File, error) {
	t.Helper()
	var c layered
	file, err := settings.Decode("x.yaml", []byte(layeredFile), &c)
	if err != nil {
		t.Fatal(err)
	}
	over, err := settings.Over(environ, sets, &c)
	if err == nil {
		err = file.Put(&c, over)
	}
	return c, file, err
}

func TestFlagsGoOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	t.Parallel()
	environ := []string{"MUSTER_NAME=env", "MUSTER_WAIT=2s", "MUSTER_QUIET=true", "MUSTER_MANY=[b, c]", "MUSTER_WORDS={k: \"v\"}",
		"MUSTER_INNER_COUNT=2", "MUSTER_INNER_RATE=2.5", "MUSTER_INNER_PASSWORD_FILE=/run/pw", "MUSTER_INNER=x", "OTHER=1"}
	c, _, err := load(t, environ, []string{"name=flag=1", "inner.count=3"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "flag=1" || c.Wait != 2*time.Second || !c.Quiet || strings.Join(c.Many, " ") != "b c" || c.Words["k"] != "v" ||
		c.Inner.Count != 3 || c.Inner.Rate != 2.5 {
		t.Errorf("got %+v", c)
	}
	if c.Inner.PasswordFile != "/run/pw" || c.Inner.Password != "" {
		t.Errorf("the file of a secret must take the secret's place: %+v", c.Inner)
	}
	if c, _, err = load(t, []string{"MUSTER_NAME="}, []string{"inner.password_file="}); err != nil || c.Name != "file" || c.Inner.Password != "" {
		t.Errorf("an empty variable is none, an empty flag is empty: %+v, %v", c, err)
	}
}

func TestAnErrorSaysWhereTheValueWasGiven(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"MUSTER_WAIT=30":          "environment MUSTER_WAIT: wait: must be a duration with its unit, such as 45s, not \"30\"",
		"MUSTER_QUIET=yes":        "environment MUSTER_QUIET: quiet: must be true or false, not \"yes\"",
		"MUSTER_INNER_COUNT=many": "environment MUSTER_INNER_COUNT: inner.count: must be a whole number, not \"many\"",
		"MUSTER_INNER_RATE=x":     "environment MUSTER_INNER_RATE: inner.rate: must be a number, not \"x\"",
		"MUSTER_MANY=[a, 7]":      "environment MUSTER_MANY: many:1: [1]: must be a text, in quotes",
	} {
		if _, _, err := load(t, []string{text}, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	for set, want := range map[string]string{"nmae=x": "--set: nmae is no key", "name": `--set "name" must be KEY=VALUE`, "=x": "must be KEY=VALUE", "inner=x": "--set: inner is no key"} {
		if _, _, err := load(t, nil, []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", set, err, want)
		}
	}
	_, file, err := load(t, []string{"MUSTER_INNER_COUNT=-1", "MUSTER_MANY=[]"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"$.inner.count": "environment MUSTER_INNER_COUNT: inner.count: is bad",
		"$.many[0]":     "environment MUSTER_MANY: many[0]: is bad",
		"$.wait":        "x.yaml:2: wait: is bad\n   2 | wait: 1s\n     |       ^",
	} {
		if got := file.Errorf(path, "is bad").Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := file.Errorf("$.inner.password", "is bad").Error(); strings.Contains(got, "hunter2pass") {
		t.Errorf("a secret is quoted: %s", got)
	}
}

func TestAValueOfAnotherKindIsRefusedInWordsOfOurs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"many: a\n":           "x.yaml:1: many: must be a list, an item a line behind a -\n   1 | many: a\n     |       ^",
		"many:\n  a: b\n":     "x.yaml:2: many: must be a list",
		"many: {}\n":          "x.yaml:1: many: must be a list",
		"many: [[a]]\n":       "x.yaml:1: many[0]: must be a text, in quotes",
		"words: [a]\n":        "x.yaml:1: words: must be keys with their values, such as key: value, a line each",
		"words: {k: [a]}\n":   "x.yaml:1: words.k: must be a text, in quotes",
		"wait: {a: 1}\n":      "x.yaml:1: wait: must be a duration with its unit, such as 45s",
		"quiet: [true]\n":     "x.yaml:1: quiet: must be true or false",
		"inner: {rate: []}\n": "x.yaml:1: inner.rate: must be a number",
	} {
		var c layered
		if _, err := settings.Decode("x.yaml", []byte(text), &c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestTheCaretStandsUnderWideCharacters(t *testing.T) {
	t.Parallel()
	var c layered
	_, err := settings.Decode("x.yaml", []byte("{name: 上海, wait: 3}\n"), &c)
	if err == nil || !strings.HasSuffix(err.Error(), "\n   1 | {name: 上海, wait: 3}\n     | "+strings.Repeat(" ", 19)+"^") {
		t.Errorf("got %v", err)
	}
}

func TestEffectiveMasksSecretsAndSaysWhereFrom(t *testing.T) {
	t.Parallel()
	c, file, err := load(t, []string{"MUSTER_NAME=env", "MUSTER_MANY=[\"--password=abcdef99\"]"}, []string{"inner.count=3"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := file.Effective(&c)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := settings.WriteEffective(&out, all); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`name: "env" # environment MUSTER_NAME`, `wait: "1s" # x.yaml:2`, "quiet: false # default", "inner:",
		"  count: 3 # --set", `  password: "[redacted]" # x.yaml:6`} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), "abcdef99") {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
	var again layered
	text := out.String()
	for _, c := range []struct{ key, want string }{{"many", "effective:4: many[0]: must be the secret itself, or go: [redacted] is what is shown in its place"},
		{"  password", "effective:8: inner.password: must be the secret itself"}} {
		if _, err := settings.Decode("effective", []byte(text), &again); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Fatalf("a masked secret is read back: %v, want %s\n%s", err, c.want, text)
		}
		text = regexp.MustCompile("(?m)^"+c.key+":.*\n").ReplaceAllString(text, "")
	}
	if _, err := settings.Decode("effective", []byte(text), &again); err != nil || again.Wait != c.Wait || again.Inner.Count != 3 {
		t.Errorf("what is printed is no configuration: %+v, %v", again, err)
	}
}

func TestUnknownVariablesAreNamed(t *testing.T) {
	t.Parallel()
	got := settings.UnknownEnv([]string{"MUSTER_NAEM=x", "MUSTER_NAME=x", "MUSTER_USER=x", "PATH=x"}, &layered{}, "MUSTER_USER")
	if fmt.Sprint(got) != "the environment has MUSTER_NAEM, which is no key; did you mean MUSTER_NAME?" {
		t.Errorf("got %v", got)
	}
	got = settings.UnknownEnv([]string{"MUSTER_Z=x", "MUSTER_FOLDER_OF_JOBS=x"}, &layered{})
	if fmt.Sprint(got) != "the environment has MUSTER_FOLDER_OF_JOBS, which is no key; the environment has MUSTER_Z, which is no key" {
		t.Errorf("got %v", got)
	}
}

func TestACommandLineHoldsNoSecretAndNoUnknownKey(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"inner.password=hunter2pass": "--set: inner.password: every process can read a command line: give it by inner.password_file, or by the environment as MUSTER_INNER_PASSWORD",
		"inner.cuont=3":              "--set: inner.cuont is no key of this program; did you mean inner.count? check-config --print-effective lists them",
		"colour=red":                 "--set: colour is no key of this program; check-config --print-effective lists them",
	} {
		if _, _, err := load(t, nil, []string{set}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", set, err)
		}
	}
	if c, _, err := load(t, []string{"MUSTER_INNER_PASSWORD=hunter2pass"}, nil); err != nil || c.Inner.Password != "hunter2pass" {
		t.Errorf("by the environment: %v", err)
	}
}

func TestChangedNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	list := func(values ...string) (all []settings.Effective) {
		for i, key := range []string{"a", "b.c", "b.d"} {
			all = append(all, settings.Effective{Key: key, Value: []byte(values[i])})
		}
		return all
	}
	if got := settings.Changed(list("1", "2", "3"), list("1", "4", "5"), "b.c"); strings.Join(got, " ") != "b.d" {
		t.Errorf("got %v", got)
	}
	whole := list("1", "2", "3")
	if got := settings.Changed(whole, whole[1:2], "b.d"); strings.Join(got, " ") != "a" {
		t.Errorf("shorter: %v", got)
	}
	if got := settings.Changed(whole[2:], whole); strings.Join(got, " ") != "a b.c" {
		t.Errorf("longer: %v", got)
	}
	if got := settings.Changed(list("1", "2", "3"), list("0", "2", "3")); strings.Join(got, " ") != "a" {
		t.Errorf("got %v", got)
	}
}
