package usage

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
)

// Parse reads the flags of a command line. It prints nothing: an error says what is
// wrong and where help is, and is flag.ErrHelp when that was asked for.
func Parse(flags *flag.FlagSet, args []string, help string) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	const undefined = "flag provided but not defined: -"
	name, isUndefined := strings.CutPrefix(err.Error(), undefined)
	if !isUndefined {
		return errors.New(err.Error() + "; " + Help(help))
	}
	var known []string
	flags.VisitAll(func(f *flag.Flag) { known = append(known, "-"+f.Name) })
	return Unknown("flag", "-"+name, known, help)
}

// Line reads a command line of one command, flags and arguments, in any order but
// that the arguments come last. command is "" when none is named; args are the words
// after the flags. program is the program's name, for errors.
func Line(flags *flag.FlagSet, line []string, commands []string, program string) (command string, args []string, err error) {
	help := program + " help"
	for {
		if command == "" && len(line) > 0 && !strings.HasPrefix(line[0], "-") {
			command, line = line[0], line[1:]
			if !slices.Contains(commands, command) {
				return command, line, Unknown("command", command, commands, help)
			}
		}
		if err := Parse(flags, line, help); err != nil {
			return command, nil, err
		}
		line = flags.Args()
		if command != "" || len(line) == 0 {
			return command, line, nil
		}
	}
}
