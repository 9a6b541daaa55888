package durability_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/internal/protocol"
	"muster/internal/task"
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
	large     = "the-large-answer-whose-way-is-followed"
	reason    = "the-cancel-whose-way-is-followed"
	requestID = "the-request-whose-way-is-followed"
	wal       = "/data/muster.db-wal"
	journal   = "/kept/journal.log"
	outbox    = "/kept/outbox"
)

// work answers as its input says: at once, with more than a message holds that
// nobody asked for, or not before it is cancelled.
const work = `case "$(cat)" in
*large*) printf '{"marker":"` + large + `","pad":"'; head -c 20000 /dev/zero | tr '\0' x; echo '"}';;
*never*) while [ -e "$0" ]; do sleep 1; done;;
*) echo '{"marker":"` + marker + `"}';;
esac
exit`

// options: every call by which something becomes durable, or leaves. A page of
// the database fits into a string.
var options = []string{"--seccomp-bpf", "-s", "70000", "-e", "signal=none",
	"-e", "trace=write,writev,pwrite64,fsync,fdatasync,rename,renameat,renameat2,execve"}

// traced is what both programs did for three runs: one with an answer, one with a
// large answer, and one that is cancelled.
type traced struct {
	hq, agent         []strace.Call
	fromHQ, fromAgent []durability.Packet
	cancelled         string // the beginning of a task's row: task, run, store
	granted           string // the beginning of the first attempt's row: task, store, terminal
}

func run(t *testing.T) (out traced) {
	t.Helper()
	s := site.New(t, bin, site.Config{Work: work}, "A")
	person := s.Writer(site.Wang)
	files := []string{filepath.Join(s.Dir, "hq.trace"), filepath.Join(s.Dir, "agent.trace")}
	line := strace.Run(files[0], options, s.ServeCommand())
	s.HQ = programs.Launch(t, line[0], line[1:]...)
	s.HQ.AwaitOutput("headquarters is ready")
	s.Watch(s.Writer(site.Watch))
	line = strace.Run(files[1], options, s.AgentCommand("A"))
	agent := programs.Launch(t, line[0], line[1:]...)
	agent.AwaitOutput("link is up")
	order := func(id, kind string) string {
		return s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":%q,"job":"probe","stores":["A"],"input":{"kind":%q}}`, id, kind)).RunID
	}
	s.Revision(order(requestID, "small"), 1)
	s.Revision(order("second", "large"), 1)
	last := order("third", "never")
	s.Executed("A", 3)
	s.Ask(person, protocol.VerbCancel, fmt.Sprintf(`{"runId":%q,"reason":%q}`, last, reason))
	s.Revision(last, 1)
	programs.Eventually(t, "three receipts", func() bool { return strings.Count(agent.Output(), "answer receipted") == 3 })
	s.None("the mark of the published revision", `SELECT revision FROM revisions WHERE published_at = 0`)
	agent.Terminate()
	s.HQ.Terminate()
	out.granted = s.Rows(`SELECT task_id || store_id || 'pos1' FROM tasks ORDER BY task_id LIMIT 1`)[0]
	out.cancelled = s.Rows(`SELECT task_id || run_id || store_id FROM tasks WHERE run_id = ?`, last)[0]
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
	followed := func(text, what string, match func(durability.Packet) bool) durability.Order {
		return durability.Order{What: what, Change: durability.Writes("pwrite64", wal, text), Sync: durability.Syncs(wal), Then: durability.Calls(seen.fromHQ, match)}
	}
	orders := []durability.Order{
		followed(requestID, "a run, and the reply", published("/rep/wang/chaos", "")),
		followed(requestID, "a run, and the PUBACK of its request", func(pk durability.Packet) bool {
			return pk.Type == packets.Puback && pk.Conn == reply.Conn // its only message
		}),
		followed(requestID, "a run, and its offer", published("", `"parentId"`)),
		// A row stands in the file as its texts one after the other.
		followed(seen.granted, "a grant, and its order", published("/pos1/orders", `"order":"grant"`)),
		followed(marker, "an answer, and its receipt", published("/pos1/orders", `"order":"receipt"`)),
		followed(marker, "an answer, and its PUBACK", acknowledged(receipt.Conn, result.ID)),
		followed(marker, "an answer, and what watchers hear of it", published("/stores/A", `"event":"succeeded"`)),
	}
	orders = append(orders, largeAnswer(t, seen, receipt.Conn, followed)...)
	orders = append(orders, cancel(t, seen, followed)...)
	for _, ending := range []string{".json", ".csv", ".html", ".xlsx", "_manifest.json"} {
		summary := durability.Calls(seen.fromHQ, published("/summary", ""))
		orders = append(orders,
			durability.Order{What: "the report's " + ending + ", and the summary", Then: summary,
				Change: durability.Writes("write", "_r1"+ending+".tmp", ""), Sync: durability.Syncs("_r1" + ending + ".tmp")},
			durability.Order{What: "the name of the report's " + ending + ", and the summary", Then: summary,
				Change: durability.Renames("_r1" + ending), Sync: syncsFolder})
	}
	return append(orders, durability.Order{What: "the mark of the published revision, and the summary", Then: durability.Calls(seen.fromHQ, published("/summary", "")),
		Change: durability.Renames("_r1_manifest.json"), Sync: durability.Syncs(wal)})
}

