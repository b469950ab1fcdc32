package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// CPU is the processor time that each process has used since it started.
type CPU struct{ APIServer, Etcd, Controller, Node time.Duration }

// Since is what was used after an earlier reading.
func (c CPU) Since(earlier CPU) CPU {
	return CPU{c.APIServer - earlier.APIServer, c.Etcd - earlier.Etcd, c.Controller - earlier.Controller, c.Node - earlier.Node}
}

// CPU reads it. A controller that was started in between makes a difference meaningless.
func (r *Rig) CPU() (CPU, error) {
	var c CPU
	var errs []error
	for pid, to := range map[int]*time.Duration{r.APIServer: &c.APIServer, r.Etcd: &c.Etcd, r.Node.PID(): &c.Node} {
		used, err := ProcessCPU(pid)
		*to = used
		errs = append(errs, err)
	}
	if r.controller != nil {
		used, err := ProcessCPU(r.controller.PID())
		c.Controller = used
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

// ProcessCPU is the processor time, user and system, that a process has used (proc_pid_stat(5)).
func ProcessCPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	s, err := parseStat(text)
	if err != nil {
		return 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	return s.cpu, nil
}

// Resident is how many bytes of memory a process has in use.
func Resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("resident memory of %d: expected two numbers, got %q", pid, text)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resident memory of %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

type stat struct {
	name   string
	parent int
	cpu    time.Duration
}

// clockTick is Linux's unit of processor time, which is the same on all its machines (USER_HZ).
const clockTick = 10 * time.Millisecond

// parseStat reads what is used here of /proc/PID/stat. The name may have spaces and parentheses.
func parseStat(text []byte) (stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("expected a name in parentheses, got %.64q", text)
	}
	const parent, user, system = 1, 11, 12 // fields behind the name
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= system {
		return stat{}, fmt.Errorf("expected %d fields behind the name, got %d", system+1, len(fields))
	}
	numbers := map[int]int64{parent: 0, user: 0, system: 0}
	for i := range numbers {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("field %d behind the name: %w", i, err)
		}
		numbers[i] = n
	}
	return stat{name: string(text[open+1 : end]), parent: int(numbers[parent]), cpu: time.Duration(numbers[user]+numbers[system]) * clockTick}, nil
}

// childrenNamed are this process's children with these names, each of which there must be exactly one of.
func childrenNamed(names ...string) (map[string]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		s, err := parseStat(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if s.parent != os.Getpid() {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if found[s.name] != 0 {
			return nil, fmt.Errorf("two child processes are named %s", s.name)
		}
		found[s.name] = pid
	}
	for _, name := range names {
		if found[name] == 0 {
			return nil, fmt.Errorf("no child process is named %s", name)
		}
	}
	return found, nil
}
