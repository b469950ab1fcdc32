package process

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit is how an agent process ended.
type Exit struct {
	Code   int            // exit status; -1 when a signal ended it
	Signal syscall.Signal // 0 unless a signal ended it
	Stderr string         // the end of what it wrote to stderr: at most TailBytes of valid UTF-8
}

// String describes the end in words: "exited with status 3", "was killed by SIGKILL".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "was killed by " + signalName(e.Signal)
	}
	return fmt.Sprintf("exited with status %d", e.Code)
}

// ExitError says that the agent process is gone; it carries the status and the end of stderr.
type ExitError struct{ Exit Exit }

// Error is one line for people.
func (e *ExitError) Error() string {
	if last := strings.TrimSpace(e.Exit.Stderr); last != "" {
		return fmt.Sprintf("agent process %s; stderr ends: %s", e.Exit, last)
	}
	return fmt.Sprintf("agent process %s; stderr is empty", e.Exit)
}

func exitOf(state *os.ProcessState, stderr string) Exit {
	exit := Exit{Code: state.ExitCode(), Stderr: stderr}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Signal = ws.Signal()
	}
	return exit
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
