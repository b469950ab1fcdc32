package rig

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

const (
	// tailBytes is how much of a log's end is looked at, and tailLines how much of that is shown.
	tailBytes = 256 << 10
	tailLines = 20
	// usual is what the lines have in which a controller says that all is well.
	usual = `"level":"INFO"`
)

// process is a program that the rig started. It does not outlive the rig's own.
type process struct {
	cmd  *exec.Cmd
	log  string        // the file with all that it says
	done chan struct{} // closed when it has ended
}

// run starts a program.
func run(log string, env []string, program string, args ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the process has its own
	p := &process{cmd: exec.CommandContext(context.Background(), program, args...), log: log, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), env...), file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// over tells whether it has ended.
func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill is SIGKILL, and waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// tail is what is unusual at the end of a log.
func tail(log string) string {
	file, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, tailBytes))
	if err != nil {
		return ""
	}
	return unusual(string(text))
}

func unusual(text string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool { return strings.Contains(line, usual) })
	return strings.Join(lines[max(0, len(lines)-tailLines):], "") + "\n"
}

// freePort is one that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// freeAddress is a loopback address with such a port.
func freeAddress(ctx context.Context) (string, error) {
	port, err := freePort(ctx)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
