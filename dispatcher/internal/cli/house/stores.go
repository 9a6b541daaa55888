package house

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/cli/folders"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/register"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// storesCommand works on the register: the file that stores_file names, which the
// running dispatcher is told to read again.
func storesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stores",
		Short: "List the stores, or change their register",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(storesListCommand(), storesImportCommand(), storesRetireCommand())
	return cmd
}

// knownStore is a store, as --json prints it.
type knownStore struct {
	Store     string            `json:"store"`
	Name      string            `json:"name"`
	TimeZone  string            `json:"timeZone"`
	Labels    map[string]string `json:"labels"`
	Retired   bool              `json:"retired"`
	Online    int               `json:"online"` // terminals
	Terminals []string          `json:"terminals"`
	LastSeen  protocol.Time     `json:"lastSeen"` // of any of them; null: never
}

func storesListCommand() *cobra.Command {
	var b beside
	var retired bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the stores and whether their terminals are online, from the database",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			database, err := folders.DatabasePath(b.config, b.data)
			if err != nil {
				return err
			}
			stores, err := store.ReadStores(cmd.Context(), database, retired)
			if err != nil {
				return err
			}
			all := []knownStore{}
			for _, s := range stores {
				all = append(all, describeStore(s))
			}
			if b.asJSON {
				return screen.JSON(cmd.OutOrStdout(), all)
			}
			showStores(cmd.OutOrStdout(), all)
			return nil
		},
	}
	b.flags(cmd)
	cmd.Flags().BoolVar(&retired, "retired", false, "also those that left the register")
	return cmd
}

func describeStore(s store.PlaceState) knownStore {
	known := knownStore{Store: s.StoreID, Name: s.Name, TimeZone: s.TimeZone, Labels: s.Labels, Retired: s.Retired, Terminals: []string{}}
	for _, t := range s.Terminals {
		known.Terminals = append(known.Terminals, t.TerminalID)
		if t.Online {
			known.Online++
		}
		if t.LastSeenAt.After(known.LastSeen.Time) {
			known.LastSeen = protocol.At(t.LastSeenAt.UTC())
		}
	}
	return known
}

func showStores(w io.Writer, all []knownStore) {
	table := screen.NewTable(w, "STORE", "NAME", "TERMINALS", "STATE", "LAST SEEN", "LABELS")
	for _, s := range all {
		state, seen := "offline", "never"
		switch {
		case s.Retired:
			state = "retired"
		case s.Online > 0:
			state = "online"
		}
		if !s.LastSeen.IsZero() {
			seen = screen.Moment(s.LastSeen)
		}
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
			labels = append(labels, key+"="+s.Labels[key])
		}
		table.Row(s.Store, s.Name, strings.Join(s.Terminals, " "), state, seen, strings.Join(labels, " "))
	}
	table.Flush()
	screen.Say(w, "%s\n", screen.Many(int64(len(all)), "store", "stores"))
}

// registered is what became of the register, as --json prints it.
type registered struct {
	File    string   `json:"file"`
	Stores  int      `json:"stores"`
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Retired []string `json:"retired"`
	Written bool     `json:"written"` // false: only looked at
	InForce bool     `json:"inForce"` // the running headquarters has taken it in
}

func storesImportCommand() *cobra.Command {
	var b beside
	var dry bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Put a list of stores in the place of the register",
		Long: `Check FILE and write it over the file of stores_file: CSV with the header store_id,name,time_zone,labels, in UTF-8
with or without BOM, or GBK. Ids are text: 007 and 1E5 stay as they are. Nothing is written when a line is wrong: a bad
or doubled id, ids that differ only in case, an unknown time zone. A headquarters that runs takes the register in at
once; stores that left it get no new runs, and what runs there goes on.`,
		Example: "  dispatcher stores import stores.csv -c hq/dispatcher.yaml --dry-run",
		Args:    screen.One("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			places, err := readRegister(args[0])
			if err != nil {
				return err
			}
			return b.register(cmd, dry, func([]store.Place) ([]store.Place, error) { return places, nil })
		},
	}
	b.flags(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would change")
	return cmd
}

