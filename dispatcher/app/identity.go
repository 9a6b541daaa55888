package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/enrol"
	"muster/dispatcher/internal/gate"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger/approval"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// wireIdentity opens who headquarters is. Without a folder nothing is signed
// and nothing demanded.
func (hq *headquarters) wireIdentity() error {
	if hq.cfg.Identity.Folder == "" {
		return nil
	}
	id, err := identity.Open(hq.cfg.Identity.Folder, hq.now())
	if err != nil {
		return err
	}
	id.KeepTime(hq.now)
	hq.identity = id
	hq.gate = gate.New(gate.Config{Keys: hq.store, Numbers: hq.store, Now: hq.now, Logger: hq.log, Alarm: hq.alerts.About})
	if hq.cfg.Enrolment.Address != "" {
		hq.enrol = enrol.New(enrol.Config{Address: hq.cfg.Enrolment.Address, Keys: hq.store, Identity: id, Listen: hq.hold, Now: hq.now, Logger: hq.log, Ward: hq.ward})
	}
	return nil
}

// startTrust opens what the operator's commands and terminals without a
// certificate use, and looks after keys and the audit.
func (hq *headquarters) startTrust(ctx context.Context, cleanup *stack) error {
	if hq.identity == nil {
		hq.log.Warn("nothing is signed: identity.folder is empty, which is for trying things out on one machine")
	}
	if err := hq.startSharing(ctx, cleanup); err != nil {
		return err
	}
	if err := hq.auditor.Start(ctx); err != nil {
		return err
	}
	cleanup.push(stopped(hq.auditor.Stop))
	if err := hq.admin.Start(ctx); err != nil {
		return err
	}
	cleanup.push(patiently(ctx, hq.admin.Stop))
	cleanup.push(stopped(hq.reload.Stop))
	if hq.identity == nil {
		return nil
	}
	hq.every(ctx, cleanup, "the care of keys", careAfter, careEvery, hq.care)
	if hq.enrol == nil {
		return nil
	}
	if err := hq.enrol.Start(ctx); err != nil {
		return err
	}
	hq.log.Info("terminals can enrol", "address", hq.enrol.Addr().String())
	cleanup.push(patiently(ctx, hq.enrol.Stop))
	return nil
}

// hold opens a listener that lets nobody in before headquarters is ready.
func (hq *headquarters) hold(ctx context.Context, network, address string) (net.Listener, error) {
	l, err := hq.listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return held{l, func() error { return hq.awaitWelcome(ctx) }, cancel}, nil
}

type held struct {
	net.Listener
	await  func() error
	cancel func()
}

// Close implements net.Listener.
func (h held) Close() error {
	h.cancel()
	return h.Listener.Close()
}

// Accept implements net.Listener.
func (h held) Accept() (net.Conn, error) {
	if err := h.await(); err != nil {
		return nil, err
	}
	return h.Listener.Accept()
}

// numbersAhead is how many numbers are reserved at a time: ten minutes of
// microseconds, far more than there are messages. reserveEvery renews that in
// time.
const (
	numbersAhead = int64(10 * time.Minute / time.Microsecond)
	reserveEvery = 5 * time.Minute
)

// startNumbers goes on above the numbers of every earlier process, although the
// clock may have been set back meanwhile, and sees to it that the next one can.
func (hq *headquarters) startNumbers(ctx context.Context, cleanup *stack) error {
	used, err := hq.store.LastNumber(ctx)
	if err != nil {
		return err
	}
	if !hq.sender.StartAbove(used) {
		return fmt.Errorf("cannot start: headquarters' clock stands at %s, two days or more before what it last did; set the clock",
			hq.now().Format(time.RFC3339))
	}
	if hq.identity != nil {
		hq.identity.Reached(time.UnixMicro(used))
		if _, err := hq.identity.Relist(hq.now()); err != nil {
			return fmt.Errorf("cannot start: %w", err)
		}
	}
	if err := hq.store.NoteNumber(ctx, hq.sender.Number()+numbersAhead); err != nil {
		return err
	}
	cleanup.push(func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		return hq.store.NoteNumber(last, hq.sender.Number())
	})
	hq.every(ctx, cleanup, "the reserving of numbers", reserveEvery, reserveEvery, func(ctx context.Context) {
		if err := hq.store.NoteNumber(ctx, hq.sender.Number()+numbersAhead); err != nil {
			hq.log.Error("cannot reserve numbers", "error", err)
		}
	})
	return nil
}

// numbered goes on above a number that a terminal has seen: headquarters may
// have been restored from a backup.
func (hq *headquarters) numbered(seq int64) {
	if seq > hq.sender.Number() && !hq.sender.StartAbove(seq) {
		hq.log.Warn("a terminal names a number that headquarters cannot have reached", "seq", seq)
	}
}

// patiently gives a stop its time although ctx has ended.
func patiently(ctx context.Context, stop func(context.Context) error) func() error {
	return func() error {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		return stop(patience)
	}
}

