package process

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// registry knows the agents of this program. There is one, because children belong to a program and not to an object.
type registry struct {
	mu   sync.Mutex
	live map[int]*Process
	kick chan struct{}
}

var children = &registry{live: map[int]*Process{}, kick: make(chan struct{}, 1)}

// start starts and registers in one step, as the reaper sees it.
func (r *registry) start(p *Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.pid = p.cmd.Process.Pid
	r.live[p.pid] = p
	return nil
}

// forget is called when the leader was waited for; its dead descendants are reaped while they are still known.
func (r *registry) forget(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reap(nil)
	delete(r.live, p.pid)
	select {
	case r.kick <- struct{}{}: // an orphan with the number of the leader was skipped until now
	default:
	}
}

// leaders are the processes of the other agents.
func (r *registry) leaders(but *Process) map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make(map[int]bool, len(r.live))
	for pid, p := range r.live {
		if p != but {
			pids[pid] = true
		}
	}
	return pids
}

// strangerPatience is how long a dead child that is nobody's known orphan is left to whoever may be waiting for it.
const strangerPatience = 5 * time.Second

// Reap makes this program the subreaper of its agents and reaps what they orphan, until ctx ends. Several calls may run at
// the same time.
func Reap(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	var overdue map[ID]struct{}
	for {
		children.mu.Lock()
		strangers := children.reap(overdue)
		children.mu.Unlock()
		overdue = nil
		var patience <-chan time.Time
		if len(strangers) > 0 {
			patience = time.After(strangerPatience)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-died:
		case <-children.kick:
		case <-patience:
			overdue = strangers
		}
	}
}

// reap waits for dead children that nobody started here: at once for those known to come from an agent, for the overdue, and
// for all of them in a container's first process. It returns the others. r.mu is held, so that no child is between start and
// registration. The process table is read only when there is a dead child.
func (r *registry) reap(overdue map[ID]struct{}) map[ID]struct{} {
	strangers := map[ID]struct{}{}
	if !anyDead(waitid) {
		return strangers
	}
	t, err := table()
	self, seen := t[os.Getpid()]
	if err != nil || !seen {
		return strangers
	}
	for pid, e := range t {
		if e.ppid != self.id.PID || e.state != zombie || r.live[pid] != nil || e.pgid == self.pgid {
			continue
		}
		_, late := overdue[e.id]
		if late || self.id.PID == initPID || r.claimed(e) {
			reapOne(pid)
			continue
		}
		strangers[e.id] = struct{}{}
	}
	return strangers
}

// anyDead tells whether a child may have exited that was not waited for: only the process table can say where a sandbox refuses the call.
func anyDead(waitid func(*unix.Siginfo) error) bool {
	for {
		var found unix.Siginfo
		err := waitid(&found)
		if err != unix.EINTR { //nolint:errorlint // a bare errno
			return err != unix.ECHILD && (err != nil || found.Signo != 0) //nolint:errorlint // a bare errno
		}
	}
}

// waitid looks for a child that has exited and leaves it as it is.
func waitid(found *unix.Siginfo) error {
	return unix.Waitid(unix.P_ALL, 0, found, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) //nolint:wrapcheck // a bare errno
}

func (r *registry) claimed(e entry) bool {
	for _, p := range r.live {
		p.mu.Lock()
		ok := p.claims(e)
		p.mu.Unlock()
		if ok {
			return true
		}
	}
	return false
}

func reapOne(pid int) {
	var status syscall.WaitStatus
	_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
}