func storesRetireCommand() *cobra.Command {
	var b beside
	var dry bool
	cmd := &cobra.Command{
		Use:   "retire STORE...",
		Short: "Take stores off the register; what they answered stays",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.register(cmd, dry, func(now []store.Place) ([]store.Place, error) {
				for _, id := range args {
					i := slices.IndexFunc(now, func(p store.Place) bool { return p.StoreID == id })
					if i < 0 {
						return nil, fmt.Errorf("store %.80q is not on the register; ids are compared exactly, see: dispatcher stores list", id)
					}
					now = slices.Delete(now, i, i+1)
				}
				return now, nil
			})
		},
	}
	b.flags(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would change")
	return cmd
}

// register changes the register file and has the running headquarters read it.
func (b *beside) register(cmd *cobra.Command, dry bool, change func([]store.Place) ([]store.Place, error)) error {
	own, err := folders.Of(b.config)
	if err != nil {
		return err
	}
	if own.Stores == "" {
		return errors.New("this headquarters has no register of its own: write stores_file into its configuration, and name that with -c")
	}
	before, err := readRegister(own.Stores)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, register.ErrEmpty) {
		return err
	}
	after, err := change(slices.Clone(before))
	if err != nil {
		return err
	}
	text, err := register.Format(after)
	if err != nil {
		return err
	}
	if len(after) > 0 || len(before) == 0 { // the last store may be wrong to take, and says so
		if after, err = (register.File{Name: own.Stores, Data: text}).Places(); err != nil {
			return err
		}
	} else {
		return errors.New("no store would be left on the register; nothing was changed")
	}
	done := compare(before, after)
	done.File = own.Stores
	if !dry {
		if err := trust.WritePrivate(own.Stores, text); err != nil {
			return err
		}
		done.Written = true
		if done.InForce, err = b.reloaded(cmd); err != nil {
			return err
		}
	}
	if b.asJSON {
		return screen.JSON(cmd.OutOrStdout(), done)
	}
	showRegistered(cmd.OutOrStdout(), done)
	return nil
}

func readRegister(path string) ([]store.Place, error) {
	file, err := register.Read(path)
	if err != nil {
		return nil, err
	}
	return file.Places()
}

// reloaded says whether a running headquarters took in what changed; one that does
// not run will at its start.
func (b *beside) reloaded(cmd *cobra.Command) (bool, error) {
	client, err := b.dial()
	if err == nil {
		_, err = client.Reload(cmd.Context())
	}
	if errors.Is(err, admin.ErrNotRunning) {
		return false, nil
	}
	if err != nil {
		return false, Refusal(cmd, err)
	}
	return true, nil
}

func compare(before, after []store.Place) registered {
	done := registered{Stores: len(after), Added: []string{}, Changed: []string{}, Retired: []string{}}
	was := map[string]store.Place{}
	for _, p := range before {
		was[p.StoreID] = p
	}
	for _, p := range after {
		old, there := was[p.StoreID]
		delete(was, p.StoreID)
		switch {
		case !there:
			done.Added = append(done.Added, p.StoreID)
		case old.Name != p.Name || old.TimeZone != p.TimeZone || !maps.Equal(old.Labels, p.Labels):
			done.Changed = append(done.Changed, p.StoreID)
		}
	}
	done.Retired = append(done.Retired, slices.Sorted(maps.Keys(was))...)
	return done
}

func showRegistered(w io.Writer, r registered) {
	for _, part := range []struct {
		what string
		ids  []string
	}{{"added", r.Added}, {"changed", r.Changed}, {"retired", r.Retired}} {
		const most = 10
		list := strings.Join(part.ids[:min(most, len(part.ids))], " ")
		if rest := len(part.ids) - most; rest > 0 {
			list += fmt.Sprintf(" and %d more", rest)
		}
		screen.Say(w, "%-8s %d  %s\n", part.what, len(part.ids), list)
	}
	held := screen.Many(int64(r.Stores), "store", "stores")
	switch {
	case !r.Written:
		screen.Say(w, "%s would hold %s; nothing was written\n", filepath.Base(r.File), held)
	case r.InForce:
		screen.Say(w, "%s holds %s, and headquarters has taken them in\n", r.File, held)
	default:
		screen.Say(w, "%s holds %s; headquarters does not run and reads them at its start\n", r.File, held)
	}
}
