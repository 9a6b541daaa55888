// Package auditor notes down where the audit's chain ends, again and again, in
// a file outside the database and signed by headquarters: whoever writes the
// chain anew or cuts its end off contradicts what was noted. It also reads that
// file back.
//
// It adds nothing to the audit and does not walk it; store.VerifyAudit does.
package auditor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/trust"
)

const (
	// every bounds what can be cut off without contradicting a head.
	every = 5 * time.Minute
	// soon is how often it looks whether there is no witness at all: the first
	// entries of a new headquarters shall not wait for one, nor those whose
	// witnesses are void because their key was struck out.
	soon = 5 * time.Second
	// repeat is after how many rounds a head that did not change is noted
	// again: a file that grows says that somebody watches.
	repeat = int(time.Hour / every)
	// stopPatience bounds the last note.
	stopPatience = 5 * time.Second
)

// Config is what an auditor works with. Head is store.AuditHead. Signer returns
// nil while headquarters has no keys: heads are then noted unsigned.
type Config struct {
	Head   func(ctx context.Context, at ...int64) (store.AuditHead, error)
	Signer func() *trust.Signer
	Folder string // the reports folder; the file is audit/heads.jsonl in it
	Now    func() time.Time
	Logger *slog.Logger
	Ward   *quarantine.Ward // keeps in, and tells of, what makes headquarters panic; nil: nobody is told
}

// Auditor notes heads from Start to Stop. Create it with New.
type Auditor struct {
	cfg    Config
	book   *book
	last   store.AuditHead
	rounds int // since the last note
	// signedBy is the key of the last note.
	signedBy string
	opened   bool // the file was read once
	failing  bool // the last note could not be written

	stopping sync.Once
	cancel   context.CancelFunc
	done     chan struct{}
}

// New returns an auditor that is not yet started.
func New(cfg Config) *Auditor { return &Auditor{cfg: cfg} }

// HeadsFile is where the heads are, below a reports folder.
func HeadsFile(reportsFolder string) string {
	return filepath.Join(reportsFolder, filepath.FromSlash(headsFile))
}

// Start compares the audit with the newest noted head, and logs when that is not
// in it. Then it notes the head and goes on noting it every 5 minutes when it changed,
// else every hour. It fails when the file cannot be opened, unless the disk takes
// no writes or the reports folder is away: that is logged, and tried again.
func (a *Auditor) Start(ctx context.Context) error {
	a.book = &book{folder: a.cfg.Folder}
	if err := a.open(); err != nil && !passes(err) {
		return fmt.Errorf("cannot open %s: %w: move away what stands there, or let this user write it", HeadsFile(a.cfg.Folder), err)
	}
	a.note(ctx)
	ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	a.done = make(chan struct{})
	go a.loop(ctx)
	return nil
}

// Stop notes the head a last time if it changed. The store must still be open.
// It may be called twice, or before Start.
func (a *Auditor) Stop() {
	if a.done == nil {
		return
	}
	a.stopping.Do(func() {
		a.cancel()
		<-a.done
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		a.rounds = 0
		a.turn(func() { a.note(ctx) })
	})
}

func (a *Auditor) loop(ctx context.Context) {
	defer close(a.done)
	tick := time.NewTicker(soon)
	defer tick.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.turn(func() { a.look(ctx, looks%int(every/soon) == 0) })
	}
}

// turn keeps a panic from ending the loop: what was not noted is noted later.
func (a *Auditor) turn(do func()) {
	a.cfg.Ward.Turn("the heads of the audit", soon, func() time.Duration { do(); return soon })
}

// look notes the head if it is due, or if the newest note is not what is believed.
func (a *Auditor) look(ctx context.Context, due bool) {
	if due {
		a.rounds++
	}
	if keyOf(a.cfg.Signer()) != a.signedBy {
		a.rounds = repeat // say it again with the key that is believed now
	} else if !due && a.last.ID > 0 {
		return
	}
	a.note(ctx)
}

// keyOf names the key of a signer, "" for none.
func keyOf(signer *trust.Signer) string {
	if signer == nil {
		return ""
	}
	return signer.KeyID()
}

// compare tells when the entry that was noted last is not there any more, or
// another one: an older copy was put in place, or the chain was written anew.
func (a *Auditor) compare(ctx context.Context) {
	found, err := a.cfg.Head(ctx, a.last.ID)
	switch {
	case err != nil:
		a.cfg.Logger.Error("the head of the audit cannot be compared with the one that was noted before", "error", err)
	case found != a.last:
		a.cfg.Logger.Error("the audit is not the one whose head was noted before: run dispatcher audit verify",
			"noted_id", a.last.ID, "noted_hash", a.last.Hash, "id", found.ID, "hash", found.Hash)
	}
}

// passes reports whether what stands in the way may end by itself: the disk is full,
// read-only or fails, a share is away in any of the ways in which shares are. A name that
// is taken by something else, or closed to this user, does not.
func passes(err error) bool {
	fault, system := errors.AsType[syscall.Errno](err)
	if !system || errors.Is(fault, fs.ErrPermission) || errors.Is(fault, fs.ErrExist) {
		return false
	}
	return fault != syscall.ENOTDIR && fault != syscall.EISDIR && fault != syscall.ELOOP
}

// open reads the newest head that was noted, once.
func (a *Auditor) open() error {
	if a.opened {
		return nil
	}
	newest, ok, err := a.book.open()
	if err != nil {
		return err
	}
	if ok {
		a.last = newest
	}
	a.opened = true
	a.rounds = repeat // whatever was noted before, a start is noted
	return nil
}

// failed logs the first of a row of failures, and the end of them.
func (a *Auditor) failed(err error) bool {
	if err != nil && !a.failing {
		a.cfg.Logger.Error("the head of the audit cannot be noted and will be tried again", "file", HeadsFile(a.cfg.Folder), "error", err)
	}
	if err == nil && a.failing {
		a.cfg.Logger.Info("the head of the audit is noted again", "file", HeadsFile(a.cfg.Folder))
	}
	a.failing = err != nil
	return a.failing
}

// note writes the head down if there is something new to say.
func (a *Auditor) note(ctx context.Context) {
	if err := a.open(); err != nil {
		a.failed(err)
		return
	}
	head, err := a.cfg.Head(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.cfg.Logger.Error("the head of the audit cannot be read", "error", err)
		}
		return
	}
	if head == a.last && a.rounds < repeat {
		return
	}
	a.compare(ctx)
	if head.ID > 0 && head.Hash == "" {
		a.cfg.Logger.Error("the newest entry of the audit has no hash, so its head is not noted: run dispatcher audit verify", "id", head.ID)
		return
	}
	signer := a.cfg.Signer() // before the time is asked: no head is older than its key
	line, err := compose(head, a.cfg.Now(), signer)
	if err == nil {
		err = a.book.add(line)
	}
	if a.failed(err) {
		return
	}
	a.last, a.rounds, a.signedBy = head, 0, keyOf(signer)
}
