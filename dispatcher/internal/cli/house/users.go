package house

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"muster/broker/server/users"
	"muster/dispatcher/internal/cli/folders"
	"muster/dispatcher/internal/cli/screen"
	"muster/internal/files"
)

// usersCommand works on the users file.
func usersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "users",
		Short: "List the users, or make the hash of a password for the users file",
		Long: fmt.Sprintf("Users stand in the users file that the configuration names; SIGHUP, or dispatcher reload, takes it in.\n"+
			"A name is 1 to 63 of A-Z a-z 0-9 . _ - and begins with a letter or digit; names that differ only in case are refused.\n"+
			"A file names at most %d users and terminals, in %d MiB.", users.MaxEntries, users.MaxFileBytes>>20),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(usersListCommand(), hashPasswordCommand())
	return cmd
}

// knownUser is a user, as --json prints it.
type knownUser struct {
	Name        string   `json:"name"`
	Role        string   `json:"role"`
	Password    bool     `json:"password"`    // has one
	Certificate bool     `json:"certificate"` // may log in by one
	Key         bool     `json:"key"`         // may sign requests
	Jobs        []string `json:"jobs"`        // null: every job
	Stores      any      `json:"stores"`
}

func usersListCommand() *cobra.Command {
	var config string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list -c CONFIG",
		Short: "List who may log in, how, and what they may ask for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own, err := folders.Of(config)
			if err != nil {
				return err
			}
			if own.Users == "" {
				return errors.New("this headquarters has no users file: whoever connects is an operator; write users_file into its configuration, and name that with -c")
			}
			book, err := users.Load(own.Users)
			if err != nil {
				return err
			}
			all := []knownUser{}
			for _, e := range book.List() {
				all = append(all, knownUser{e.Name, string(e.Role), book.HasPassword(e.Name), e.Certificate, e.Key != nil, e.Jobs, e.Stores})
			}
			if asJSON {
				return screen.JSON(cmd.OutOrStdout(), all)
			}
			showUsers(cmd.OutOrStdout(), book)
			return nil
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "", "headquarters' configuration file, which names the users file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return cmd
}

func showUsers(w io.Writer, book *users.Book) {
	table := screen.NewTable(w, "USER", "ROLE", "LOGS IN BY", "SIGNS", "JOBS", "STORES")
	for _, e := range book.List() {
		var by []string
		if book.HasPassword(e.Name) {
			by = append(by, "password")
		}
		if e.Certificate {
			by = append(by, "certificate")
		}
		signs, jobs, stores := "no", "all", "all"
		if e.Key != nil {
			signs = "yes"
		}
		if e.Jobs != nil {
			jobs = strings.Join(slices.Sorted(slices.Values(e.Jobs)), " ")
		}
		switch {
		case e.Stores.All:
		case e.Stores.Labels != "":
			stores = e.Stores.Labels
		default:
			stores = strings.Join(e.Stores.Stores, " ")
		}
		table.Row(e.Name, string(e.Role), strings.Join(by, ", "), signs, jobs, stores)
	}
	table.Flush()
}

func hashPasswordCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hash-password < FILE",
		Short: "Print the hash of the password on standard input, for the users file",
		Long: fmt.Sprintf("Read one password, one line of %d to %d bytes of UTF-8 without control characters, from standard input: on a\n"+
			"command line every process could read it. What everybody guesses is refused.", users.MinPassword, files.MaxSecret),
		Example: "  dispatcher users hash-password < alice.pw",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hash, err := users.HashFrom(cmd.InOrStdin())
			if err != nil {
				return err
			}
			screen.Say(cmd.OutOrStdout(), "%s\n", hash)
			return nil
		},
	}
}
