package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAPersonAtAKeyboardIsAskedForTheToken, and one line is all that is read.
func TestAPersonAtAKeyboardIsAskedForTheToken(t *testing.T) {
	t.Parallel()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	if _, err := keyboard.WriteString("mt1.typed\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, build(t), "enroll", "--headquarters", "https://localhost:1", "--identity", t.TempDir(), "--token-file", "-")
	cmd.Stdin = terminal
	out, err := cmd.CombinedOutput()
	if want := "paste the token and press Enter: edge-agent: enroll: cannot enrol: this is no token"; err == nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}
