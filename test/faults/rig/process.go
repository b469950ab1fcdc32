package rig

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a program that a World started.
type process struct {
	cmd  *exec.Cmd
	log  *output
	done chan struct{} // closed when it has ended
}

// output keeps what processes said.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startProcess starts a program that outlives the call, but not the test process.
func startProcess(env []string, namespaces uintptr, log *output, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(context.Background(), program, args...), log: log, done: make(chan struct{})} //nolint:gosec // built by the rig
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, log, log
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: namespaces}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends one, if the process lives.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill is SIGKILL, and waits for the end. A stopped process ends, too.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// wait waits for the end.
func (p *process) wait(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		require.Fail(t, "a process does not end", p.log.String())
	}
}
