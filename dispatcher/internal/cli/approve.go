package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/internal/protocol"
)

// askStanding is the pause between questions about an approval that waits.
const askStanding = 2 * time.Second

func approveCommand() *cobra.Command {
	var a access
	var reject bool
	var reason, hash string
	cmd := &cobra.Command{
		Use:   "approve APPROVAL",
		Short: "Let begin, or reject, what another person asked for",
		Long: `Show what another person asked for, and give the word of a second one. Nobody
decides on their own request. What is approved is what is shown: if the job, the
stores or the settings changed since it was asked for, nothing begins.`,
		Example: `  dispatcher approvals
  dispatcher approve ap-01k5bxj3z8a1b2c3d4e5f6g7h8
  dispatcher approve ap-01k5bxj3z8a1b2c3d4e5f6g7h8 --reject --reason 'not before the holiday'`,
		Args: screen.One("approval"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := protocol.ApproveRequest{RequestID: newID(), ApprovalID: args[0], ContentHash: hash, Reason: reason,
				Decision: protocol.DecisionApprove}
			if reject {
				request.Decision = protocol.DecisionReject
			}
			return a.decide(cmd, request)
		},
	}
	a.flags(cmd)
	a.signing(cmd)
	f := cmd.Flags()
	f.BoolVar(&reject, "reject", false, "reject it")
	f.StringVar(&reason, "reason", "", "why; the requester is told")
	f.StringVar(&hash, "content-hash", "", "decide only on this content (default: as it is shown now)")
	return cmd
}

// decide looks at the approval first: its hash says what is decided on.
func (a *access) decide(cmd *cobra.Command, request protocol.ApproveRequest) error {
	l, err := open(cmd.Context(), a)
	if err != nil {
		return err
	}
	defer l.close()
	if request.ContentHash == "" {
		standing, err := a.standing(cmd.Context(), l, "", request.ApprovalID)
		if err != nil {
			return err
		}
		if !standing.OK {
			screen.Refusal(cmd.ErrOrStderr(), standing)
			return &screen.Exit{Code: screen.ExitRefused}
		}
		showApproval(cmd.ErrOrStderr(), standing)
		request.ContentHash = standing.Approval.ContentHash
	}
	request.Deadline = a.deadline()
	reply, err := a.asked(cmd.Context(), cmd, l, protocol.VerbApprove, request)
	if err != nil || a.asJSON {
		return err
	}
	if reply.RunID != "" {
		showAccepted(cmd.OutOrStdout(), reply)
		return nil
	}
	screen.Say(cmd.OutOrStdout(), "%s\n", reply.Message)
	return nil
}

func approvalsCommand() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "approvals [APPROVAL]",
		Short: "List what waits for the word of a second person, or show one of it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.once(cmd, protocol.VerbStatus, protocol.StatusRequest{ApprovalID: args[0]}, showApproval)
			}
			return a.once(cmd, protocol.VerbStatus, protocol.StatusRequest{Approvals: true}, showApprovals)
		},
	}
	a.flags(cmd)
	return cmd
}

// standing asks how an approval stands, on a response topic of its own unless
// box names one.
func (a *access) standing(ctx context.Context, l *line, box, approvalID string) (protocol.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	payload, err := protocol.Encode(protocol.StatusRequest{ApprovalID: approvalID})
	if err != nil {
		return protocol.Reply{}, err
	}
	var raw []byte
	if box == "" {
		raw, err = l.ask(ctx, protocol.VerbStatus, payload)
	} else {
		raw, err = l.exchange(ctx, box, protocol.VerbStatus, payload)
	}
	if err != nil {
		return protocol.Reply{}, err
	}
	var reply protocol.Reply
	if err := protocol.Decode(raw, maxReplyBytes, &reply); err != nil {
		return reply, &screen.Exit{Code: screen.ExitNoAnswer, Text: "the answer cannot be read: " + err.Error()}
	}
	if reply.OK && reply.Approval == nil {
		return reply, &screen.Exit{Code: screen.ExitNoAnswer, Text: "the answer tells nothing of the approval"}
	}
	return reply, nil
}

