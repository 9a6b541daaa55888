package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"muster/broker/server/users"
	"muster/configs"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/register"
	"muster/internal/files"
	"muster/schemas"
)

// CheckLists reads jobs and stores, and says how many there are.
func (c Config) CheckLists() (jobs, stores int, err error) {
	known, list, err := c.ReadLists()
	if err != nil {
		return 0, 0, err
	}
	places, err := list.Places()
	return len(known.List()), len(places), err
}

// CheckFiles reads the files that the transport in use needs, the identity and
// who may ask for what.
func (c Config) CheckFiles() error {
	if c.Identity.Folder != "" {
		if _, err := identity.Open(c.Identity.Folder, time.Now()); err != nil {
			return err
		}
	}
	if _, err := c.ReadPeople(); err != nil {
		return err
	}
	if c.Transport == TransportEmbedded {
		return c.Located(c.Broker.CheckFiles())
	}
	_, err := c.MQTT.Login()
	return err
}

// CheckFolders says whether the folders of database and reports can be there, as far as
// can be seen without writing.
func (c Config) CheckFolders() error {
	for _, folder := range []struct{ key, path string }{{"data_folder", c.DataFolder}, {"reports_folder", c.ReportsFolder}} {
		if err := files.LookAtFolder(folder.path); err != nil {
			return c.about(folder.key, err)
		}
	}
	return nil
}

// Ended are errors about certificates of the broker's listeners that are not good at
// now. They end no start: a certificate is read again when it is replaced.
func (c Config) Ended(now time.Time) []error {
	if c.Transport != TransportEmbedded {
		return nil
	}
	var all []error
	for _, old := range c.Broker.Ended(now) {
		all = append(all, c.Located(old))
	}
	return all
}

// ReadLists reads the jobs, and the register of stores, whose rows are not looked
// into yet.
func (c Config) ReadLists() (*job.Registry, register.File, error) {
	jobFiles, err := fs.Sub(configs.FS, "jobs")
	if err != nil {
		return nil, register.File{}, fmt.Errorf("cannot read the embedded jobs: %w", err)
	}
	name := "jobs (embedded)"
	if c.JobsFolder != "" {
		if err := lookIn(c.JobsFolder); err != nil {
			return nil, register.File{}, c.about("jobs_folder", err)
		}
		jobFiles, name = os.DirFS(c.JobsFolder), c.JobsFolder
	}
	jobs, err := job.Load(name, jobFiles, schemas.FS)
	if errors.Is(err, job.ErrNone) {
		err = c.about("jobs_folder", err)
	}
	if err != nil {
		return nil, register.File{}, err
	}
	stores, err := c.readRegister()
	return jobs, stores, err
}

// lookIn says why nothing can be read from a folder.
func lookIn(folder string) error {
	if err := files.LookAtFolder(folder); err != nil {
		return err
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder %s: make it, or name another", folder)
	}
	return nil
}

func (c Config) readRegister() (register.File, error) {
	if c.StoresFile != "" {
		stores, err := register.Read(c.StoresFile)
		if err != nil {
			err = c.about("stores_file", err)
		}
		return stores, err
	}
	data, err := configs.FS.ReadFile("stores.csv")
	if err != nil {
		return register.File{}, fmt.Errorf("cannot read the embedded register: %w", err)
	}
	return register.File{Name: "stores.csv (embedded)", Data: data}, nil
}

// UsersFile is the users file that counts, "" for none.
func (c Config) UsersFile() string {
	if c.Transport == TransportMQTT {
		return c.MQTT.UsersFile
	}
	return c.Broker.UsersFile
}

// ReadPeople reads who may ask for what.
func (c Config) ReadPeople() (*people.People, error) {
	file := c.UsersFile()
	signed := c.Transport == TransportMQTT && c.Identity.Folder != "" && !c.MQTT.TrustRequests
	if file == "" {
		return people.New(people.Config{Anonymous: true, RequireSigned: signed})
	}
	book, err := users.Load(file)
	if err != nil {
		return nil, fmt.Errorf("cannot load the users file: %w", err)
	}
	known := people.Config{RequireSigned: signed}
	for _, entry := range book.List() {
		known.Persons = append(known.Persons, people.Person{
			Name: entry.Name, Role: people.Role(entry.Role), Jobs: entry.Jobs, Stores: entry.Stores, Key: entry.Key})
	}
	return people.New(known)
}
