package catalogue

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"muster/internal/protocol"
)

const (
	manifestEnding = "_manifest.json"
	// manifestBytes bounds a manifest, which has a few lines.
	manifestBytes = 1 << 20
)

// scan takes up the manifests that it does not know yet and forgets those that are
// gone. Published files never change, so each is read once.
func (c *Catalogue) scan(root *os.Root, now time.Time) error {
	seen := map[string]bool{}
	var failures []error
	months, err := fs.Glob(root.FS(), "[0-9][0-9][0-9][0-9]/[0-9][0-9]")
	if err != nil {
		return err
	}
	for _, month := range months {
		if !c.matters(month, now) {
			continue
		}
		entries, err := fs.ReadDir(root.FS(), month)
		failures = append(failures, err)
		for _, entry := range entries {
			name := path.Join(month, entry.Name())
			if strings.HasPrefix(entry.Name(), ".") && strings.HasSuffix(name, manifestEnding+leaving) {
				failures = append(failures, goOn(root, name))
				continue
			}
			if strings.HasPrefix(entry.Name(), ".") || !strings.HasSuffix(name, manifestEnding) || !entry.Type().IsRegular() {
				continue
			}
			seen[name] = true
			if _, known := c.known[name]; known {
				continue
			}
			listed, err := read(root, name)
			if err != nil {
				failures = append(failures, fmt.Errorf("cannot list %s: %w", name, err))
				continue
			}
			c.known[name] = listed
		}
	}
	for name := range c.known {
		if !seen[name] {
			delete(c.known, name)
		}
	}
	return errors.Join(failures...)
}

// matters reports whether a month's folder may hold what is listed or to be removed.
func (c *Catalogue) matters(month string, now time.Time) bool {
	first, err := time.ParseInLocation("2006/01", month, c.cfg.Location)
	return err == nil && (c.cfg.KeepDays > 0 || c.cfg.KeepRuns > 0 || now.Sub(first.AddDate(0, 1, 0)) < listedFor)
}

// goOn removes the rest of what was being removed.
func goOn(root *os.Root, hidden string) error {
	manifest, err := readManifest(root, hidden)
	if err != nil {
		return fmt.Errorf("cannot remove %s: %w", hidden, err)
	}
	return removeFiles(root, hidden, &manifest)
}

func readManifest(root *os.Root, name string) (m protocol.Manifest, err error) {
	doc, err := readUpTo(root, name, manifestBytes)
	if err != nil {
		return m, err
	}
	if err := protocol.Decode(doc, manifestBytes, &m); err != nil {
		return m, err
	}
	if m.Schema != protocol.ManifestSchema || !protocol.ValidID(m.Job) || !protocol.ValidID(m.RunID) {
		return m, errors.New("it is no manifest")
	}
	for _, file := range m.Files {
		if file.Name != path.Base(file.Name) || strings.HasPrefix(file.Name, ".") {
			return m, fmt.Errorf("it names %q", file.Name)
		}
	}
	return m, nil
}

func read(root *os.Root, name string) (protocol.Listed, error) {
	listed := protocol.Listed{Folder: path.Dir(name)}
	var err error
	if listed.Manifest, err = readManifest(root, name); err != nil {
		return listed, err
	}
	file, err := root.Open(strings.TrimSuffix(name, manifestEnding) + ".json")
	if err != nil {
		return listed, err
	}
	defer func() { _ = file.Close() }()
	head, err := protocol.ReadReportHead(bufio.NewReader(file))
	head.Input, head.Columns, head.Changes = nil, nil, nil
	listed.Head = head
	return listed, err
}

func readUpTo(root *os.Root, name string, most int64) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, most))
}

// newest is the newest revision of each run, the newest run first.
func newest(known map[string]protocol.Listed) []protocol.Listed {
	last := map[string]protocol.Listed{}
	for _, listed := range known {
		if before, ok := last[listed.Head.RunID]; !ok || listed.Head.Revision > before.Head.Revision {
			last[listed.Head.RunID] = listed
		}
	}
	runs := make([]protocol.Listed, 0, len(last))
	for _, listed := range last {
		runs = append(runs, listed)
	}
	slices.SortFunc(runs, func(a, b protocol.Listed) int {
		return cmp.Or(b.Head.CreatedAt.Compare(a.Head.CreatedAt.Time), cmp.Compare(b.Head.RunID, a.Head.RunID))
	})
	return runs
}
