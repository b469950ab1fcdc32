package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initPID is the number of a container's first process. Everything that such a harness did not start itself is an orphan it
// adopted; elsewhere an unknown child may be somebody else's in the same program.
const initPID = 1

// Descendants are the living processes that belong to this agent, itself left out: its group, its children's children, what
// carries its marker, and what any of those left behind.
func (p *Process) Descendants() []ID {
	var ids []ID
	for _, e := range p.members() {
		if e.id.PID != p.pid {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// members finds the living processes that belong to this agent and remembers them, so that they are still known as its own
// when their parents are gone.
func (p *Process) members() []entry {
	t, err := table()
	self, seen := t[os.Getpid()]
	if err != nil || !seen {
		return nil
	}
	others := children.leaders(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	mine, sessions := map[int]bool{}, map[int]bool{}
	add := func(e entry) {
		mine[e.id.PID] = true
		sessions[e.sid] = e.sid != self.sid
	}
	for pid, e := range t {
		if pid != self.id.PID && !others[pid] && p.owns(e, self, len(others) == 0) {
			add(e)
		}
	}
	for grew := true; grew; {
		grew = false
		for pid, e := range t {
			if (mine[e.ppid] || sessions[e.sid]) && !mine[pid] && pid != self.id.PID && !others[pid] {
				add(e)
				grew = true
			}
		}
	}
	p.known = make(map[ID]struct{}, len(mine))
	var alive []entry
	for pid := range mine {
		p.known[t[pid].id] = struct{}{}
		if t[pid].state != zombie {
			alive = append(alive, t[pid])
		}
	}
	return alive
}

// owns tells whether the process is this agent's by what it is itself; p.mu is held.
func (p *Process) owns(e, self entry, alone bool) bool {
	if p.claims(e) || hasEnviron(e.id.PID, p.marker) {
		return true
	}
	adopted := e.ppid == self.id.PID && e.ppid == initPID && e.pgid != self.pgid
	return adopted && alone
}

// claims is the part of owns that also holds for a zombie, whose environment is gone; p.mu is held.
func (p *Process) claims(e entry) bool {
	_, ok := p.known[e.id]
	return ok || e.pgid == p.pid
}

// waitLeader returns when the process has exited and leaves it a zombie.
func waitLeader(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR { //nolint:errorlint // a bare errno
			return
		}
	}
}

// signalGroup signals the group while its number is certainly its own.
func (p *Process) signalGroup(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, s)
	}
}

// kill gives up waiting: whatever is left dies now.
func (p *Process) kill() {
	p.killOnce.Do(func() {
		close(p.killing)
		p.signal(p.members(), syscall.SIGKILL)
	})
}

// signal reaches the group at once and then the members one by one, those that left the group included.
func (p *Process) signal(members []entry, s syscall.Signal) {
	p.signalGroup(s)
	for _, e := range members {
		if e.pgid != p.pid {
			signalOne(e.id, s)
		}
	}
}

// signalOne signals exactly that process: the number is pinned by a pidfd before its start time is compared.
func signalOne(id ID, s syscall.Signal) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if e, err := lookUp(id.PID); err == nil && e.id == id {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// sweep returns when no member lives: by themselves until killing is closed, by SIGKILL after that.
func (p *Process) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var limit <-chan time.Time
	killing := p.killing
	for {
		left := p.living()
		if len(left) == 0 {
			p.survivors = nil
			return
		}
		if limit != nil {
			p.signal(left, syscall.SIGKILL)
		}
		select {
		case <-tick.C:
		case <-killing:
			killing = nil
			limit = time.After(sweepLimit)
		case <-limit:
			for _, e := range left {
				p.survivors = append(p.survivors, e.id.PID)
			}
			return
		}
	}
}

// living is members without the leader, which is a zombie by now.
func (p *Process) living() []entry {
	var left []entry
	for _, e := range p.members() {
		if e.id.PID != p.pid {
			left = append(left, e)
		}
	}
	return left
}