// awaitApproval waits until the approval is decided and returns the run that it
// made.
func (a *access) awaitApproval(cmd *cobra.Command, l *line, approvalID string) (protocol.Reply, error) {
	ctx, box := cmd.Context(), l.topics.Replies(l.user)+newID()
	if err := l.subscribe(ctx, box); err != nil {
		return protocol.Reply{}, err
	}
	pause := time.NewTicker(askStanding)
	defer pause.Stop()
	for {
		reply, err := a.standing(ctx, l, box, approvalID)
		if err != nil {
			return reply, err
		}
		if reply.OK && reply.Approval.State == "approved" {
			return a.madeBy(ctx, l, reply)
		}
		// RATE_LIMITED passes; anything else about an approval that there was
		// would be strange, and pass too.
		if reply.OK && reply.Approval.State != "pending" {
			why := fmt.Sprintf("approval %s is %s: %s", approvalID, reply.Approval.State, reply.Approval.Why)
			return reply, &screen.Exit{Code: screen.ExitNeedsApproval, Text: why}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return reply, l.unanswered(ctx)
		case <-l.ctx.Done():
			return reply, l.unanswered(l.ctx)
		}
	}
}

// madeBy words the run that an approval made like the reply to its request.
func (a *access) madeBy(ctx context.Context, l *line, standing protocol.Reply) (protocol.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	payload, err := protocol.Encode(protocol.StatusRequest{RunID: standing.RunID})
	if err != nil {
		return standing, err
	}
	raw, err := l.ask(ctx, protocol.VerbStatus, payload)
	if err != nil {
		return standing, err
	}
	var reply protocol.Reply
	if err := protocol.Decode(raw, maxReplyBytes, &reply); err != nil || reply.State == nil {
		return reply, &screen.Exit{Code: screen.ExitNoAnswer, Text: "no answer about run " + standing.RunID + "; ask again with: dispatcher status " + standing.RunID}
	}
	reply.Stores, reply.BarrierAt = reply.State.Targets, reply.State.BarrierAt
	return reply, nil
}

func showApprovals(w io.Writer, r protocol.Reply) {
	if len(r.Approvals) == 0 {
		screen.Say(w, "%s\n", r.Message)
	}
	for _, a := range r.Approvals {
		screen.Say(w, "%s  %s\n", a.ApprovalID, headline(a))
	}
}

// headline says in a line what an approval is for.
func headline(a protocol.Approval) string {
	what := "new signing keys of headquarters"
	if a.Kind == "run" {
		what = fmt.Sprintf("%s at %s", a.Job, stores(a.Stores))
	}
	line := fmt.Sprintf("%s, asked by %s, until %s", what, a.Requester, screen.Moment(a.ExpiresAt))
	if a.Reason != "" {
		line += ": " + a.Reason
	}
	return line
}

func showApproval(w io.Writer, r protocol.Reply) {
	a := r.Approval
	if a == nil {
		return
	}
	screen.Say(w, "approval %s: %s\n", a.ApprovalID, a.State)
	screen.Say(w, "%s\n", headline(*a))
	if len(a.Request) > 0 {
		screen.Say(w, "request %.2000s\n", a.Request)
	}
	screen.Say(w, "content %s\n", a.ContentHash)
	if a.DecidedBy != "" {
		screen.Say(w, "decided by %s at %s\n", a.DecidedBy, screen.Moment(a.DecidedAt))
	}
	switch {
	case a.Why == "":
	case a.State == "approved":
		screen.Say(w, "%s\n", a.Why) // what was done
	default:
		screen.Say(w, "because %s\n", a.Why)
	}
	if a.RunID != "" {
		screen.Say(w, "run %s\n", a.RunID)
	}
}
