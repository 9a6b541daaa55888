package usage_test

import (
	"errors"
	"flag"
	"slices"
	"testing"

	"muster/internal/usage"
)

func TestNearestFindsWhatWasMeant(t *testing.T) {
	t.Parallel()
	known := []string{"serve", "check-config", "doctor", "version", "report"}
	for word, want := range map[string]string{
		"server": "serve", "docter": "doctor", "check-confg": "check-config", "chekc-config": "check-config", "Version": "version",
		"check": "check-config", "reprot": "report", "foo": "", "x": "", "": "", "frobnicate": "",
	} {
		if got := usage.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestLineSaysWhatIsUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line    []string
		command string
		args    []string
		err     string
	}{
		{nil, "", nil, ""},
		{[]string{"check", "-name", "x"}, "check", nil, ""},
		{[]string{"-name", "x", "check", "a"}, "check", []string{"a"}, ""},
		{[]string{"chekc"}, "chekc", nil, `unknown command "chekc"; did you mean "check"? prog help shows what there is`},
		{[]string{"zzz"}, "zzz", nil, `unknown command "zzz"; prog help shows what there is`},
		{[]string{"check", "-naem", "x"}, "check", nil, `unknown flag "-naem"; did you mean "-name"? prog help shows what there is`},
		{[]string{"check", "-name"}, "check", nil, `flag needs an argument: -name; prog help shows what there is`},
	} {
		flags := flag.NewFlagSet("prog", flag.ContinueOnError)
		flags.String("name", "", "")
		command, args, err := usage.Line(flags, c.line, []string{"check", "help"}, "prog")
		said := ""
		if err != nil {
			said = err.Error()
		}
		if command != c.command || said != c.err || err == nil && !slices.Equal(args, c.args) {
			t.Errorf("%q: %q %q %q", c.line, command, args, said)
		}
	}
	if _, _, err := usage.Line(flag.NewFlagSet("prog", flag.ContinueOnError), []string{"-h"}, nil, "prog"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
