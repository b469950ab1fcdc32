package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// MarkerName is the environment variable that marks an agent process and all that inherit its environment.
const MarkerName = "HEARTH_SLOT"

// Spec says what to start.
type Spec struct {
	Command []string // program and arguments; a program without a slash is looked up in PATH of Env
	Env     []string // the whole environment, NAME=value; nothing is added to it but MarkerName
	Dir     string   // working directory; the harness's own when empty
	Marker  string   // value of MarkerName; unique on the machine, so that strays of this agent are told from those of others
}

// Process is one agent process with its group.
type Process struct {
	// Stdin goes to the agent. Writing after its end fails with EPIPE.
	Stdin io.WriteCloser
	// Stdout comes from the agent; the reader closes it.
	Stdout io.ReadCloser

	pid    int
	marker string
	cmd    *exec.Cmd
	stderr *os.File
	tail   tail

	mu        sync.Mutex
	reaped    bool            // the leader was waited for: its number may belong to a stranger now
	known     map[ID]struct{} // the processes that were last seen to belong to this agent
	ending    bool            // End was called: whatever is left has until killing is closed
	killing   chan struct{}   // closed when whatever is left is to be killed
	killOnce  sync.Once
	exited    chan struct{}
	done      chan struct{}
	exit      Exit
	survivors []int
}

// Start starts the agent in a process group of its own.
func Start(spec Spec) (*Process, error) {
	path, err := Look(spec.Command, spec.Env)
	if err != nil {
		return nil, err
	}
	p := &Process{
		marker:  MarkerName + "=" + spec.Marker,
		known:   map[ID]struct{}{},
		killing: make(chan struct{}),
		exited:  make(chan struct{}),
		done:    make(chan struct{}),
	}
	p.cmd = &exec.Cmd{
		Path:        path,
		Args:        spec.Command,
		Env:         append(append([]string{}, spec.Env...), p.marker),
		Dir:         spec.Dir,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := p.connect(); err != nil {
		return nil, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(&p.tail, p.stderr)
	}()
	go p.supervise(copied)
	return p, nil
}

// connect makes the pipes and starts the command. The pipes are ours and not exec's, so that waiting for the process does
// not wait for a grandchild that holds one of them.
func (p *Process) connect() error {
	out, theirOut, err := newOutput()
	if err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	theirs, ours := []*os.File{theirOut}, []*os.File{}
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			_ = out.Close()
			closeAll(theirs, ours)
			return fmt.Errorf("start agent: %w", err)
		}
		if len(ours) == 0 { // stdin runs the other way
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[1], theirs[0], theirs[2]
	if err := children.start(p); err != nil {
		_ = out.Close()
		closeAll(theirs, ours)
		return fmt.Errorf("start agent %q: %w", p.cmd.Path, err)
	}
	closeAll(theirs)
	p.Stdin, p.Stdout, p.stderr = ours[0], out, ours[1]
	return nil
}

func closeAll(sets ...[]*os.File) {
	for _, f := range slices.Concat(sets...) {
		_ = f.Close()
	}
}

// PID is the number of the agent process, which is also its group's.
func (p *Process) PID() int { return p.pid }

// Exited is closed when the agent process has exited; what it left behind may live for a moment longer.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Done is closed when the agent process and all that belonged to it are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil while the process lives, and an *ExitError after Done.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return &ExitError{Exit: p.exit}
	default:
		return nil
	}
}

// sweepEvery is how often a group that is being ended is looked at; sweepLimit is how long it may take to die of SIGKILL;
// drainLimit is how long the last of stderr may take to arrive; endLimit is all of that and some patience.
const (
	sweepEvery = 10 * time.Millisecond
	sweepLimit = 5 * time.Second
	drainLimit = time.Second
	endLimit   = 2 * (sweepLimit + drainLimit)
)

func (p *Process) supervise(copied <-chan struct{}) {
	waitLeader(p.pid)
	close(p.exited)
	p.mu.Lock()
	ending := p.ending
	p.mu.Unlock()
	if !ending {
		p.kill()
	}
	p.sweep()
	p.mu.Lock()
	_ = p.cmd.Wait() // the status says it all
	p.reaped = true
	p.mu.Unlock()
	children.forget(p)
	_ = p.Stdin.Close()
	if len(p.survivors) > 0 {
		_ = p.Stdout.Close()
	}
	select {
	case <-copied:
	case <-time.After(drainLimit):
	}
	_ = p.stderr.Close()
	<-copied
	p.exit = exitOf(p.cmd.ProcessState, p.tail.String())
	close(p.done)
}

// End asks the group to terminate, gives it grace, kills what is left, and returns when no descendant lives. A ctx that
// ends cuts the grace short. The error names descendants that did not even die of SIGKILL.
func (p *Process) End(ctx context.Context, grace time.Duration) error {
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	p.signal(p.members(), syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.kill()
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		return fmt.Errorf("end agent: process %d did not die", p.pid)
	}
	if len(p.survivors) > 0 {
		return fmt.Errorf("end agent: processes %v did not die", p.survivors)
	}
	return nil
}
