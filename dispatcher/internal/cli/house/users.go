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
	"muster/dispatcher/internal/people"
	"muster/internal/files"
	"muster/internal/protocol"
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
	Jobs        []string `json:"jobs"`        // that may be ordered; null: every job
	Stores      any      `json:"stores"`      // where; as in a request
}

// describeUser says of who may order nothing that their jobs and stores are none.
func describeUser(e users.Entry, book *users.Book) knownUser {
	known := knownUser{e.Name, string(e.Role), book.HasPassword(e.Name), e.Certificate, e.Key != nil, e.Jobs, e.Stores}
	if !slices.Contains(people.Role(e.Role).Verbs(), protocol.VerbRun) {
		known.Jobs, known.Stores = []string{}, []string{}
	}
	return known
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
				all = append(all, describeUser(e, book))
			}
			if asJSON {
				return screen.JSON(cmd.OutOrStdout(), all)
			}
			showUsers(cmd.OutOrStdout(), all)
			return nil
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "", "headquarters' configuration file, which names the users file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return cmd
}

func showUsers(w io.Writer, all []knownUser) {
	table := screen.NewTable(w, "USER", "ROLE", "LOGS IN BY", "SIGNS", "JOBS", "STORES")
	for _, u := range all {
		var by []string
		if u.Password {
			by = append(by, "password")
		}
		if u.Certificate {
			by = append(by, "certificate")
		}
		signs, jobs := "no", "all"
		if u.Key {
			signs = "yes"
		}
		if u.Jobs != nil {
			jobs = listed(u.Jobs)
		}
		table.Row(u.Name, u.Role, strings.Join(by, ", "), signs, jobs, where(u.Stores))
	}
	table.Flush()
	screen.Say(w, "%s\n", screen.Many(int64(len(all)), "user", "users"))
}

// where is the stores of a user in a table.
func where(stores any) string {
	targets, orders := stores.(protocol.Targets)
	switch {
	case !orders:
		return listed(nil)
	case targets.All:
		return "all"
	case targets.Labels != "":
		return targets.Labels
	}
	return listed(targets.Stores)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(slices.Sorted(slices.Values(names)), " ")
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
