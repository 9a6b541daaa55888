// Package techkit packs what a technician with a laptop needs to speak with
// headquarters by stock tools: option files, the authority's certificate, a cheat sheet
// in two languages, and scripts that ask and watch.
//
// It sends nothing, and it decides nobody's rights: the users file does.
package techkit

import (
	"archive/zip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/template"
	"time"

	"muster/dispatcher/internal/example"
	"muster/internal/protocol"
)

//go:embed files
var sources embed.FS

// Kit is what goes into one archive. Every text must be free of line breaks.
type Kit struct {
	User string
	Host string
	Port string
	Root string // of the topics
	CA   []byte // PEM; nil: without TLS
	// Login says that the broker wants a proof of who the user is: Cert and Key (PEM),
	// else Password, else the user writes one into the option files.
	Login     bool
	Cert, Key []byte
	Password  string
	Verbs     []protocol.Verb // that headquarters takes from the user
	Examples  example.Examples
	Warnings  []string // what whoever packs it should know
}

// May says whether the user has a verb, for the cheat sheets.
func (k *Kit) May(verb protocol.Verb) bool { return slices.Contains(k.Verbs, verb) }

// Asks says whether the user has any verb; others only watch.
func (k *Kit) Asks() bool { return len(k.Verbs) > 0 }

// Runs are requests for a run that both shells take between single quotes.
func (k *Kit) Runs(reason string) []string {
	list := k.Examples.Runs(reason)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "'", `\u0027`)
	}
	return list
}

// Write writes the archive, all of it in one folder. Scripts can be executed, and what
// holds a secret is the user's alone. Who asks for nothing gets nothing to ask with.
func (k *Kit) Write(w io.Writer, now time.Time) error {
	archive := zip.NewWriter(w)
	folder := "muster-" + k.User + "/"
	put := func(name string, mode fs.FileMode, write func(io.Writer) error) error {
		header := &zip.FileHeader{Name: folder + name, Method: zip.Deflate, Modified: now}
		header.SetMode(mode)
		out, err := archive.CreateHeader(header)
		if err == nil {
			err = write(out)
		}
		if err != nil {
			return fmt.Errorf("cannot pack %s: %w", name, err)
		}
		return nil
	}
	for _, f := range []struct {
		name, source string
		mode         fs.FileMode
		asks         bool
	}{
		{"mosquitto_pub", "mosquitto.tmpl", 0o600, true}, {"mosquitto_sub", "mosquitto.tmpl", 0o600, false}, {"mosquitto_rr", "mosquitto.tmpl", 0o600, true},
		{"ask.sh", "ask.sh.tmpl", 0o700, true}, {"watch.sh", "watch.sh.tmpl", 0o700, false}, {"ask.ps1", "ask.ps1.tmpl", 0o600, true}, {"watch.ps1", "watch.ps1.tmpl", 0o600, false},
		{"cheatsheet.en.md", "cheatsheet.en.md.tmpl", 0o600, false}, {"cheatsheet.zh-CN.md", "cheatsheet.zh-CN.md.tmpl", 0o600, false},
	} {
		if f.asks && !k.Asks() {
			continue
		}
		text, err := template.ParseFS(sources, "files/"+f.source)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", f.source, err)
		}
		if err := put(f.name, f.mode, func(w io.Writer) error { return text.Execute(w, k) }); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{"ca.crt", k.CA}, {k.User + ".crt", k.Cert}, {k.User + ".key", k.Key}} {
		if f.text == nil {
			continue
		}
		if err := put(f.name, 0o600, func(w io.Writer) error { _, err := w.Write(f.text); return err }); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("cannot pack the kit: %w", err)
	}
	return nil
}
