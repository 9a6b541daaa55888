package app

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"time"

	"muster/dispatcher/app/internal/alert"
	"muster/dispatcher/app/internal/measure"
	"muster/dispatcher/app/internal/reload"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/backlog"
	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/catalogue"
	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/offer"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/plan"
	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/report"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/dispatcher/internal/watch"
	"muster/schemas"
)

// wire creates every step and connects it to what it needs; nothing runs yet.
func (hq *headquarters) wire() error {
	hq.ward = hq.newWard()
	var err error
	if hq.zone, err = time.LoadLocation(hq.cfg.TimeZone); err != nil {
		return fmt.Errorf("cannot load headquarters' time zone: %w", err)
	}
	hq.alerts = &alert.Alerts{Meter: hq.meter, Now: hq.now, Zone: hq.zone, Logger: hq.log}
	if hq.alerts.Book, err = alarm.Open(filepath.Join(hq.cfg.DataFolder, "alarms.json")); err != nil {
		hq.log.Error("alarms of the life before are not ended", "error", err)
	}
	if err := hq.wireIdentity(); err != nil {
		return err
	}
	if err := hq.wireLink(); err != nil {
		return err
	}
	hq.queue = transport.NewQueue(hq.link, hq.log)
	hq.queue.Ward = hq.ward
	hq.sender = transport.NewSender(hq.link, hq.topics, hq.now)
	if hq.identity != nil {
		hq.sender = hq.sender.Signing(hq.signer)
	}
	hq.orders = hq.sender.Through(hq.queue)
	hq.alerts.Sender = hq.orders
	hq.wireAdmission()
	if err := hq.wireReports(); err != nil {
		return err
	}
	if err := hq.wireTrigger(); err != nil {
		return err
	}
	hq.wireReload()
	if err := hq.wireAdmin(); err != nil {
		return err
	}
	hq.auditor = auditor.New(auditor.Config{Head: hq.store.AuditHead, Signer: hq.signer, Folder: hq.cfg.ReportsFolder, Now: hq.now, Logger: hq.log, Ward: hq.ward})
	hq.watch = watch.New(hq.store, hq.sender, hq.grant.Waiting, hq.ward, hq.log).In(hq.zone)
	hq.store.Foresee(hq.offer.Ahead)
	for _, step := range []struct {
		name     string
		observer func([]store.Change)
	}{
		{"grant", hq.grant.Changed},
		{"backlog", hq.backlog.Changed},
		{"intake", hq.intake.Changed},
		{"offer", hq.offer.Changed},
		{"barrier", hq.barrier.Changed},
		{"watch", hq.watch.Changed},
		{"offers belied", hq.alerts.OffersBelied},
		{"metrics", hq.meter.Changed},
	} {
		hq.store.Observe(hq.ward.Observer(step.name, step.observer))
	}
	return nil
}

// bounds are those of every run.
func bounds(c config.Config) trigger.Bounds {
	return trigger.Bounds{ApprovalOver: c.Approval.OverStores, Limits: job.Limits{MaxRunning: c.Admission.MaxRunning,
		GrantsPerSecond: c.Admission.GrantsPerSecond, GrantBurst: c.Admission.GrantBurst}}
}

func (hq *headquarters) wireTrigger() error {
	var err error
	if hq.people, err = hq.cfg.ReadPeople(); err != nil {
		return err
	}
	hq.planner = plan.New(rand.Reader)
	hq.planner.Limit(bounds(hq.cfg).Limits)
	cfg := trigger.Config{
		Runs: hq.store, Tasks: hq.store, World: hq.store, Approvals: hq.store, Past: hq.store, Planner: hq.planner, Bounds: bounds(hq.cfg), Jobs: hq.jobs, Sender: hq.orders,
		Waiting: hq.grant.Waiting, Now: hq.now, Zone: hq.zone, Logger: hq.log, Ward: hq.ward,
		People: hq.people, Sound: hq.sound,
	}
	if hq.identity != nil {
		cfg.Approved, cfg.Rotated = hq.rotateKeys, hq.identity.RotatedBy
	}
	hq.trigger, err = trigger.New(cfg)
	return err
}

func (hq *headquarters) wireReload() {
	cfg := reload.Config{Read: hq.again, Running: hq.cfg, Store: hq.store, Use: hq.use, Announce: hq.publishInfo, Refused: hq.alerts.ReloadRefused,
		Now: hq.now, Logger: hq.log}
	if embedded, ok := hq.link.(*transport.Embedded); ok {
		cfg.Users = embedded.LoadUsers
	}
	hq.reload = reload.New(cfg)
}

// use puts into force what a reload has read.
func (hq *headquarters) use(cfg config.Config, jobs *job.Registry, known *people.People) {
	hq.jobs.Use(jobs)
	hq.people.Use(known)
	hq.planner.Limit(bounds(cfg).Limits)
	hq.trigger.Limit(bounds(cfg))
	hq.grant.Limit(cfg.Admission.MaxRunning, cfg.Admission.GrantsPerSecond, cfg.Admission.GrantBurst)
	hq.intake.Limit(cfg.Collection.InFlight, float64(cfg.Collection.BytesPerSecond), cfg.Collection.BurstBytes)
}

