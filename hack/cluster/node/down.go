package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where programs write in spite of their configuration.
const (
	shimSockets   = "/run/containerd/s"
	cniResults    = "/var/lib/cni/results"
	containerLogs = "/var/log/containers"
)

// leftovers says whether anything of the node in p's directory exists.
func (p Place) leftovers() (bool, error) {
	if _, err := os.Stat(p.dir); err == nil {
		return true, nil
	}
	whose, bridge, err := owner()
	if err != nil || (bridge && (whose == p.dir || whose == "")) {
		return true, err
	}
	running, err := p.running()
	return len(running) > 0, err
}

func (p Place) running() ([]process, error) {
	all, err := processes("/proc")
	if err != nil {
		return nil, err
	}
	return owned(all, p.dir), nil
}

// remove ends the node and takes away everything it made, whatever state it is in. Nothing is asked to end by itself:
// all it could save is removed in the next step.
func (p Place) remove(ctx context.Context, keepLogs bool) error {
	if err := killAll(ctx, "stop the node", p.running); err != nil {
		return err
	}
	whose, bridge, err := owner()
	if err != nil {
		return err
	}
	// What is machine-wide is ours only if the bridge is, which is made before it and removed after it.
	machineWide := !bridge || whose == p.dir || whose == ""
	if machineWide {
		if err := killAll(ctx, "stop the containers", inCgroups); err != nil {
			return err
		}
	}
	forgotten := p.strayFiles()
	if err := unmountUnder(p.dir); err != nil {
		return err
	}
	if machineWide {
		if err := errors.Join(removeCgroups(ctx), p.restoreSysctls(), removeNetwork(ctx)); err != nil {
			return err
		}
	}
	for _, path := range forgotten {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove what a component left: %w", err)
		}
	}
	return p.removeDir(keepLogs)
}

func (p Place) removeDir(keepLogs bool) error {
	if !keepLogs {
		if err := os.RemoveAll(p.dir); err != nil {
			return fmt.Errorf("remove the cluster directory: %w", err)
		}
		return nil
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the cluster directory: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == "logs" {
			continue
		}
		if err := os.RemoveAll(p.path(entry.Name())); err != nil {
			return fmt.Errorf("remove the cluster directory: %w", err)
		}
	}
	return nil
}

// strayFiles finds what lies outside the directory: sockets of shims, results of CNI plugins, links to logs.
// The containers' IDs come from inside the directory, so this must be asked before it is removed.
func (p Place) strayFiles() []string {
	var found []string
	bundles, _ := filepath.Glob(p.path("containerd/state/io.containerd.runtime.v2.task/k8s.io/*/address"))
	for _, file := range bundles {
		address, err := os.ReadFile(file) // #nosec G304 -- our own directory
		path := strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://")
		if err == nil && filepath.Dir(path) == shimSockets {
			found = append(found, path)
		}
	}
	sandboxes, _ := filepath.Glob(cniResults + "/hearth-*")
	for _, file := range sandboxes {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(file), "hearth-"), "-")
		results, _ := filepath.Glob(cniResults + "/*-" + id + "-*")
		found = append(found, results...)
	}
	logs, _ := filepath.Glob(containerLogs + "/*.log")
	for _, link := range logs {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, p.dir+"/") {
			found = append(found, link)
		}
	}
	return found
}
