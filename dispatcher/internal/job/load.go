package job

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"muster/dispatcher/internal/schema"
	"muster/internal/protocol"
)

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// document is a job's file. A setting remembers its line, so that a refusal
// can name it.
type document struct {
	Name         setting[string] `yaml:"name"`
	Version      setting[int]    `yaml:"version"`
	Title        setting[string] `yaml:"title"`
	TitleZh      setting[string] `yaml:"title_zh"`
	InputSchema  setting[string] `yaml:"input_schema"`
	OutputSchema setting[string] `yaml:"output_schema"`
	Policy       policyDocument  `yaml:"policy"`
	Columns      []column        `yaml:"columns"`
}

type policyDocument struct {
	Attempts         setting[int]     `yaml:"attempts"`
	RunTimeout       setting[string]  `yaml:"run_timeout"`
	Lease            setting[string]  `yaml:"lease"`
	Barrier          setting[string]  `yaml:"barrier"`
	Makeup           setting[string]  `yaml:"makeup"`
	Late             setting[string]  `yaml:"late"`
	RetryInterrupted setting[bool]    `yaml:"retry_interrupted"`
	RetryFirst       setting[string]  `yaml:"retry_first"`
	RetryMax         setting[string]  `yaml:"retry_max"`
	MaxRunning       setting[int]     `yaml:"max_running"`
	GrantRate        setting[float64] `yaml:"grant_rate"`
	GrantBurst       setting[int]     `yaml:"grant_burst"`
	Quorum           setting[float64] `yaml:"quorum"`
	Priority         setting[int]     `yaml:"priority"`
}

type column struct {
	Name    setting[string] `yaml:"name"`
	Pointer setting[string] `yaml:"pointer"`
	Title   setting[string] `yaml:"title"`
	TitleZh setting[string] `yaml:"title_zh"`
	Unit    setting[string] `yaml:"unit"`
}

// setting is one value of a file and the line it stands on; 0 when absent.
type setting[T any] struct {
	value T
	line  int
}

// UnmarshalYAML takes the value with its place. It is stricter than the
// library, which takes 1.5 for a whole number and 7 for a text.
func (s *setting[T]) UnmarshalYAML(node ast.Node) error {
	s.line = node.GetToken().Position.Line
	key := strings.TrimPrefix(node.GetPath(), "$.")
	switch any(s.value).(type) {
	case string:
		if node.Type() != ast.StringType && node.Type() != ast.LiteralType {
			return &lineError{s.line, key + ": must be a text, in quotes if need be; a duration needs its unit, such as 45s"}
		}
	case int:
		if node.Type() != ast.IntegerType {
			return &lineError{s.line, key + ": must be a whole number"}
		}
	}
	if err := yaml.NodeToValue(node, &s.value, yaml.Strict()); err != nil {
		return &lineError{s.line, key + ": " + said(err)}
	}
	return nil
}

type lineError struct {
	line int
	say  string
}

// Error gives key and reason, without the line.
func (e *lineError) Error() string { return e.say }

// Load reads every *.yaml of the folder, which is called dir in errors. A schema
// is a file beside the job's, or else one of schemas, by its bare name. The first
// fault of any file is returned as "file:line: key: reason", for a job that is
// read wrongly would run wrongly.
func Load(dir string, folder, schemas fs.FS) (*Registry, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("cannot list jobs in %s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("cannot load jobs: %s holds no *.yaml", dir)
	}
	specs, from := make([]Spec, 0, len(names)), map[string]string{}
	for _, name := range names {
		file := filepath.Join(dir, name)
		spec, err := loadFile(file, folder, schemas)
		if err != nil {
			return nil, fmt.Errorf("cannot load job: %w", err)
		}
		if other, twice := from[spec.Name]; twice {
			return nil, fmt.Errorf("cannot load job: %s: name: %s stands in %s already", file, spec.Name, other)
		}
		from[spec.Name] = file
		specs = append(specs, spec)
	}
	return NewRegistry(specs...), nil
}

func loadFile(file string, folder, schemas fs.FS) (Spec, error) {
	data, err := fs.ReadFile(folder, filepath.Base(file))
	if err != nil {
		return Spec{}, err
	}
	var doc document
	if err := yaml.UnmarshalWithOptions(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &doc, yaml.Strict()); err != nil {
		return Spec{}, located(file, err)
	}
	c := checker{file: file}
	spec := Spec{
		Name:    required(&c, "name", doc.Name),
		Version: inRange(&c, "version", doc.Version, 0, 1, 9999),
		Title:   required(&c, "title", doc.Title),
		TitleZh: doc.TitleZh.value,
		Columns: c.columns(doc.Columns),
		Policy:  c.policy(doc.Policy),
	}
	if !namePattern.MatchString(spec.Name) {
		c.refuse(doc.Name.line, "name", "must be lower case letters, digits and _, the first a letter, at most 63")
	}
	if doc.Version.line == 0 {
		c.refuse(0, "version", "is missing")
	}
	spec.Input = c.schema("input_schema", doc.InputSchema, folder, schemas)
	spec.Output = c.schema("output_schema", doc.OutputSchema, folder, schemas)
	return spec, c.err
}

// located words an error of the YAML library as "file:line: reason".
func located(file string, err error) error {
	var own *lineError
	if errors.As(err, &own) {
		return fmt.Errorf("%s:%d: %s", file, own.line, own.say)
	}
	var where yaml.Error
	if errors.As(err, &where) && where.GetToken() != nil {
		return fmt.Errorf("%s:%d: %s", file, where.GetToken().Position.Line, where.GetMessage())
	}
	return fmt.Errorf("%s: %w", file, err)
}

