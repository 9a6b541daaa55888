package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/usage"
)

// wordMisuse has a command and those below it say what is wrong with a command line:
// what is unknown, what was probably meant, and where help is.
func wordMisuse(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagError)
	if inner := cmd.Args; inner != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := inner(cmd, args)
			if err != nil && len(args) > 0 && strings.HasPrefix(err.Error(), "unknown command") { // of cobra.NoArgs
				return usage.Unknown("argument", args[0], nil, helpOf(cmd))
			}
			return err
		}
	}
	if !cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var known []string
		for _, one := range cmd.Commands() {
			known = append(append(known, one.Name()), one.Aliases...)
		}
		return usage.Unknown("command", args[0], known, helpOf(cmd))
	}
	if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, one := range cmd.Commands() {
		wordMisuse(one)
	}
}

func helpOf(cmd *cobra.Command) string { return cmd.CommandPath() + " --help" }

// flagError goes by the words of the library, which has no type for most of its
// errors.
func flagError(cmd *cobra.Command, err error) error {
	name, isUnknown := strings.CutPrefix(err.Error(), "unknown flag: ")
	if !isUnknown {
		return errors.New(err.Error() + "; " + usage.Help(helpOf(cmd)))
	}
	var known []string
	for word := range strings.FieldsSeq(cmd.Flags().FlagUsages()) {
		if strings.HasPrefix(word, "--") {
			known = append(known, word)
		}
	}
	return usage.Unknown("flag", name, known, helpOf(cmd))
}
