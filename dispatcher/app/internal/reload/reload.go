package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// alarmReload is the kind of the alarm that what should be taken in without a
// restart is wrong, and that the old stays in force.
const alarmReload = "reload_refused"

// reloadable are the keys, or the beginnings of keys, whose change needs no restart.
func reloadable() []string {
	return []string{"stores_file", "jobs_folder", "broker.users_file", "mqtt.users_file", "admission.", "collection.", "approval."}
}

// reload takes in jobs, stores, users and limits as the configuration says them now.
// Nobody's session ends but of those whom the users file lets in no longer. Anything
// that is wrong, be it in a file or in a key that needs a restart, refuses all of it.
func (hq *headquarters) reload(ctx context.Context) (admin.Reloaded, error) {
	hq.reloading.Lock()
	defer hq.reloading.Unlock()
	done, err := hq.takeIn(ctx)
	if err != nil {
		err = fmt.Errorf("nothing was taken in, what was in force stays: %w", err)
		hq.troubles.note(alarmReload, "configuration", err)
		hq.raise(protocol.SeverityWarning, alarmReload, "configuration", err)
		return done, &protocol.Error{Code: protocol.CodeSchema, Message: err.Error(), MessageZh: "配置有误，未做任何更改，原配置继续有效",
			Hint: "mend it; dispatcher check-config looks again; then reload once more"}
	}
	if hq.troubles.isOpen(alarmReload, "configuration") {
		hq.troubles.note(alarmReload, "configuration", nil)
		hq.raise(protocol.SeverityWarning, alarmReload, "configuration", nil)
	}
	hq.log.Info("jobs, stores, users and limits were read again", "jobs", done.Jobs, "stores", done.Stores, "added", done.Added,
		"changed", done.Changed, "retired", done.Retired, "needs_restart", strings.Join(done.NeedRestart, " "))
	return done, nil
}

func (hq *headquarters) takeIn(ctx context.Context) (admin.Reloaded, error) {
	if hq.again == nil {
		return admin.Reloaded{}, errors.New("this headquarters was started without a configuration that can be read again")
	}
	cfg, err := hq.again()
	if err != nil {
		return admin.Reloaded{}, err
	}
	if err := cfg.CheckFiles(); err != nil {
		return admin.Reloaded{}, err
	}
	jobs, stores, err := cfg.ReadLists()
	if err != nil {
		return admin.Reloaded{}, err
	}
	places, err := stores.Places()
	if err != nil {
		return admin.Reloaded{}, err
	}
	if err := hq.stillOffered(ctx, jobs); err != nil {
		return admin.Reloaded{}, err
	}
	known, err := cfg.ReadPeople()
	if err != nil {
		return admin.Reloaded{}, err
	}
	useUsers := func() {}
	if embedded, ok := hq.link.(*transport.Embedded); ok {
		if useUsers, err = embedded.LoadUsers(cfg.Broker.UsersFile); err != nil {
			return admin.Reloaded{}, err
		}
	}
	done := admin.Reloaded{Jobs: len(jobs.List()), Stores: len(places), NeedRestart: unlike(hq.cfg, cfg)}
	// The only step that can fail, on a full disk: it comes first.
	if done.Added, done.Changed, done.Retired, err = hq.store.ReplacePlaces(ctx, stores.Hash(), places, hq.now()); err != nil {
		return admin.Reloaded{}, err
	}
	hq.jobs.Use(jobs)
	hq.people.Use(known)
	useUsers()
	hq.planner.Limit(bounds(cfg).Limits)
	hq.trigger.Limit(bounds(cfg))
	hq.grant.Limit(cfg.Admission.MaxRunning, cfg.Admission.GrantsPerSecond, cfg.Admission.GrantBurst)
	hq.intake.Limit(cfg.Collection.InFlight, float64(cfg.Collection.BytesPerSecond), cfg.Collection.BurstBytes)
	return done, hq.publishInfo(ctx)
}

// stillOffered refuses jobs without one that an open run needs to judge answers by.
func (hq *headquarters) stillOffered(ctx context.Context, jobs *job.Registry) error {
	runs, err := hq.store.ListOpenRuns(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if _, there := jobs.Get(run.Job); !there {
			return fmt.Errorf("job %s is gone, and run %s still takes answers of it: leave its file until the run is closed, or cancel the run", run.Job, run.RunID)
		}
	}
	return nil
}

// unlike names the keys that differ and count from the next start on.
func unlike(c, other config.Config) []string {
	names := []string{}
	mine, err := c.Effective()
	theirs, errOther := other.Effective()
	if err != nil || errOther != nil {
		return names
	}
	for i, key := range mine {
		free := slices.ContainsFunc(reloadable(), func(name string) bool { return strings.HasPrefix(key.Key, name) })
		if !free && string(key.Value) != string(theirs[i].Value) {
			names = append(names, key.Key)
		}
	}
	return names
}