// follow is what headquarters commits, by a text of it, and what follows.
type follow func(text, what string, match func(durability.Packet) bool) durability.Order

// largeAnswer: that an answer is announced, with its hash, is synced before it is
// called for, and the answer before its receipt.
func largeAnswer(t *testing.T, seen traced, conn string, followed follow) []durability.Order {
	t.Helper()
	said := one(t, seen.fromAgent, "a ready", published("/pos1/ready", ""))
	var ready protocol.Ready
	if err := json.Unmarshal([]byte(said.Payload), &ready); err != nil {
		t.Fatal(err)
	}
	result := one(t, seen.fromAgent, "a large result", published("/pos1/result", large))
	return []durability.Order{
		followed(ready.SHA256, "an announced answer, and the order to send it", published("/pos1/orders", `"order":"send"`)),
		followed(ready.SHA256, "an announced answer, and the PUBACK of its announcement", acknowledged(conn, said.ID)),
		followed(large, "a large answer, and its receipt", published("/pos1/orders", ready.SHA256)),
		followed(large, "a large answer, and its PUBACK", acknowledged(conn, result.ID)),
	}
}

// cancel: that a task is cancelled, and why, is synced before its person, its
// terminal and watchers hear of it.
func cancel(t *testing.T, seen traced, followed follow) (orders []durability.Order) {
	t.Helper()
	reply := published("/rep/wang/chaos", `"cancelled":1`)
	for what, match := range map[string]func(durability.Packet) bool{
		"the reply": reply, "the order to its terminal": published("/pos1/orders", `"order":"cancel"`),
		"what watchers hear of it": published("/stores/A", `"event":"cancelled"`),
	} {
		orders = append(orders, followed(seen.cancelled+string(task.Cancelled), "a cancel, and "+what, match))
	}
	return append(orders, followed(reason, "the reason of a cancel, and the reply", reply))
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
	kept := func(text string) durability.Order {
		return durability.Order{Change: durability.Writes("write", ".answer.tmp", text), Sync: durability.Syncs(".answer.tmp")}
	}
	name := durability.Order{Change: durability.Renames(".answer"), Sync: durability.Syncs(outbox)}
	return []durability.Order{
		order(phase("claimed"), "the journal of a claim, and the claim", durability.Calls(seen.fromAgent, published("/pos1/claim", ""))),
		order(phase("granted"), "the journal of a grant, and the start of its execution", starts),
		order(phase("granted"), "the journal of a grant, and its PUBACK", durability.Calls(seen.fromAgent, acknowledged(claim.Conn, grant.ID))),
		order(kept(marker), "an answer, and its sending", durability.Calls(seen.fromAgent, result)),
		order(kept(large), "a large answer, and its announcement", durability.Calls(seen.fromAgent, published("/pos1/ready", ""))),
		order(kept(large), "a large answer, and its sending", durability.Calls(seen.fromAgent, published("/pos1/result", large))),
		order(name, "the name of an answer, and its sending", durability.Calls(seen.fromAgent, result)),
		order(phase("finished"), "the journal of an end, and the sending of the answer", durability.Calls(seen.fromAgent, result)),
	}
}
