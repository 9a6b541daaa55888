package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"time"

	"muster/internal/files"
	"muster/internal/machine"
)

const (
	// leastFree is the room below which a program soon cannot write, and wellFree
	// that below which it is time to look.
	leastFree = 64 << 20
	wellFree  = 1 << 30
	// endsSoon is how long before its end a certificate is worth a word: programs
	// renew theirs well before.
	endsSoon = 14 * 24 * time.Hour
	// saneAfter is before this program was made: a clock that shows less was lost.
	saneAfter = 1767225600 // 2026-01-01
)

// Folder checks that files can be written, and read back, in a folder. One that is
// not there yet is made at the start, if its parent takes it.
func Folder(name, path, mend string) Check {
	return Check{name, func(context.Context) Finding {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return Warning("it is made at the first start; if it was there before, look whether its disk is mounted", "%s is not there", path)
		}
		file, err := os.CreateTemp(path, ".doctor-*")
		if err != nil {
			return Bad(mend, "%s takes no files: %v", path, err)
		}
		defer os.Remove(file.Name())
		_, err = file.WriteString("written by doctor\n")
		if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
			return Bad(mend, "%s takes no writes: %v", path, err)
		}
		return Good("%s takes writes", path)
	}}
}

// Disk checks the room where a folder is.
func Disk(name, path string) Check {
	return Check{name, func(context.Context) Finding {
		room, err := machine.Disk(path)
		const mend = "make room, or move the folder to a larger disk"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Skipped("%s is not there", path)
		case err != nil:
			return Skipped("%v", err)
		case room.Free < leastFree:
			return Bad(mend, "%s has %d MiB left of %d", path, room.Free>>20, room.Total>>20)
		case room.Free < wellFree:
			return Warning(mend, "%s has %d MiB left of %d", path, room.Free>>20, room.Total>>20)
		}
		return Good("%s has %d MiB left of %d", path, room.Free>>20, room.Total>>20)
	}}
}

// OpenFiles checks that as many files and connections may be open as are needed.
func OpenFiles(needed uint64) Check {
	return Check{"open files", func(context.Context) Finding {
		limit, err := machine.OpenFiles()
		switch {
		case err != nil:
			return Skipped("%v", err)
		case limit < needed:
			return Warning("raise it: LimitNOFILE= of the systemd unit, ulimits.nofile of compose, or ulimit -n",
				"at most %d may be open, and %d may be needed", limit, needed)
		}
		return Good("%d may be open, %d may be needed", limit, needed)
	}}
}

// Clock checks that this machine's clock shows a time that can be, and is kept.
func Clock() Check {
	return Check{"clock", func(context.Context) Finding {
		now := time.Now()
		if now.Unix() < saneAfter {
			return Bad("set the clock, and have it kept by NTP", "it shows %s, which is past", now.Format(time.RFC3339))
		}
		kept, err := machine.ClockKept()
		if err == nil && !kept {
			return Warning("switch an NTP client on: timedatectl set-ntp true", "it shows %s, and nothing keeps it", now.Format(time.RFC3339))
		}
		if err != nil {
			return Good("it shows %s; whether it is kept cannot be seen: %v", now.Format(time.RFC3339), err)
		}
		return Good("it shows %s and is kept", now.Format(time.RFC3339))
	}}
}

// Certificate checks until when the first certificate of a PEM file is good. again says how
// one that is not there or cannot be read comes back, and renew how one that ends is renewed.
func Certificate(name, file, again, renew string) Check {
	return Check{name, func(context.Context) Finding {
		text, err := os.ReadFile(file)
		if err != nil {
			return Bad(again, "cannot be read: %v", err)
		}
		cert, err := FirstCertificate(text)
		if err != nil {
			return Bad(again, "cannot use %s: %v", file, err)
		}
		return Ends(file, cert.NotBefore, cert.NotAfter, renew)
	}}
}

// Guarded says of a file that tells who may log in what others may do with it that they
// must not; well is what it is otherwise.
func Guarded(file string, well Finding) Finding {
	const mend = "run the chmod that is named, as the owner of the file"
	err := files.CheckGuarded(file)
	switch {
	case errors.Is(err, files.ErrOthersWrite):
		return Bad(mend, "%v", err)
	case err != nil:
		return Warning(mend, "%v", err)
	}
	return well
}

// FirstCertificate is the first certificate of a PEM text.
func FirstCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it holds no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// Ends tells until when something with a certificate is good.
func Ends(what string, from, until time.Time, mend string) Finding {
	now, shown := time.Now(), until.UTC().Format(time.RFC3339)
	switch {
	case now.Before(from):
		return Bad("set this machine's clock", "%s is not good before %s", what, from.UTC().Format(time.RFC3339))
	case now.After(until):
		return Bad(mend, "%s ended at %s", what, shown)
	case until.Sub(now) < endsSoon:
		return Warning(mend, "%s ends at %s", what, shown)
	}
	return Good("%s is good until %s", what, shown)
}

// Port checks an address to listen on: while the program runs it is answered, and
// else it can be taken.
func Port(name, address string, runs bool) Check {
	return Check{name, func(ctx context.Context) Finding {
		if !runs {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
			if err != nil {
				return Bad("end what listens there, or choose another address", "%v", machine.Unlistenable(address, err))
			}
			_ = l.Close()
			return Good("%s is free", address)
		}
		host, port, _ := net.SplitHostPort(address) // the configuration is valid
		if port == "0" {
			return Skipped("%s is any port", address)
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(Reachable(host), port))
		if err != nil {
			return Bad("see the log of the program, which should listen there", "nobody answers on %s: %v", address, err)
		}
		_ = conn.Close()
		return Good("%s is answered", address)
	}}
}
