package executor

import (
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// processTree is a job object that holds a program and its descendants. Its
// processes end with the agent too, however that dies, since the last handle
// closes then.
type processTree struct{ job windows.Handle }

func startTree(cmd *exec.Cmd) (*processTree, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	t := &processTree{job: job}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		t.release()
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		t.release()
		return nil, err
	}
	if err := t.adopt(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.release()
		return nil, err
	}
	return t, nil
}

func (t *processTree) adopt(pid int) error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(process) }()
	return windows.AssignProcessToJobObject(t.job, process)
}

// terminate does nothing: a program without a window gets no request to end
// that it could obey; the kill follows after the grace.
func (t *processTree) terminate() {}

func (t *processTree) kill([]string) { _ = windows.TerminateJobObject(t.job, 1) }

func (t *processTree) release() { _ = windows.CloseHandle(t.job) }

// KillLeftovers has nothing to end: the job object did when the agent died.
func KillLeftovers(Order) int { return 0 }
