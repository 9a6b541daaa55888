package catalogue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"muster/internal/protocol"
)

const (
	folderMode = 0o755 // reports are shared for reading
	fileMode   = 0o644
	latest     = "latest"
)

// copyLatest keeps latest/<job>.html the newest page of each job. It is a copy: a link
// would not survive every share. One that somebody holds open stays as it was, and is
// tried again.
func (c *Catalogue) copyLatest(root *os.Root, runs []protocol.Listed) error {
	var failures []error
	done := map[string]bool{}
	for i := range runs {
		run := &runs[i]
		if done[run.Head.Job] {
			continue
		}
		done[run.Head.Job] = true
		page, ok := pageOf(run)
		if !ok || c.copied[run.Head.Job] == page.SHA256 {
			continue
		}
		if err := copyPage(root, path.Join(run.Folder, page.Name), path.Join(latest, run.Head.Job+".html"), page.SHA256); err != nil {
			failures = append(failures, err)
			continue
		}
		c.copied[run.Head.Job] = page.SHA256
	}
	return errors.Join(failures...)
}

func pageOf(run *protocol.Listed) (page protocol.ManifestFile, ok bool) {
	for _, file := range run.Manifest.Files {
		if path.Ext(file.Name) == ".html" {
			return file, true
		}
	}
	return page, false
}

func copyPage(root *os.Root, from, to, sum string) error {
	if is, err := sumOf(root, to); err == nil && is == sum {
		return nil
	}
	if err := root.MkdirAll(path.Dir(to), folderMode); err != nil {
		return fmt.Errorf("cannot make the folder of %s: %w", to, err)
	}
	return replace(root, to, func(w io.Writer) error {
		file, err := root.Open(from)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		_, err = io.Copy(w, file)
		return err
	})
}

func sumOf(root *os.Root, name string) (string, error) {
	file, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// replace writes a file beside its name and renames it: whoever opens it finds the one
// before or the new one, whole. It need not last: it is made again at the next start.
func replace(root *os.Root, name string, write func(io.Writer) error) error {
	temporary := path.Join(path.Dir(name), "."+path.Base(name)+".tmp")
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	err = errors.Join(write(file), file.Close())
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary)
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

// removeOld removes the files of the runs that need not stay: of each revision the
// manifest first, since where it stands the revision is whole.
func (c *Catalogue) removeOld(ctx context.Context, root *os.Root, runs []protocol.Listed, now time.Time) error {
	if c.cfg.KeepDays == 0 && c.cfg.KeepRuns == 0 {
		return nil
	}
	unfinished, err := c.cfg.Unfinished(ctx)
	if err != nil {
		return err
	}
	var failures []error
	rank, old := map[string]int{}, map[string]bool{}
	for i := range runs {
		head := &runs[i].Head
		rank[head.Job]++
		young := c.cfg.KeepDays > 0 && now.Before(head.CreatedAt.AddDate(0, 0, c.cfg.KeepDays))
		old[head.RunID] = rank[head.Job] > max(c.cfg.KeepRuns, 1) && !young && !unfinished[head.RunID]
	}
	for name := range c.known {
		listed := c.known[name]
		if !old[listed.Head.RunID] {
			continue
		}
		if err := remove(root, name, &listed); err != nil {
			failures = append(failures, err)
			continue
		}
		delete(c.known, name)
		c.cfg.Log.Info("old report files removed", "run_id", listed.Head.RunID, "revision", listed.Head.Revision)
	}
	return errors.Join(failures...)
}

// leaving is what a manifest ends in, behind a dot, while its files are removed.
const leaving = ".old"

// remove takes the manifest out of sight and then removes what it names. Where that is
// cut off, the next look goes on with it.
func remove(root *os.Root, manifest string, listed *protocol.Listed) error {
	hidden := path.Join(listed.Folder, "."+path.Base(manifest)+leaving)
	if err := root.Rename(manifest, hidden); err != nil {
		return fmt.Errorf("cannot remove %s: %w", manifest, err)
	}
	return removeFiles(root, hidden, &listed.Manifest)
}

func removeFiles(root *os.Root, hidden string, manifest *protocol.Manifest) error {
	dir := path.Dir(hidden)
	var failures []error
	for _, file := range manifest.Files {
		if err := root.Remove(path.Join(dir, file.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("cannot remove old report files: %w", err)
	}
	if err := root.Remove(hidden); err != nil {
		return fmt.Errorf("cannot remove old report files: %w", err)
	}
	_ = root.Remove(dir)           // unless something is left in it
	_ = root.Remove(path.Dir(dir)) // and the year
	return nil
}