// signer is with whose key headquarters signs now, nil without an identity.
func (hq *headquarters) signer() *trust.Signer {
	if hq.identity == nil {
		return nil
	}
	now := hq.now()
	hq.listAnew(now)
	return hq.identity.Signer(now)
}

// alarmEarlyKey is the kind of the alarm that terminals believe nothing that
// headquarters signs, because its clock was set back.
const alarmEarlyKey = "signing_key_early"

// listAnew sees to it that terminals believe what is signed although the clock was
// set back: the list goes out first, and offers once more that may have overtaken
// it at an external broker.
func (hq *headquarters) listAnew(now time.Time) {
	changed, err := hq.identity.Relist(now)
	if err != nil {
		hq.alerts.Raise(protocol.SeverityCritical, alarmEarlyKey, "headquarters' time", err)
	}
	if !changed {
		return
	}
	hq.log.Warn("headquarters' clock was set back before its signing key, which is listed anew", "now", now, "version", hq.identity.Keys().Version)
	hq.offer.Republish("")
}

// announceKeys publishes a list of signing keys that is about to be signed by. Where an
// external broker has to answer it waits for nothing.
func (hq *headquarters) announceKeys(list trust.Sealed) {
	out := hq.sender
	if hq.cfg.Transport == config.TransportMQTT {
		out = hq.orders
	}
	if err := hq.sayKeys(context.Background(), out, list); err != nil {
		hq.log.Error("cannot publish the list of keys", "error", err)
	}
}

// publishTrust publishes the list of signing keys.
func (hq *headquarters) publishTrust(ctx context.Context) error {
	if hq.identity == nil {
		return nil
	}
	return hq.sayKeys(ctx, hq.sender, hq.identity.Sealed())
}

func (hq *headquarters) sayKeys(ctx context.Context, out *transport.Sender, list trust.Sealed) error {
	return out.JSON(ctx, hq.topics.Trust(), list, transport.Options{Retain: true})
}

// rotateKeys does what two persons agreed to, once however often it is asked.
func (hq *headquarters) rotateKeys(ctx context.Context, a store.Approval) error {
	asked, err := approval.ReadKeys(a)
	if err != nil {
		return err
	}
	now := hq.now()
	made, err := hq.identity.Replace(identity.Rotation{Approval: a.ApprovalID, AtOnce: asked.Now}, now)
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("approval %s, asked for by %s, signs from %s", a.ApprovalID, a.Requester, made.From.UTC().Format(time.RFC3339))
	if err := hq.store.Audit(ctx, "headquarters", "keys_rotated", made.KeyID, detail, now); err != nil {
		return err
	}
	// Once more: it was announced to whoever could be reached at that moment.
	if err := hq.publishTrust(ctx); err != nil {
		return err
	}
	if asked.Now {
		hq.offer.Republish("") // what is retained bears a key that nobody believes any more
	}
	return nil
}

// revoked makes a terminal's keys void for messages at once; the broker reads
// the list of revoked certificates within seconds.
func (hq *headquarters) revoked(keys []store.TerminalKey) {
	if hq.gate == nil {
		return
	}
	ids := make([]string, 0, len(keys))
	for _, key := range keys {
		ids = append(ids, key.KeyID)
	}
	hq.gate.Forget(ids...)
}

// wireAdmin opens nothing yet.
func (hq *headquarters) wireAdmin() error {
	cfg := admin.Config{
		Address: hq.cfg.Admin.Address, DataFolder: hq.cfg.DataFolder, Register: hq.store, Places: hq.store,
		EnrolmentURL: hq.cfg.Enrolment.URL, RequestRotation: hq.trigger.AskKeys, Revoked: hq.revoked, Healthy: hq.store.Health, Clock: hq.clockStands, Troubles: hq.alerts.Troubles.List, Reload: hq.reload.Again, Ready: hq.isReady, Metrics: hq.sources().Page, Version: hq.version, Listen: hq.hold, Now: hq.now, Logger: hq.log, Ward: hq.ward,
	}
	if hq.identity != nil {
		cfg.Authority = hq.identity
	}
	var err error
	hq.admin, err = admin.New(cfg)
	return err
}

// careEvery is how often headquarters looks after its own certificate and keys,
// whose times are counted in days, and careAfter how soon after a start.
const (
	careEvery = time.Hour
	careAfter = time.Minute
)

// care renews what ends and takes off what has ended.
func (hq *headquarters) care(context.Context) {
	now := hq.now()
	if renewed, err := hq.identity.Renew(now); err != nil {
		hq.log.Error("cannot renew headquarters' certificate", "error", err)
	} else if renewed {
		hq.log.Info("headquarters' certificate is renewed")
	}
	if pruned, err := hq.identity.Prune(now); err != nil {
		hq.log.Error("cannot take an ended key off the list", "error", err)
	} else if pruned {
		hq.log.Info("an ended key is off the list")
	}
}
