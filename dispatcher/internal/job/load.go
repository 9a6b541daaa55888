package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"muster/dispatcher/internal/schema"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/settings"
)

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// document is a job's file.
type document struct {
	Name         string         `yaml:"name"`
	Version      int            `yaml:"version"`
	Title        string         `yaml:"title"`
	TitleZh      string         `yaml:"title_zh"`
	InputSchema  string         `yaml:"input_schema"`
	OutputSchema string         `yaml:"output_schema"`
	Approval     bool           `yaml:"approval"`
	MaxInput     int            `yaml:"max_input_bytes"`
	Policy       policyDocument `yaml:"policy"`
	Columns      []column       `yaml:"columns"`
}

// policyDocument is Policy in the spelling of files.
type policyDocument struct {
	Attempts         int           `yaml:"attempts"`
	RunTimeout       time.Duration `yaml:"run_timeout"`
	Lease            time.Duration `yaml:"lease"`
	Barrier          time.Duration `yaml:"barrier"`
	Makeup           time.Duration `yaml:"makeup"`
	Late             LatePolicy    `yaml:"late"`
	RetryInterrupted bool          `yaml:"retry_interrupted"`
	RetryFirst       time.Duration `yaml:"retry_first"`
	RetryMax         time.Duration `yaml:"retry_max"`
	MaxRunning       int           `yaml:"max_running"`
	GrantRate        float64       `yaml:"grant_rate"`
	GrantBurst       int           `yaml:"grant_burst"`
	Quorum           float64       `yaml:"quorum"`
	Priority         int           `yaml:"priority"`
	Backlog          BacklogPolicy `yaml:"backlog"`
}

// column is a protocol.Column whose pointer may be absent; "" is the whole
// result.
type column struct {
	Name      string               `yaml:"name"`
	Pointer   *string              `yaml:"pointer"`
	Title     string               `yaml:"title"`
	TitleZh   string               `yaml:"title_zh"`
	Unit      string               `yaml:"unit"`
	UnitZh    string               `yaml:"unit_zh"`
	Type      protocol.ColumnType  `yaml:"type"`
	Aggregate []protocol.Aggregate `yaml:"aggregate"`
}

// ErrNone says that a folder holds no job.
var ErrNone = errors.New("holds no *.yaml: put the files of the jobs there, or leave jobs_folder out for the built-in ones")

// Load reads every *.yaml of the folder, which is called dir in errors. A schema
// is a file beside the job's, or else one of schemas, by its bare name. The first
// fault of any file is returned as "file:line: key: reason", because a job that
// is read wrongly would run wrongly.
func Load(dir string, folder, schemas fs.FS) (*Registry, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("cannot list jobs in %s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("cannot load jobs: %s %w", dir, ErrNone)
	}
	specs, from := make([]Spec, 0, len(names)), map[string]string{}
	for _, name := range names {
		l := loader{files: folder, schemas: schemas, digest: sha256.New()}
		spec, err := l.load(name, filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("cannot load job: %w", err)
		}
		if other, twice := from[spec.Name]; twice {
			return nil, fmt.Errorf("cannot load job: %w", l.file.Errorf("$.name", "%s stands in %s already", spec.Name, other))
		}
		from[spec.Name] = filepath.Join(dir, name)
		specs = append(specs, spec)
	}
	return NewRegistry(specs...), nil
}

// loader reads one file and keeps its first fault.
type loader struct {
	files   fs.FS
	schemas fs.FS
	file    *settings.File
	digest  hash.Hash // of all that was read
	err     error
}

// read reads a regular file of the folder: another may never end, and a reload reads
// it too.
func (l *loader) read(name string) ([]byte, error) {
	info, err := fs.Stat(l.files, name)
	if err == nil {
		err = files.Plain(info.Mode())
	}
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(l.files, name)
}

