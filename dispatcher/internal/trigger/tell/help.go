package tell

import (
	"muster/dispatcher/internal/people"
	"muster/internal/protocol"
)

// noHash stands in examples for the contentHash that an approval is shown with.
const noHash = "0000000000000000000000000000000000000000000000000000000000000000"

// Help explains the verbs that the person has.
func Help(topics protocol.Topics, person people.Person) protocol.Reply {
	reply := done()
	below, last := topics.Replies(person.Name), topics.LastReply(person.Name)
	reply.Message = "publish one of these; the answer comes on the request's response topic below " + below + ", or else on " + last
	reply.MessageZh = "按以下格式发布请求；答复发到请求指定的、位于 " + below + " 之下的响应主题，否则发到 " + last
	for _, line := range []struct {
		verb    protocol.Verb
		payload string
	}{
		{protocol.VerbRun, `{"job":"collect_log","stores":"all","input":{"date":"yesterday"}}`},
		{protocol.VerbRun, `{"requestId":"my-1","job":"collect_log","stores":["SH_0312","SH_0313"],"barrierSeconds":120}`},
		{protocol.VerbRun, `{"job":"collect_log","stores":{"labels":"region=east,format!=kiosk"}}`},
		{protocol.VerbRun, `{"job":"collect_log","stores":{"allBut":["SH_0312"]},"dryRun":true}`},
		{protocol.VerbStatus, `{"runId":"RUN"}`},
		{protocol.VerbStatus, `{"runId":"RUN","storeId":"SH_0312"}`},
		{protocol.VerbRetry, `{"runId":"RUN"}`},
		{protocol.VerbRetry, `{"runId":"RUN","stores":["SH_0312"],"reason":"the line is back"}`},
		{protocol.VerbStatus, `{"approvalId":"APPROVAL"}`},
		{protocol.VerbStatus, `{"approvals":true}`},
		{protocol.VerbApprove, `{"approvalId":"APPROVAL","contentHash":"` + noHash + `","decision":"approve"}`},
		{protocol.VerbApprove, `{"approvalId":"APPROVAL","contentHash":"` + noHash + `","decision":"reject","reason":"WHY"}`},
		{protocol.VerbCancel, `{"runId":"RUN","stores":["SH_0312"]}`},
		{protocol.VerbJobs, `{}`},
		{protocol.VerbHelp, `{}`},
	} {
		if person.May(line.verb) == nil {
			reply.Usage = append(reply.Usage, topics.Request(person.Name, line.verb)+" "+line.payload)
		}
	}
	return reply
}
