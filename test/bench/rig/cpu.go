package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hearthdev/hearth/test/bench/procs"
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
		used, err := procs.CPU(pid)
		*to = used
		errs = append(errs, err)
	}
	if r.controller != nil {
		used, err := procs.CPU(r.controller.PID())
		c.Controller = used
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

type stat struct {
	name   string
	parent int
}

// parseStat reads what is used here of /proc/PID/stat. The name may have spaces and parentheses.
func parseStat(text []byte) (stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("expected a name in parentheses, got %.64q", text)
	}
	const parent = 1 // of the fields behind the name
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= parent {
		return stat{}, fmt.Errorf("expected %d fields behind the name, got %d", parent+1, len(fields))
	}
	n, err := strconv.Atoi(string(fields[parent]))
	if err != nil {
		return stat{}, fmt.Errorf("field %d behind the name: %w", parent, err)
	}
	return stat{name: string(text[open+1 : end]), parent: n}, nil
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
