package durability_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/internal/protocol"
	"muster/tests/chaos/durability"
	"muster/tests/chaos/site"
	"muster/tests/chaos/strace"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

const (
	marker    = "the-answer-whose-way-is-followed"
	requestID = "the-request-whose-way-is-followed"
	wal       = "/data/muster.db-wal"
	journal   = "/kept/journal.log"
	outbox    = "/kept/outbox"
)

// options: every call by which something becomes durable, or leaves. A page of
// the database fits into a string.
var options = []string{"--seccomp-bpf", "-s", "70000", "-e", "signal=none",
	"-e", "trace=write,writev,pwrite64,fsync,fdatasync,rename,renameat,renameat2,execve"}

// traced is what both programs did for one run, from its request to its report.
type traced struct {
	hq, agent         []strace.Call
	fromHQ, fromAgent []durability.Packet
}

func run(t *testing.T) traced {
	t.Helper()
	s := site.New(t, bin, site.Config{Work: `echo '{"marker":"` + marker + `"}'; exit`}, "A")
	person := s.Writer(site.Wang)
	files := []string{filepath.Join(s.Dir, "hq.trace"), filepath.Join(s.Dir, "agent.trace")}
	line := strace.Run(files[0], options, s.ServeCommand())
	s.HQ = programs.Launch(t, line[0], line[1:]...)
	s.HQ.AwaitOutput("headquarters is ready")
	s.Watch(s.Writer(site.Watch))
	line = strace.Run(files[1], options, s.AgentCommand("A"))
	agent := programs.Launch(t, line[0], line[1:]...)
	agent.AwaitOutput("link is up")
	reply := s.Ask(person, protocol.VerbRun, `{"requestId":"`+requestID+`","job":"probe","stores":["A"]}`)
	s.Revision(reply.RunID, 1)
	agent.AwaitOutput("answer receipted")
	s.None("the mark of the published revision", `SELECT revision FROM revisions WHERE published_at = 0`)
	agent.Terminate()
	s.HQ.Terminate()
	var out traced
	out.hq, out.fromHQ = parse(t, files[0])
	out.agent, out.fromAgent = parse(t, files[1])
	return out
}

func parse(t *testing.T, path string) ([]strace.Call, []durability.Packet) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	calls, err := strace.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := durability.Sent(calls)
	if err != nil {
		t.Fatal(err)
	}
	return calls, sent
}

// published matches what was published on a topic that ends so, with that text.
func published(ending, text string) func(durability.Packet) bool {
	return func(pk durability.Packet) bool {
		return pk.Type == packets.Publish && strings.HasSuffix(pk.Topic, ending) && strings.Contains(pk.Payload, text)
	}
}

// one is the first packet that matches.
func one(t *testing.T, sent []durability.Packet, what string, match func(durability.Packet) bool) durability.Packet {
	t.Helper()
	for _, pk := range sent {
		if match(pk) {
			return pk
		}
	}
	t.Fatalf("nobody sent %s", what)
	return durability.Packet{}
}

// acknowledged matches the PUBACK of a packet on a connection.
func acknowledged(conn string, id uint16) func(durability.Packet) bool {
	return func(pk durability.Packet) bool { return pk.Type == packets.Puback && pk.Conn == conn && pk.ID == id }
}

// TestWhatIsSaidWasMadeDurableBefore follows one run through the system calls of
// both programs.
func TestWhatIsSaidWasMadeDurableBefore(t *testing.T) { // I1, I3, I8
	t.Parallel()
	strace.Needs(t)
	seen := run(t)
	for _, o := range headquarters(t, seen) {
		if broken := o.Broken(seen.hq); broken != "" {
			t.Error(broken)
		}
	}
	for _, o := range agent(t, seen) {
		if broken := o.Broken(seen.agent); broken != "" {
			t.Error(broken)
		}
	}
}