func (l *loader) load(name, shown string) (Spec, error) {
	data, err := l.read(name)
	if err != nil {
		return Spec{}, fmt.Errorf("%s: %w", shown, err)
	}
	l.note(data)
	// The conversions fail to compile when Policy and its document differ.
	doc := document{MaxInput: DefaultInputBytes, Policy: policyDocument(DefaultPolicy())}
	if l.file, err = settings.Decode(shown, data, &doc); err != nil {
		return Spec{}, err
	}
	l.require("$.name", doc.Name)
	l.check(namePattern.MatchString(doc.Name), "$.name", "must be lower case letters, digits and _, the first a letter, at most 63")
	l.check(doc.Version >= 1 && doc.Version <= 9999, "$.version", "is %d, must be 1 to 9999", doc.Version)
	l.require("$.title", doc.Title)
	l.check(doc.MaxInput >= 2 && doc.MaxInput <= MaxInputBytes, "$.max_input_bytes", "is %d, must be 2 to %d", doc.MaxInput, MaxInputBytes)
	l.checkPolicy(doc.Policy)
	spec := Spec{
		Name:     doc.Name,
		Version:  doc.Version,
		Title:    doc.Title,
		TitleZh:  doc.TitleZh,
		Columns:  l.columns(doc.Columns),
		Policy:   Policy(doc.Policy),
		Approval: doc.Approval,

		MaxInputBytes: doc.MaxInput,
	}
	spec.Input = l.schema("$.input_schema", doc.InputSchema)
	spec.Output = l.schema("$.output_schema", doc.OutputSchema)
	spec.Digest = hex.EncodeToString(l.digest.Sum(nil))
	return spec, l.err
}

// note adds a file to the digest, after its length: two files must not pass for
// others that are parted elsewhere.
func (l *loader) note(file []byte) {
	l.digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(file))))
	l.digest.Write(file)
}

func (l *loader) check(ok bool, at, format string, args ...any) {
	if !ok && l.err == nil {
		l.err = l.file.Errorf(at, format, args...)
	}
}

func (l *loader) require(at, text string) {
	l.check(strings.TrimSpace(text) != "", at, "is missing")
}

func (l *loader) checkPolicy(p policyDocument) {
	const at = "$.policy."
	for _, d := range []struct {
		key                string
		value, least, most time.Duration
	}{
		{"run_timeout", p.RunTimeout, time.Second, MaxRunTimeout},
		{"lease", p.Lease, time.Second, MaxLease},
		{"barrier", p.Barrier, time.Second, MaxBarrier},
		{"makeup", p.Makeup, 0, MaxMakeup},
		{"retry_first", p.RetryFirst, 100 * time.Millisecond, MaxRetry},
		{"retry_max", p.RetryMax, p.RetryFirst, MaxRetry},
	} {
		l.check(d.value >= d.least && d.value <= d.most, at+d.key, "is %s, must be %s to %s", d.value, d.least, d.most)
	}
	for _, n := range []struct {
		key                string
		value, least, most float64
	}{
		{"attempts", float64(p.Attempts), 1, MaxAttempts},
		{"max_running", float64(p.MaxRunning), 0, MaxRunning},
		{"grant_rate", p.GrantRate, 0, MaxGrantRate},
		{"grant_burst", float64(p.GrantBurst), 0, MaxRunning},
		{"quorum", p.Quorum, 0, 1},
		{"priority", float64(p.Priority), -MaxPriority, MaxPriority},
	} { // NaN is in no range
		l.check(n.value >= n.least && n.value <= n.most, at+n.key, "is %g, must be %g to %g", n.value, n.least, n.most)
	}
	l.check(p.GrantRate == 0 || p.GrantBurst > 0, at+"grant_rate", "needs grant_burst of at least 1 beside it")
	l.check(p.Late == AcceptAndRevise || p.Late == RecordOnly || p.Late == Reject, at+"late",
		"is %q, must be %s, %s or %s", p.Late, AcceptAndRevise, RecordOnly, Reject)
	l.check(p.Backlog == BacklogNewest || p.Backlog == BacklogAll, at+"backlog", "is %q, must be %s or %s", p.Backlog, BacklogNewest, BacklogAll)
}

func (l *loader) schema(at, name string) *schema.Schema {
	l.require(at, name)
	if l.err != nil {
		return nil
	}
	if name != path.Base(name) || !fs.ValidPath(name) {
		l.check(false, at, "must be a file name without a folder")
		return nil
	}
	data, err := l.read(name)
	if errors.Is(err, fs.ErrNotExist) && l.schemas != nil {
		data, err = fs.ReadFile(l.schemas, name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.check(false, at, "cannot read %s: %v", name, err)
		return nil
	}
	if err != nil {
		l.check(false, at, "cannot read %s, neither beside this file nor among the built-in schemas", name)
		return nil
	}
	l.note(data)
	compiled, err := schema.Compile(name, data)
	if err != nil {
		l.check(false, at, "%v", err)
	}
	return compiled
}
