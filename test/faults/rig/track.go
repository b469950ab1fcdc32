package rig

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// track keeps in mind when agents end, which those that are killed cannot tell.
func (p *Pod) track() {
	living := map[int]bool{}
	for _, pid := range p.Agents() {
		living[pid] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range living {
		if _, known := p.agents[pid]; known {
			continue
		}
		if inner := innerPID(pid); inner > 0 {
			p.agents[pid] = inner
		}
	}
	for pid, inner := range p.agents {
		if !living[pid] {
			p.ends = append(p.ends, agentEnd{inner: inner, at: time.Now()})
			delete(p.agents, pid)
		}
	}
}

// agentEnd is the end of an agent, by its process number inside the container; 0 is the end of all.
type agentEnd struct {
	inner int
	at    time.Time
}

// endOf is when the agent with this number had ended that was alive at that time; zero while it lives.
func (p *Pod) endOf(inner int, alive time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.ends {
		if (e.inner == 0 || e.inner == inner) && e.at.After(alive) {
			return e.at
		}
	}
	return time.Time{}
}

// innerPID is a process's number in its own PID namespace, 0 if it is gone.
func innerPID(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for row := range strings.Lines(string(text)) {
		if numbers, ok := strings.CutPrefix(row, "NSpid:"); ok {
			fields := strings.Fields(numbers)
			inner, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return 0
			}
			return inner
		}
	}
	return 0
}
