package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/files"
)

// farewell bounds what a command still does once it is told to end: it parts from
// the broker, or removes a half-written backup. People wait for it.
const farewell = 3 * time.Second

// stoppable makes the commands, and those below them, come back within farewell once
// their context ends. Until then they may read whatever they are given: a pipe into
// which nobody writes, a keyboard, a disk that is away.
func stoppable(all []*cobra.Command) []*cobra.Command {
	for _, cmd := range all {
		stoppable(cmd.Commands())
		work := cmd.RunE
		if work == nil {
			continue
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			late, end := context.WithCancel(context.WithoutCancel(cmd.Context()))
			defer end()
			defer context.AfterFunc(cmd.Context(), func() { time.AfterFunc(farewell, end) })()
			_, err := files.Await(late, func() (struct{}, error) { return struct{}{}, work(cmd, args) })
			return err
		}
	}
	return all
}
