// Package site is a headquarters to be measured: a fresh folder, its
// configuration with every limit out of the way but the machine's, the process,
// and the technicians who ask for runs.
//
// It knows no terminal; package crowd has them.
package site

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/broker/server/users"
	"muster/tests/load/crowd"
)

// Options say what headquarters is to be like. Dispatcher and Stores are required.
type Options struct {
	Dispatcher string // the program
	Parent     string // of the fresh folder; "": the system's for temporary files
	Stores     int    // in the register
	Terminals  int    // stores that have one; the others stay away
	Signed     bool   // headquarters has an identity, and terminals are enrolled
	Barrier    time.Duration
	Runs       int // that will be asked for
}

// Password is that of every user and terminal where passwords are asked for.
const Password = "between-tides-and-tills"

// runsAUser is how many runs one user asks for at once: headquarters' limit.
const runsAUser = 20

// user is the i-th technician's name.
func user(i int) string { return fmt.Sprintf("load%d", i) }

func (s *Site) users() int { return (max(s.Runs, 1) + runsAUser - 1) / runsAUser }

// spec is as long as a peer's order, so that both carry as much.
const spec = `sync-price-list v42; sha256=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`

const jobText = `name: load
version: 1
title: Load
input_schema: in.json
output_schema: out.json
policy: {barrier: %s, lease: 5m, backlog: all}
columns:
  - {name: rows, pointer: /rows, title: Rows}
`

const inputSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["spec"],
"properties":{"spec":{"type":"string","maxLength":200}}}`

const outputSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["run","store","status","exit","rows","log"],
"properties":{"run":{"type":"string"},"store":{"type":"string"},"status":{"enum":["SUCCEEDED","FAILED"]},"exit":{"type":"integer"},
"rows":{"type":"integer","minimum":0},"log":{"type":"string","maxLength":262144}}}`

const configText = `data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
broker: {listeners: {tcp: {address: %q}}, limits: {max_connections: 200000}, %s}
admission: {max_running: 1000000, grants_per_second: 1000000, grant_burst: 1000000}
log: {level: warn}
`

// configure writes everything that headquarters reads.
func (s *Site) configure(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot find a free port: %w", err)
	}
	s.Addr = l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	var register strings.Builder
	register.WriteString("store_id,name,time_zone,labels\n")
	for i := range s.Stores {
		fmt.Fprintf(&register, "%s,Store %d,Asia/Shanghai,region=east\n", crowd.StoreID(i), i)
	}
	door, identity := "anonymous: true", ""
	files := map[string]string{
		"stores.csv": register.String(), "jobs/in.json": inputSchema, "jobs/out.json": outputSchema,
		"jobs/load.yaml": fmt.Sprintf(jobText, s.Barrier),
	}
	if s.Signed {
		door, identity = "anonymous: false, users_file: users.yaml", "identity: {folder: made/identity}\n"
		if files["users.yaml"], err = s.book(); err != nil {
			return err
		}
	}
	files["dispatcher.yaml"] = fmt.Sprintf(configText, s.Addr, door) + identity
	for name, text := range files {
		path := filepath.Join(s.Folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("cannot write the configuration: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("cannot write the configuration: %w", err)
		}
	}
	return nil
}

// book is the users file: technicians and terminals, with one password.
func (s *Site) book() (string, error) {
	hash, err := users.HashPassword([]byte(Password))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("users:\n")
	for i := range s.users() {
		fmt.Fprintf(&b, "  - {name: %s, role: operator, password: %q}\n", user(i), hash)
	}
	b.WriteString("terminals:\n")
	for i := range s.Terminals {
		fmt.Fprintf(&b, "  - {store: %s, terminal: %s, password: %q}\n", crowd.StoreID(i), crowd.Terminal, hash)
	}
	return b.String(), nil
}