// sources are what /metrics shows.
func (hq *headquarters) sources() measure.Sources {
	return measure.Sources{Meter: hq.meter, Tasks: hq.store, Grant: hq.grant, Intake: hq.intake, Presence: hq.presence, Queue: hq.queue,
		Troubles: hq.alerts.Troubles.Count, Folders: map[string]string{"data": hq.cfg.DataFolder, "reports": hq.cfg.ReportsFolder}, Version: hq.version, Now: hq.now}
}

func (hq *headquarters) wireLink() error {
	if hq.cfg.Transport == config.TransportEmbedded {
		embedded, err := transport.NewEmbedded(hq.cfg.Broker, transport.EmbeddedOptions{
			Handle:   hq.handleByHand,
			Session:  func(s transport.Session) { s.At = hq.now(); hq.presence.Session(s) },
			Banned:   hq.alerts.Banned,
			Served:   served{hq},
			OwnFiles: config.OwnFiles,
			Now:      hq.now,
			Listen:   hq.listen,
			Logger:   hq.log,
		})
		hq.link = embedded
		if err == nil {
			hq.wanted = embedded.Subscribed
		}
		return err
	}
	login, err := hq.cfg.MQTT.Login()
	if err != nil {
		return err
	}
	link := transport.NewMQTT(login, hq.topics, hq.handle, hq.connected, hq.log)
	link.Ward = hq.ward
	hq.link = link
	return nil
}

func (hq *headquarters) wireAdmission() {
	hq.backlog = backlog.New(backlog.Config{Tasks: hq.store, Now: hq.now, Logger: hq.log, Ward: hq.ward})
	hq.grant = grant.New(grant.Config{
		Tasks: hq.store, Attempts: starting{hq.store}, Grants: hq.store, Orders: hq.orders, Now: hq.now, Logger: hq.log,
		MaxRunning: hq.cfg.Admission.MaxRunning, PerSecond: hq.cfg.Admission.GrantsPerSecond, Burst: hq.cfg.Admission.GrantBurst, Ward: hq.ward,
		Awake: hq.clock.Awake,
	})
	var err error
	if hq.aside, err = quarantine.Open(filepath.Join(hq.cfg.DataFolder, "quarantine")); err != nil {
		hq.log.Error("nothing that breaks headquarters can be kept", "error", err) // a full disk must not stop the start
	}
	hq.intake = intake.New(intake.Config{
		Tasks: hq.store, Attempts: hq.store, Jobs: hq.jobs, Leases: hq.grant, Orders: hq.orders, Now: hq.now, Logger: hq.log,
		InFlight: hq.cfg.Collection.InFlight, BytesPerSecond: float64(hq.cfg.Collection.BytesPerSecond), BurstBytes: hq.cfg.Collection.BurstBytes,
		DemandOffer: hq.identity != nil, Alarm: hq.alerts.OfAnswer, Quarantine: hq.aside, Ward: hq.ward,
		Awake: hq.clock.Awake,
	})
	hq.offer = offer.New(offer.Config{
		Tasks: hq.store, Sender: hq.sender, Wanted: hq.wanted, Now: hq.now, Logger: hq.log, Ward: hq.ward,
		Online: func(storeID string) bool { return hq.presence.Online(storeID) },
	})
	hq.presence = presence.New(presence.Config{
		Terminals: starting{hq.store}, Tasks: hq.store, Sender: hq.sender, Orders: hq.orders, Now: hq.now, Logger: hq.log,
		Listeners: []presence.Listener{hq.grant, hq.intake}, Republish: hq.offer.Republish, Numbered: hq.numbered,
		Announce: hq.cfg.Transport == config.TransportEmbedded, Alarm: hq.alerts.About, Ward: hq.ward,
		Awake: hq.clock.Awake,
	})
}

func (hq *headquarters) wireReports() error {
	schema, err := schemas.FS.ReadFile("report.v1.schema.json")
	if err != nil {
		return fmt.Errorf("cannot read the report's schema: %w", err)
	}
	reporter, err := report.New(schema)
	if err != nil {
		return err
	}
	hq.catalogue = catalogue.New(catalogue.Config{Folder: hq.cfg.ReportsFolder, Location: hq.zone, Now: hq.now, Log: hq.log, Ward: hq.ward,
		KeepDays: hq.cfg.Reports.KeepDays, KeepRuns: hq.cfg.Reports.KeepRuns, Unfinished: hq.store.ListUnfinished, Index: reporter.WriteIndex})
	hq.barrier = barrier.New(barrier.Deps{
		Runs: hq.store, Snapshots: barrier.Pinned(hq.store), Revisions: hq.store, Publications: hq.store, Retries: hq.store,
		Reporter: reporter, Sender: hq.sender, Now: hq.now, Log: hq.log, Alarm: hq.alerts.OfRun, Ward: hq.ward,
		Published: hq.catalogue.Published, Lost: hq.clock.Lost,
	}, barrier.Config{Folder: hq.cfg.ReportsFolder, Location: hq.zone})
	return nil
}
