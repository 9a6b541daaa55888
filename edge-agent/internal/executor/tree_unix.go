//go:build !windows

package executor

import (
	"os/exec"
	"syscall"
)

// processTree is a program and its descendants: a process group of its own,
// and on Linux everything that carries the attempt's marks.
type processTree struct{ group int }

func startTree(cmd *exec.Cmd) (*processTree, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &processTree{group: cmd.Process.Pid}, nil
}

// terminate asks the group to end. An error means that it is gone.
func (t *processTree) terminate() { _ = syscall.Kill(-t.group, syscall.SIGTERM) }

// kill ends the group, and descendants that left it.
func (t *processTree) kill(marks []string) {
	_ = syscall.Kill(-t.group, syscall.SIGKILL)
	killMarked(marks)
}

func (t *processTree) release() {}

// KillLeftovers ends what an attempt left running when the agent was killed,
// and returns how many processes that were.
func KillLeftovers(order Order) int { return killMarked(marks(order)) }
