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

// Fault is a file that does not hold. Err is ErrUntrue.
type Fault struct {
	File string // as it was named
	Err  error
}

// Proof is what was proved of one file.
type Proof struct {
	File     string `json:"file"` // as it was named
	RunID    string `json:"runId"`
	Job      string `json:"job"`
	Revision int    `json:"revision"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Manifest string `json:"manifest"` // that says the same; "" where it does not hold itself, and the database alone was believed
	Database bool   `json:"database"` // compared with headquarters' database too
	Rows     int    `json:"rows"`     // of the JSON file that are those of the database; 0 for others
}

// File proves one file of a revision, or, when it is a manifest, every file that it
// names. A file is found in the manifest of its revision, which must stand in the same
// folder. databasePath is headquarters' database or a copy of it; empty: only the
// manifest is asked, which whoever changes a file can change too. Of a manifest that the
// database does not know the files are proved by what the database noted, those too that
// the manifest leaves out.
//
// It returns what was proved and every fault. An error says why it could not look any
// further: the file, the manifest or the database is not there or cannot be read.
func File(ctx context.Context, databasePath, name string) ([]Proof, []Fault, error) {
	manifestName, err := manifestOf(name)
	if err != nil {
		return nil, nil, err
	}
	p := prover{dir: filepath.Dir(name), name: manifestName, whole: manifestName == name}
	manifest, sum, err := readManifest(manifestName)
	if err != nil {
		err = p.told(manifestName, err)
		return nil, p.faults, err
	}
	p.manifest = manifest
	files := manifest.Files
	if !p.whole {
		at := slices.IndexFunc(files, func(f protocol.ManifestFile) bool { return f.Name == filepath.Base(name) })
		if at < 0 {
			return nil, []Fault{{name, fmt.Errorf("%w: %s does not name %s", ErrUntrue, manifestName, filepath.Base(name))}}, nil
		}
		files = files[at : at+1]
	}
	if databasePath == "" {
		err = p.all(files)
	} else {
		err = p.withDatabase(ctx, databasePath, sum, files)
	}
	return p.proofs, p.faults, err
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
	whole    bool                    // every file is asked for
	forged   bool                    // the database does not know the manifest
	noted    []protocol.ManifestFile // by the database; nil: it is not asked
	rows     iter.Seq2[store.OutcomeRow, error]
	proofs   []Proof
	faults   []Fault
}

// told keeps the fault of a file, and returns any other error.
func (p *prover) told(file string, err error) error {
	if errors.Is(err, ErrUntrue) {
		p.faults = append(p.faults, Fault{file, err})
		return nil
	}
	return err
}

// withDatabase proves the files by the database too. sum is the manifest's hash.
func (p *prover) withDatabase(ctx context.Context, path, sum string, files []protocol.ManifestFile) error {
	err := store.ReadRevision(ctx, path, p.manifest.RunID, p.manifest.Revision, func(rev store.Revision, rows iter.Seq2[store.OutcomeRow, error]) error {
		p.noted, p.rows = rev.Files, rows
		if err := p.isNoted(filepath.Base(p.name), sum); err != nil {
			p.forged, p.faults = true, append(p.faults, Fault{p.name, err})
		}
		return p.all(files)
	})
	if errors.Is(err, store.ErrNotFound) {
		return p.told(p.name, fmt.Errorf("%w: the database has no revision %d of run %s", ErrUntrue, p.manifest.Revision, p.manifest.RunID))
	}
	return err
}

// all proves the files, and those that a forged manifest leaves out.
func (p *prover) all(files []protocol.ManifestFile) error {
	if p.whole && p.forged {
		files = slices.Clone(files)
		for _, f := range p.noted {
			if f.Name != filepath.Base(p.name) && !slices.ContainsFunc(files, func(g protocol.ManifestFile) bool { return g.Name == f.Name }) {
				files = append(files, f)
			}
		}
	}
	for _, file := range files {
		if err := p.told(filepath.Join(p.dir, file.Name), p.one(file)); err != nil {
			return err
		}
	}
	return nil
}

// one proves a file by the word of the manifest, or, where that is forged, of the database.
func (p *prover) one(want protocol.ManifestFile) error {
	if want.Name != filepath.Base(want.Name) || want.Name == ".." {
		return fmt.Errorf("%w: %s names %q, which is no file beside it", ErrUntrue, p.name, want.Name)
	}
	witness, manifest := "the manifest", p.name
	if at := p.noteOf(want.Name); p.forged && at >= 0 {
		want, witness, manifest = p.noted[at], "the database", ""
	}
	name := filepath.Join(p.dir, want.Name)
	file, err := os.Open(name) //nolint:gosec // it stands beside the manifest
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is named by %s and is not there", ErrUntrue, name, witness)
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
		Bytes: size, SHA256: hex.EncodeToString(hash.Sum(nil)), Manifest: manifest, Database: p.rows != nil}
	if size != want.Bytes || proof.SHA256 != want.SHA256 {
		return fmt.Errorf("%w: %s has %d bytes and the hash %s, %s says %d and %s",
			ErrUntrue, name, size, proof.SHA256, witness, want.Bytes, want.SHA256)
	}
	if p.rows != nil {
		if proof.Rows, err = p.inDatabase(file, want.Name, proof.SHA256); err != nil {
			return err
		}
	}
	p.proofs = append(p.proofs, proof)
	return nil
}

// inDatabase compares a file with the database, and returns how many rows of it are the
// database's: 0 of all but the JSON file.
func (p *prover) inDatabase(file io.ReadSeeker, name, sum string) (rows int, err error) {
	if err := p.isNoted(name, sum); err != nil || !strings.HasSuffix(name, ".json") {
		return 0, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return sameRows(file, filepath.Join(p.dir, name), &p.manifest, p.rows)
}

// isNoted compares a hash with what the database noted when it was published.
func (p *prover) isNoted(name, sum string) error {
	at := p.noteOf(name)
	switch {
	case at < 0:
		return fmt.Errorf("%w: the database does not know %s as a file of revision %d of run %s",
			ErrUntrue, name, p.manifest.Revision, p.manifest.RunID)
	case p.noted[at].SHA256 != sum:
		return fmt.Errorf("%w: %s has the hash %s, the database noted %s when it was published", ErrUntrue, name, sum, p.noted[at].SHA256)
	}
	return nil
}

// noteOf is where the database's note of a file stands; -1: it has none.
func (p *prover) noteOf(name string) int {
	return slices.IndexFunc(p.noted, func(f protocol.ManifestFile) bool { return f.Name == name })
}
