package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"muster/edge-agent/internal/config"
	"muster/edge-agent/internal/enrol"
	"muster/edge-agent/internal/link"
	"muster/internal/files"
	"muster/internal/trust"
	"muster/internal/usage"
)

const enrollUsage = `usage: edge-agent enroll --token-file FILE --headquarters URL --identity FOLDER [flags]

An operator at headquarters makes the token: dispatcher enroll STORE TERMINAL.
It is good for one terminal, once, for 24 hours. The private key is made here and
stays here. Exit code 0: enrolled; 1: refused or not reached, the identity is as
it was and the same command may be run again; 2: wrong usage.

flags:
`

// enrollHelp is the command line that shows help.
const enrollHelp = "edge-agent enroll -help"

// enroll returns the exit code: 0 enrolled, 1 failed, 2 wrong usage.
func enroll(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	request, code := enrolmentOf(ctx, args, stdout, stderr)
	if code >= 0 {
		return code
	}
	id, err := enrol.Enrol(ctx, request.Request)
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent: enroll:", err)
		return 1
	}
	holder := id.Holder()
	fmt.Fprintf(stdout, "terminal %s of store %s is enrolled in %s; the certificate lasts until %s and is renewed by itself; an agent that runs must be started again\n",
		holder.Terminal, holder.Store, request.Folder, id.Certificate().Leaf.NotAfter.Format(time.RFC3339))
	fmt.Fprint(stdout, settingsOf(request))
	return 0
}

// enrolment is what to ask for, and the broker.url that the configuration names, "" for none.
type enrolment struct {
	enrol.Request
	broker string
}

// settingsOf says what belongs into the agent's configuration after an enrolment.
// Where that names no broker, it usually stands beside the enrolment, at its protocol's
// own port.
func settingsOf(request enrolment) string {
	folder := request.Folder
	if whole, err := filepath.Abs(folder); err == nil {
		folder = whole
	}
	host := "HOST"
	if base, err := enrol.ParseURL(request.URL); err == nil {
		host = base.Hostname()
	}
	broker := cmp.Or(request.broker, "mqtts://"+net.JoinHostPort(host, link.Schemes()["mqtts"]))
	return fmt.Sprintf(`its configuration needs this (another broker.url, if headquarters' broker is elsewhere):

identity:
  folder: %q
broker:
  url: %q
`, folder, broker)
}

// enrolmentOf reads the command line, flags over the file; code is -1 when there
// is something to ask for. It gives up when ctx ends.
func enrolmentOf(ctx context.Context, args []string, stdout, stderr io.Writer) (request enrolment, code int) {
	flags := flag.NewFlagSet("edge-agent enroll", flag.ContinueOnError)
	flags.StringVar(&request.Token, "token", "", "`token` of headquarters; every user of this machine can read it here, prefer --token-file")
	tokenFile := flags.String("token-file", "", "`file` with the token of headquarters, readable by its owner alone; -: asked for, or from standard input")
	flags.StringVar(&request.URL, "headquarters", "", "`URL` of headquarters' enrolment, such as https://hq.example:8443; empty: identity.headquarters of the file")
	flags.StringVar(&request.Folder, "identity", "", "`folder` to put the identity into; empty: identity.folder of the file")
	flags.StringVar(&request.Store, "store", "", "store `id` that the token must be for; empty: the file's, else any")
	flags.StringVar(&request.Terminal, "terminal", "", "terminal `id` that the token must be for; empty: the file's, else any")
	flags.BoolVar(&request.Force, "force", false, "replace an identity that is there")
	path := flags.String("config", "", "configuration `file` of this terminal")
	flags.StringVar(path, "c", "", "configuration `file` of this terminal")
	wrong := func(err error) (enrolment, int) {
		fmt.Fprintln(stderr, "edge-agent: enroll:", err)
		return request, exitUsage
	}
	if err := usage.Parse(flags, args, enrollHelp); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, enrollUsage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return request, 0
	} else if err != nil {
		return wrong(err)
	}
	if *path != "" {
		cfg, err := files.Await(ctx, func() (*config.Config, error) {
			return config.Load(*path, config.Overrides{Store: request.Store, Terminal: request.Terminal})
		})
		if err != nil {
			fmt.Fprintln(stderr, "edge-agent: enroll:", err)
			return request, 1
		}
		request.Store, request.Terminal = cfg.Store, cfg.Terminal
		if cfg.Given("broker.url") {
			request.broker = cfg.Broker.URL
		}
		for _, given := range []struct {
			flag *string
			file string
		}{{&request.Folder, cfg.Identity.Folder}, {&request.URL, cfg.Identity.Headquarters}} {
			if *given.flag == "" {
				*given.flag = given.file
			}
		}
	}
	missing := ""
	switch {
	case flags.NArg() > 0:
		return wrong(usage.Unknown("argument", flags.Arg(0), nil, enrollHelp))
	case request.Token == "" && *tokenFile == "":
		missing = "--token-file is missing"
	case request.Token != "" && *tokenFile != "":
		missing = "--token and --token-file say the same, one is enough"
	case request.URL == "":
		missing = "--headquarters is missing, and no configuration names identity.headquarters"
	case request.Folder == "":
		missing = "--identity is missing, and no configuration names identity.folder"
	case (request.Store == "") != (request.Terminal == ""):
		missing = "--store and --terminal go together"
	default:
		return tokenOf(ctx, request, *tokenFile, stderr)
	}
	return wrong(errors.New(missing + "; " + usage.Help(enrollHelp)))
}

// readToken reads a file that is its owner's alone.
func readToken(path string) (string, error) {
	text, err := trust.ReadPrivate(path)
	if err != nil {
		return "", err
	}
	token, err := files.Secret(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// askedFor reads the token from standard input: a person at a keyboard is asked for one
// line, what is piped in is read to its end.
func askedFor(in *os.File, stderr io.Writer) (string, error) {
	info, err := in.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return files.SecretFrom(in)
	}
	fmt.Fprint(stderr, "paste the token and press Enter: ")
	line, err := bufio.NewReader(io.LimitReader(in, 4*files.MaxSecret)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return files.Secret(line)
}

// tokenOf reads the token from path, - for standard input; without a path the command
// line had it, of which it warns. code is as in enrolmentOf.
func tokenOf(ctx context.Context, request enrolment, path string, stderr io.Writer) (_ enrolment, code int) {
	var err error
	switch path {
	case "":
		fmt.Fprintln(stderr, "edge-agent: enroll: every user of this machine can read what --token says; --token-file FILE, or - for standard input, keeps it to yourself")
	case "-":
		request.Token, err = files.Await(ctx, func() (string, error) { return askedFor(os.Stdin, stderr) })
	default:
		request.Token, err = files.Await(ctx, func() (string, error) { return readToken(path) })
	}
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent: enroll: cannot read the token:", err)
		return request, 1
	}
	return request, -1
}