// headquarters: a commit is synced before anybody hears of it.
func headquarters(t *testing.T, seen traced) []durability.Order {
	t.Helper()
	reply := one(t, seen.fromHQ, "a reply", published("/rep/wang/chaos", `"ok":true`))
	receipt := one(t, seen.fromHQ, "a receipt", published("/pos1/orders", `"order":"receipt"`))
	result := one(t, seen.fromAgent, "a result", published("/pos1/result", marker))
	requested := durability.Order{Change: durability.Writes("pwrite64", wal, requestID), Sync: durability.Syncs(wal)}
	answered := durability.Order{Change: durability.Writes("pwrite64", wal, marker), Sync: durability.Syncs(wal)}
	order := func(o durability.Order, what string, match func(durability.Packet) bool) durability.Order {
		o.What, o.Then = what, durability.Calls(seen.fromHQ, match)
		return o
	}
	orders := []durability.Order{
		order(requested, "a run, and the reply", published("/rep/wang/chaos", "")),
		order(requested, "a run, and the PUBACK of its request", func(pk durability.Packet) bool {
			return pk.Type == packets.Puback && pk.Conn == reply.Conn // its only message
		}),
		order(requested, "a run, and its offer", published("", `"parentId"`)),
		order(answered, "an answer, and its receipt", published("/pos1/orders", `"order":"receipt"`)),
		order(answered, "an answer, and its PUBACK", acknowledged(receipt.Conn, result.ID)),
		order(answered, "an answer, and what watchers hear of it", published("/stores/A", `"event":"succeeded"`)),
	}
	for _, ending := range []string{".json", ".csv", ".html", ".xlsx", "_manifest.json"} {
		summary := published("/summary", "")
		orders = append(orders,
			order(durability.Order{Change: durability.Writes("write", "_r1"+ending+".tmp", ""), Sync: durability.Syncs("_r1" + ending + ".tmp")},
				"the report's "+ending+", and the summary", summary),
			order(durability.Order{Change: durability.Renames("_r1" + ending), Sync: syncsFolder}, "the name of the report's "+ending+", and the summary", summary))
	}
	return append(orders, order(durability.Order{Change: durability.Renames("_r1_manifest.json"), Sync: durability.Syncs(wal)},
		"the mark of the published revision, and the summary", published("/summary", "")))
}

// syncsFolder: the folder of a month, below that of its year.
func syncsFolder(c strace.Call) bool {
	return c.Name == "fsync" && strings.HasSuffix(filepath.Dir(filepath.Dir(c.Path())), "/reports")
}

// agent: an intent is on the disk before anything follows from it, and an
// answer before it is sent.
func agent(t *testing.T, seen traced) []durability.Order {
	t.Helper()
	grant := one(t, seen.fromHQ, "a grant", published("/pos1/orders", `"order":"grant"`))
	claim := one(t, seen.fromAgent, "a claim", published("/pos1/claim", ""))
	result := published("/pos1/result", marker)
	var starts []strace.Call
	for _, c := range seen.agent {
		if c.Name == "execve" && strings.Contains(string(c.Data()), "/A.sh") {
			starts = append(starts, c)
		}
	}
	phase := func(name string) durability.Order {
		return durability.Order{Change: durability.Writes("write", journal, `"phase":"`+name+`"`), Sync: durability.Syncs(journal)}
	}
	order := func(o durability.Order, what string, then []strace.Call) durability.Order {
		o.What, o.Then = what, then
		return o
	}
	answer := durability.Order{Change: durability.Writes("write", ".answer.tmp", marker), Sync: durability.Syncs(".answer.tmp")}
	name := durability.Order{Change: durability.Renames(".answer"), Sync: durability.Syncs(outbox)}
	return []durability.Order{
		order(phase("claimed"), "the journal of a claim, and the claim", durability.Calls(seen.fromAgent, published("/pos1/claim", ""))),
		order(phase("granted"), "the journal of a grant, and the start of its execution", starts),
		order(phase("granted"), "the journal of a grant, and its PUBACK", durability.Calls(seen.fromAgent, acknowledged(claim.Conn, grant.ID))),
		order(answer, "an answer, and its sending", durability.Calls(seen.fromAgent, result)),
		order(name, "the name of an answer, and its sending", durability.Calls(seen.fromAgent, result)),
		order(phase("finished"), "the journal of an end, and the sending of the answer", durability.Calls(seen.fromAgent, result)),
	}
}
