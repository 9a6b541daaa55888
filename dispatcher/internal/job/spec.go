package job

import (
	"slices"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/schema"
	"muster/internal/protocol"
)

// Spec is one registered job.
type Spec struct {
	Name    string
	Version int
	Title   string
	TitleZh string
	Input   *schema.Schema // of a run's input
	Output  *schema.Schema // of a task's result
	Columns []protocol.Column
	Policy  Policy // what a run takes unless its request says otherwise
	// MaxInputBytes bounds a run's input, without white space; 0:
	// DefaultInputBytes. Every task keeps the input, and every store gets it.
	MaxInputBytes int
	// Approval: every run of the job needs the word of a second person.
	Approval bool
	// Digest is the SHA-256, in hex, of the job's file and its two schemas: who
	// approves a run approves what the job says. Empty for a job without files.
	Digest string
}

// Info describes the job to a technician.
func (s Spec) Info() protocol.JobInfo {
	return protocol.JobInfo{Name: s.Name, Version: s.Version, Title: s.Title, TitleZh: s.TitleZh}
}

// Bounds of a policy, for job files and for requests alike.
const (
	MaxAttempts = 10
	// MaxBarrier: nobody waits longer than a day for a first report.
	MaxBarrier = 24 * time.Hour
	// MaxMakeup: a store that comes back after a month starts afresh.
	MaxMakeup = 31 * 24 * time.Hour
	// MaxRunTimeout bounds one execution; MaxLease bounds silence.
	MaxRunTimeout = 24 * time.Hour
	MaxLease      = time.Hour
	// MaxRetry bounds the wait between attempts.
	MaxRetry = 24 * time.Hour
	// MaxRunning and MaxGrantRate bound what a job may ask for; the overall
	// caps apply besides.
	MaxRunning   = 100_000
	MaxGrantRate = 10_000
	// DefaultInputBytes and MaxInputBytes bound an input.
	DefaultInputBytes = 64 << 10
	MaxInputBytes     = 256 << 10
	// MaxPriority bounds the priority on both sides of 0.
	MaxPriority = 100
)

// DefaultPolicy is what a job's file need not say.
func DefaultPolicy() Policy {
	return Policy{
		Attempts:   2,
		RunTimeout: time.Minute,
		Lease:      45 * time.Second,
		Barrier:    2 * time.Minute,
		Makeup:     24 * time.Hour,
		Late:       AcceptAndRevise,
		RetryFirst: 2 * time.Second,
		RetryMax:   30 * time.Second,
		Quorum:     0.5,
		Backlog:    BacklogNewest,
	}
}

// Registry holds the jobs that headquarters offers. It is safe for concurrent use.
type Registry struct{ now atomic.Pointer[jobs] }

// jobs never change after they were made.
type jobs struct {
	names []string
	specs map[string]Spec
}

// NewRegistry holds the given jobs; of two with the same name the later wins.
func NewRegistry(specs ...Spec) *Registry {
	all := &jobs{specs: make(map[string]Spec, len(specs))}
	for _, spec := range specs {
		if _, twice := all.specs[spec.Name]; !twice {
			all.names = append(all.names, spec.Name)
		}
		all.specs[spec.Name] = spec
	}
	slices.Sort(all.names)
	r := &Registry{}
	r.now.Store(all)
	return r
}

// Use takes the jobs of another registry in the place of its own. Runs keep what
// they were ordered with.
func (r *Registry) Use(other *Registry) { r.now.Store(other.now.Load()) }

// Get returns the job of that exact name.
func (r *Registry) Get(name string) (Spec, bool) {
	spec, ok := r.now.Load().specs[name]
	return spec, ok
}

// List returns every job, ordered by name.
func (r *Registry) List() []Spec {
	all := r.now.Load()
	list := make([]Spec, 0, len(all.names))
	for _, name := range all.names {
		list = append(list, all.specs[name])
	}
	return list
}
