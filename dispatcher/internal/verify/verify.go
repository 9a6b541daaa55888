// Package verify proves published report files: that their bytes are those of the
// manifest beside them and those that headquarters' database noted, and that the
// JSON file holds the very rows of the database.
//
// It only reads, and works beside a running dispatcher as on copies.
package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

const (
	manifestEnding = "_manifest.json"
	// manifestBytes bounds a manifest, which has a few lines.
	manifestBytes = 1 << 20
)

// ErrUntrue says that a file is not what headquarters published, or is not whole. The text
// says which file, and what differs.
var ErrUntrue = errors.New("the report does not hold")

// Proof is what was proved of one file.
type Proof struct {
	File     string `json:"file"` // as it was named
	RunID    string `json:"runId"`
	Job      string `json:"job"`
	Revision int    `json:"revision"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Manifest string `json:"manifest"` // that names it
	Database bool   `json:"database"` // compared with headquarters' database too
	Rows     int    `json:"rows"`     // of the JSON file that are those of the database; 0 for others
}

// File proves one file of a revision, or, when it is a manifest, every file that it
// names. A file is found in the manifest of its revision, which must stand in the same
// folder. databasePath is headquarters' database or a copy of it; empty: only the
// manifest is asked, which whoever changes a file can change too.
//
// It returns what was proved up to the first fault, and ErrUntrue with the fault. Any
// other error says why it could not look: the file, the manifest or the database is not
// there or cannot be read.
func File(ctx context.Context, databasePath, name string) ([]Proof, error) {
	manifestName, err := manifestOf(name)
	if err != nil {
		return nil, err
	}
	manifest, sum, err := readManifest(manifestName)
	if err != nil {
		return nil, err
	}
	files := manifest.Files
	if manifestName != name {
		at := slices.IndexFunc(files, func(f protocol.ManifestFile) bool { return f.Name == filepath.Base(name) })
		if at < 0 {
			return nil, fmt.Errorf("%w: %s does not name %s", ErrUntrue, manifestName, filepath.Base(name))
		}
		files = files[at : at+1]
	}
	p := prover{dir: filepath.Dir(name), manifest: manifest, name: manifestName}
	if databasePath == "" {
		return p.all(files)
	}
	var fault error // of the report, and none of the database
	err = store.ReadRevision(ctx, databasePath, manifest.RunID, manifest.Revision, func(rev store.Revision, rows iter.Seq2[store.OutcomeRow, error]) error {
		p.noted, p.rows = rev.Files, rows
		err := p.isNoted(filepath.Base(manifestName), sum)
		if err == nil {
			_, err = p.all(files)
		}
		if errors.Is(err, ErrUntrue) {
			fault, err = err, nil
		}
		return err
	})
	if err == nil {
		err = fault
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: the database has no revision %d of run %s", ErrUntrue, manifest.Revision, manifest.RunID)
	}
	return p.proofs, err
}

// manifestOf is the manifest of the revision that the file's name tells.
func manifestOf(name string) (string, error) {
	if strings.HasSuffix(name, manifestEnding) {
		return name, nil
	}
	manifest := strings.TrimSuffix(name, filepath.Ext(name)) + manifestEnding
	if _, err := os.Stat(manifest); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot verify %s: its manifest %s is not there; verify the file in its own folder, "+
			"such as reports/2026/09, and not a copy", name, filepath.Base(manifest))
	} else if err != nil {
		return "", fmt.Errorf("cannot verify %s: %w", name, err)
	}
	return manifest, nil
}

func readManifest(name string) (m protocol.Manifest, sum string, err error) {
	file, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		return m, "", fmt.Errorf("cannot read the manifest: %w", err)
	}
	defer func() { _ = file.Close() }()
	doc, err := io.ReadAll(io.LimitReader(file, manifestBytes))
	if err != nil {
		return m, "", fmt.Errorf("cannot read the manifest: %w", err)
	}
	if err := protocol.Decode(doc, manifestBytes, &m); err != nil || m.Schema != protocol.ManifestSchema {
		return m, "", fmt.Errorf("%w: %s is not a whole manifest", ErrUntrue, name)
	}
	hash := sha256.Sum256(doc)
	return m, hex.EncodeToString(hash[:]), nil
}

// prover proves the files of one revision.
type prover struct {
	dir      string
	manifest protocol.Manifest
	name     string                  // of the manifest
	noted    []protocol.ManifestFile // by the database; nil: it is not asked
	rows     iter.Seq2[store.OutcomeRow, error]
	proofs   []Proof
}

func (p *prover) all(files []protocol.ManifestFile) ([]Proof, error) {
	for _, file := range files {
		if err := p.one(file); err != nil {
			return p.proofs, err
		}
	}
	return p.proofs, nil
}

func (p *prover) one(want protocol.ManifestFile) error {
	if want.Name != filepath.Base(want.Name) || want.Name == ".." {
		return fmt.Errorf("%w: %s names %q, which is no file beside it", ErrUntrue, p.name, want.Name)
	}
	name := filepath.Join(p.dir, want.Name)
	file, err := os.Open(name) //nolint:gosec // it stands beside the manifest
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is named by %s and is not there", ErrUntrue, name, p.name)
	}
	if err != nil {
		return fmt.Errorf("cannot read the report: %w", err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	proof := Proof{File: name, RunID: p.manifest.RunID, Job: p.manifest.Job, Revision: p.manifest.Revision,
		Bytes: size, SHA256: hex.EncodeToString(hash.Sum(nil)), Manifest: p.name, Database: p.rows != nil}
	if size != want.Bytes || proof.SHA256 != want.SHA256 {
		return fmt.Errorf("%w: %s has %d bytes and the hash %s, the manifest says %d and %s",
			ErrUntrue, name, size, proof.SHA256, want.Bytes, want.SHA256)
	}
	if p.rows != nil {
		if err := p.isNoted(want.Name, proof.SHA256); err != nil {
			return err
		}
		if strings.HasSuffix(want.Name, ".json") {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return fmt.Errorf("cannot read %s: %w", name, err)
			}
			if proof.Rows, err = sameRows(file, name, &p.manifest, p.rows); err != nil {
				return err
			}
		}
	}
	p.proofs = append(p.proofs, proof)
	return nil
}

// isNoted compares a hash with what the database noted when it was published.
func (p *prover) isNoted(name, sum string) error {
	at := slices.IndexFunc(p.noted, func(f protocol.ManifestFile) bool { return f.Name == name })
	switch {
	case at < 0:
		return fmt.Errorf("%w: the database does not know %s as a file of revision %d of run %s",
			ErrUntrue, name, p.manifest.Revision, p.manifest.RunID)
	case p.noted[at].SHA256 != sum:
		return fmt.Errorf("%w: %s has the hash %s, the database noted %s when it was published", ErrUntrue, name, sum, p.noted[at].SHA256)
	}
	return nil
}
