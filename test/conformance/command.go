package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	commandPatience = time.Minute     // of a restart or drain command
	endPatience     = 5 * time.Second // from SIGTERM to SIGKILL
	maxSaid         = 300             // bytes of a command's output in a message
)

// Command makes a shell command into what Options.Restart and Options.Drain need. It may leave processes behind.
func Command(line string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, commandPatience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		var said bytes.Buffer
		cmd.Stderr = &said
		cmd.WaitDelay = time.Second // what stays in the background may hold stderr
		if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return fmt.Errorf("%w: %s", err, tail(said.String()))
		}
		return nil
	}
}

// Starter makes a shell command that stays in the foreground into what Options.Start needs. Of the kit's own environment it gets
// everything but what begins with POD_ or HEARTH_.
func Starter(line string) func(context.Context, []string) error {
	return func(ctx context.Context, environ []string) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		for _, pair := range os.Environ() {
			if !strings.HasPrefix(pair, "POD_") && !strings.HasPrefix(pair, "HEARTH_") {
				cmd.Env = append(cmd.Env, pair)
			}
		}
		cmd.Env = append(cmd.Env, environ...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		cmd.WaitDelay = endPatience
		err := cmd.Run()
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of its group
		}
		return err //nolint:wrapcheck // an exit code
	}
}

func tail(s string) string {
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-maxSaid):]
}
