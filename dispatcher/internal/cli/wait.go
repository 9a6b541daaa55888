package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/internal/protocol"
)

// patience is how long a run may be silent beyond its barrier before nobody is
// taken to be there.
const patience = 2 * time.Minute

// orderAndWait orders a run by a verb that makes one and, if asked to, follows it to
// its first report.
func orderAndWait(cmd *cobra.Command, a *access, verb protocol.Verb, request any, wait bool) error {
	l, err := open(cmd.Context(), a)
	if err != nil {
		return err
	}
	defer l.close()
	reply, err := a.asked(cmd.Context(), cmd, l, verb, request)
	if wait && err != nil && reply.Code == protocol.CodeNeedsApproval {
		reply, err = a.awaitApproval(cmd, l, reply.ApprovalID)
	}
	if err != nil {
		return err
	}
	if !a.asJSON {
		showAccepted(cmd.OutOrStdout(), reply)
	}
	if !wait {
		return nil
	}
	summary, raw, err := l.follow(cmd.Context(), reply.RunID, func(s protocol.RunStateReport) {
		showProgress(cmd.ErrOrStderr(), s)
	})
	if err != nil {
		return err
	}
	if a.asJSON {
		screen.Say(cmd.OutOrStdout(), "%s\n", raw)
	} else {
		showSummary(cmd.OutOrStdout(), summary)
	}
	switch summary.Verdict {
	case protocol.VerdictComplete:
		return nil
	case protocol.VerdictPartial:
		return &screen.Exit{Code: screen.ExitPartial}
	case protocol.VerdictBelowQuorum:
		return &screen.Exit{Code: screen.ExitBelowQuorum}
	}
	return &screen.Exit{Code: screen.ExitNoAnswer, Text: fmt.Sprintf("the summary has the unknown verdict %q", summary.Verdict)}
}

// follow returns the first summary of a run. State and summary are retained,
// so it does not matter that the run began before anybody listened.
func (l *line) follow(ctx context.Context, runID string, progress func(protocol.RunStateReport)) (protocol.Summary, []byte, error) {
	state, summary := l.topics.Run(runID, protocol.RunState), l.topics.Run(runID, protocol.RunSummary)
	if err := l.subscribe(ctx, state, summary); err != nil {
		return protocol.Summary{}, nil, err
	}
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for {
		select {
		case m := <-l.inbox:
			switch m.topic {
			case summary:
				var s protocol.Summary
				if err := protocol.Decode(m.payload, maxReplyBytes, &s); err != nil {
					return s, nil, &screen.Exit{Code: screen.ExitNoAnswer, Text: "the summary cannot be read: " + err.Error()}
				}
				return s, m.payload, nil
			case state:
				var s protocol.RunStateReport
				if protocol.Decode(m.payload, maxReplyBytes, &s) != nil {
					continue // the next one may be better
				}
				// Both times are headquarters': our own clock may be wrong.
				silence.Reset(patience + max(0, s.BarrierAt.Sub(s.At.Time)))
				progress(s)
			}
		case <-silence.C:
			return protocol.Summary{}, nil, &screen.Exit{Code: screen.ExitNoAnswer, Text: "no report came; ask again with: dispatcher status " + runID}
		case <-ctx.Done():
			return protocol.Summary{}, nil, l.unanswered(ctx)
		case <-l.ctx.Done():
			return protocol.Summary{}, nil, l.unanswered(l.ctx)
		}
	}
}
