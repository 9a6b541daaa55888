package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/internal/files"
	"muster/internal/protocol"
)

// order is what the flags of run say.
type order struct {
	stores    string
	inputs    []string
	inputFile string
	reason    string
	requestID string
	choice    choice
	dry       bool
	wait      bool
}

func runCommand() *cobra.Command {
	var a access
	var o order
	cmd := &cobra.Command{
		Use:   "run JOB --stores all|ID,ID|@FILE|allBut:ID,ID|label:EXPRESSION",
		Short: "Order a job at every store, or at some, and wait for the report if asked to",
		Long: `Order a job at stores. Every store of the choice must be known, or nothing is created.

Exit codes: 0 accepted (with --wait: the report is complete), 2 refused,
3 the report is partial, 4 it is below the quorum, 5 no answer,
6 nothing was created yet: a second person has to approve it (with --wait it is
waited for, and 6 means that they did not).`,
		Example: `  dispatcher run collect_log --stores all --input date=2026-09-17 --wait
  dispatcher run collect_log --stores label:region=east,format!=kiosk --barrier 60s
  dispatcher run collect_log --stores allBut:SH_0312,SH_0313 --grants-per-second 20 --grant-burst 5
  dispatcher run collect_log --stores @missing.txt --input topErrors:=5`,
		Args: screen.One("job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := o.request(cmd, args[0])
			if err != nil {
				return err
			}
			request.Deadline = a.deadline()
			return orderAndWait(cmd, &a, protocol.VerbRun, request, o.wait && !o.dry)
		},
	}
	a.flags(cmd)
	a.signing(cmd)
	f := cmd.Flags()
	f.StringVar(&o.stores, "stores", "", "all, ids parted by commas, @FILE with an id a line, label:EXPRESSION, or allBut: before ids or @FILE")
	f.StringArrayVar(&o.inputs, "input", nil, "KEY=TEXT, or KEY:=JSON for numbers and the like; may be repeated")
	f.StringVar(&o.inputFile, "input-file", "", "JSON file with the input, - for standard input; --input goes over it")
	f.StringVar(&o.reason, "reason", "", "why; it stands in the report")
	f.StringVar(&o.requestID, "request-id", "", "the same id and content is the same run (default: a new one)")
	o.choice.flags(cmd, "the job's")
	f.BoolVar(&o.dry, "dry-run", false, "only say what the run would meet")
	f.BoolVar(&o.wait, "wait", false, "wait for the approval if one is needed, then for the report, and show progress")
	if err := cmd.MarkFlagRequired("stores"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (o order) request(cmd *cobra.Command, jobName string) (protocol.RunRequest, error) {
	request := protocol.RunRequest{RequestID: o.requestID, Job: jobName, Reason: o.reason, DryRun: o.dry}
	if request.RequestID == "" {
		request.RequestID = newID()
	}
	var err error
	if request.Stores, err = targets(o.stores); err != nil {
		return request, err
	}
	if request.Input, err = input(cmd.InOrStdin(), o.inputFile, o.inputs); err != nil {
		return request, err
	}
	err = o.choice.into(cmd, members{&request.BarrierSeconds, &request.MakeupSeconds, &request.Attempts, &request.MaxRunning, &request.GrantBurst, &request.Priority,
		&request.GrantsPerSecond})
	return request, err
}

// targets reads --stores. A store whose id is "all" must be named by a file.
func targets(text string) (protocol.Targets, error) {
	if text == "all" {
		return protocol.Targets{All: true}, nil
	}
	if expression, ok := strings.CutPrefix(text, "label:"); ok {
		if expression == "" {
			return protocol.Targets{}, fmt.Errorf("--stores label: needs an expression such as label:region=east")
		}
		return protocol.Targets{Labels: expression}, nil
	}
	rest, allBut := strings.CutPrefix(text, "allBut:")
	ids, err := named(rest)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("--stores %q names no store", text)
	}
	switch {
	case err != nil:
		return protocol.Targets{}, err
	case allBut:
		return protocol.Targets{AllBut: ids}, nil
	}
	return protocol.Targets{Stores: ids}, nil
}

// named are the ids of a text, parted by commas, or of the file behind an @.
func named(text string) ([]string, error) {
	file, ofFile := strings.CutPrefix(text, "@")
	if !ofFile {
		return listed(strings.ReplaceAll(text, ",", "\n")), nil
	}
	data, err := files.Read(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the list of stores: %w", err)
	}
	return listed(string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))), nil
}

// listed takes the first field of each line. Blank lines, # comments and the
// header of the register are skipped, so that its file serves as a list too.
func listed(text string) []string {
	var ids []string
	for row := range strings.Lines(text) {
		id, _, _ := strings.Cut(row, ",")
		id = strings.Trim(strings.TrimSpace(id), `"`)
		if id != "" && id != "store_id" && !strings.HasPrefix(id, "#") {
			ids = append(ids, id)
		}
	}
	return ids
}

// input builds the input object, nil when nothing was said. KEY=TEXT is always
// a text: 007 and 1E5 must not turn into numbers.
func input(stdin io.Reader, file string, pairs []string) (json.RawMessage, error) {
	if file == "" && len(pairs) == 0 {
		return nil, nil
	}
	members := map[string]json.RawMessage{}
	if file != "" {
		data, err := readFile(stdin, file)
		if err != nil {
			return nil, fmt.Errorf("cannot read the input: %w", err)
		}
		if err := protocol.Decode(data, protocol.MaxPayloadBytes, &members); err != nil {
			return nil, fmt.Errorf("cannot read the input from %s: %w", file, err)
		}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || key == ":" {
			return nil, fmt.Errorf("--input %q must be KEY=TEXT or KEY:=JSON", pair)
		}
		if name, isJSON := strings.CutSuffix(key, ":"); isJSON {
			clean, err := protocol.Scan([]byte(value), protocol.MaxPayloadBytes)
			if err != nil {
				return nil, fmt.Errorf("--input %q: %w", pair, err)
			}
			members[name] = clean
			continue
		}
		text, err := protocol.Encode(value)
		if err != nil {
			return nil, err
		}
		members[key] = text
	}
	return protocol.Encode(members)
}

func readFile(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(stdin, protocol.MaxPayloadBytes+1))
	}
	return files.Read(file)
}
