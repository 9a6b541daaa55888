package tell

import (
	"strings"

	"muster/dispatcher/internal/example"
	"muster/dispatcher/internal/people"
	"muster/internal/protocol"
)

const (
	// noHash stands in examples for the contentHash that an approval is shown with.
	noHash = "0000000000000000000000000000000000000000000000000000000000000000"
	// aStore stands in them for a store at which the person may order. Without one they
	// are left out.
	aStore = "STORE"
)

// Help explains the verbs that the person has.
func Help(topics protocol.Topics, person people.Person, examples example.Examples) protocol.Reply {
	reply := done()
	below, last := topics.Replies(person.Name), topics.LastReply(person.Name)
	reply.Message = "publish one of these; the answer comes on the request's response topic below " + below + ", or else on " + last
	reply.MessageZh = "按以下格式发布请求；答复发到请求指定的、位于 " + below + " 之下的响应主题，否则发到 " + last
	show := func(verb protocol.Verb, payload string) {
		if person.May(verb) == nil {
			reply.Usage = append(reply.Usage, topics.Request(person.Name, verb)+" "+payload)
		}
	}
	for _, run := range examples.Runs("WHY") {
		show(protocol.VerbRun, run)
	}
	store := examples.Store()
	for _, line := range []struct {
		verb    protocol.Verb
		payload string
	}{
		{protocol.VerbStatus, `{"runId":"RUN"}`},
		{protocol.VerbStatus, `{"runId":"RUN","storeId":"` + aStore + `"}`},
		{protocol.VerbRetry, `{"runId":"RUN"}`},
		{protocol.VerbRetry, `{"runId":"RUN","stores":["` + aStore + `"],"reason":"WHY"}`},
		{protocol.VerbStatus, `{"approvalId":"APPROVAL"}`},
		{protocol.VerbStatus, `{"approvals":true}`},
		{protocol.VerbApprove, `{"approvalId":"APPROVAL","contentHash":"` + noHash + `","decision":"approve"}`},
		{protocol.VerbApprove, `{"approvalId":"APPROVAL","contentHash":"` + noHash + `","decision":"reject","reason":"WHY"}`},
		{protocol.VerbCancel, `{"runId":"RUN","stores":["` + aStore + `"]}`},
		{protocol.VerbJobs, `{}`},
		{protocol.VerbHelp, `{}`},
	} {
		if store != "" || !strings.Contains(line.payload, aStore) {
			show(line.verb, strings.ReplaceAll(line.payload, aStore, store))
		}
	}
	return reply
}