func said(err error) string {
	var where yaml.Error
	if errors.As(err, &where) {
		return where.GetMessage()
	}
	return err.Error()
}

// checker keeps the first fault of a file.
type checker struct {
	file string
	err  error
}

func (c *checker) refuse(line int, key, reason string) {
	if c.err != nil {
		return
	}
	place := c.file
	if line > 0 {
		place = fmt.Sprintf("%s:%d", c.file, line)
	}
	c.err = fmt.Errorf("%s: %s: %s", place, key, reason)
}

func required(c *checker, key string, s setting[string]) string {
	if strings.TrimSpace(s.value) == "" {
		c.refuse(s.line, key, "is missing")
	}
	return s.value
}

func inRange[T int | float64](c *checker, key string, s setting[T], absent, least, most T) T {
	if s.line == 0 {
		return absent
	}
	if !(s.value >= least && s.value <= most) { // NaN is in no range
		c.refuse(s.line, key, fmt.Sprintf("is %v, must be %v to %v", s.value, least, most))
	}
	return s.value
}

func (c *checker) duration(key string, s setting[string], absent, least, most time.Duration) time.Duration {
	if s.line == 0 {
		return absent
	}
	d, err := time.ParseDuration(s.value)
	if err != nil || s.value == "0" {
		c.refuse(s.line, key, fmt.Sprintf("%q is no duration; write a number with its unit, such as 45s, 2m or 24h", s.value))
		return absent
	}
	if d < least || d > most {
		c.refuse(s.line, key, fmt.Sprintf("is %s, must be %s to %s", s.value, least, most))
	}
	return d
}

func (c *checker) policy(doc policyDocument) Policy {
	p := DefaultPolicy()
	p.Attempts = inRange(c, "policy.attempts", doc.Attempts, p.Attempts, 1, MaxAttempts)
	p.RunTimeout = c.duration("policy.run_timeout", doc.RunTimeout, p.RunTimeout, time.Second, MaxRunTimeout)
	p.Lease = c.duration("policy.lease", doc.Lease, p.Lease, time.Second, MaxLease)
	p.Barrier = c.duration("policy.barrier", doc.Barrier, p.Barrier, time.Second, MaxBarrier)
	p.Makeup = c.duration("policy.makeup", doc.Makeup, p.Makeup, 0, MaxMakeup)
	p.RetryFirst = c.duration("policy.retry_first", doc.RetryFirst, p.RetryFirst, 100*time.Millisecond, MaxRetry)
	p.RetryMax = c.duration("policy.retry_max", doc.RetryMax, max(p.RetryMax, p.RetryFirst), p.RetryFirst, MaxRetry)
	p.RetryInterrupted = doc.RetryInterrupted.value
	p.MaxRunning = inRange(c, "policy.max_running", doc.MaxRunning, 0, 0, MaxRunning)
	p.GrantRate = inRange(c, "policy.grant_rate", doc.GrantRate, 0, 0, MaxGrantRate)
	p.GrantBurst = inRange(c, "policy.grant_burst", doc.GrantBurst, 0, 0, MaxRunning)
	p.Quorum = inRange(c, "policy.quorum", doc.Quorum, p.Quorum, 0, 1)
	p.Priority = inRange(c, "policy.priority", doc.Priority, 0, -MaxPriority, MaxPriority)
	if p.GrantRate > 0 && p.GrantBurst == 0 {
		c.refuse(doc.GrantRate.line, "policy.grant_rate", "needs grant_burst of at least 1 beside it")
	}
	if doc.Late.line > 0 {
		switch late := LatePolicy(doc.Late.value); late {
		case AcceptAndRevise, RecordOnly, Reject:
			p.Late = late
		default:
			c.refuse(doc.Late.line, "policy.late", fmt.Sprintf("is %q, must be %s, %s or %s", late, AcceptAndRevise, RecordOnly, Reject))
		}
	}
	return p
}

func (c *checker) columns(docs []column) []protocol.Column {
	columns, names := make([]protocol.Column, 0, len(docs)), map[string]bool{}
	for i, doc := range docs {
		key := fmt.Sprintf("columns[%d]", i)
		col := protocol.Column{
			Name:    required(c, key+".name", doc.Name),
			Pointer: doc.Pointer.value,
			Title:   required(c, key+".title", doc.Title),
			TitleZh: doc.TitleZh.value,
			Unit:    doc.Unit.value,
		}
		if names[strings.ToLower(col.Name)] {
			c.refuse(doc.Name.line, key+".name", col.Name+" stands twice")
		}
		names[strings.ToLower(col.Name)] = true
		if doc.Pointer.line == 0 {
			c.refuse(doc.Name.line, key+".pointer", "is missing")
		} else if _, err := parsePointer(col.Pointer); err != nil {
			c.refuse(doc.Pointer.line, key+".pointer", err.Error())
		}
		columns = append(columns, col)
	}
	return columns
}

func (c *checker) schema(key string, s setting[string], folder, schemas fs.FS) *schema.Schema {
	name := required(c, key, s)
	if name == "" {
		return nil
	}
	if name != filepath.Base(name) || !fs.ValidPath(name) {
		c.refuse(s.line, key, "must be a file name without a folder")
		return nil
	}
	data, err := fs.ReadFile(folder, name)
	if errors.Is(err, fs.ErrNotExist) && schemas != nil {
		data, err = fs.ReadFile(schemas, name)
	}
	if err != nil {
		c.refuse(s.line, key, "cannot read "+name+", neither beside this file nor among the built-in schemas")
		return nil
	}
	compiled, err := schema.Compile(name, data)
	if err != nil {
		c.refuse(s.line, key, err.Error())
	}
	return compiled
}
