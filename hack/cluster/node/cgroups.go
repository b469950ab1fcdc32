package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// controllers are those kubelet insists on where there is one hierarchy for all of them (cgroup v2).
var controllers = []string{"cpuset", "cpu", "memory", "pids"}

// cgroups returns our cgroup in every hierarchy of the machine: many with v1, one with v2.
func cgroups() ([]string, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, m := range all {
		dir := filepath.Join(m.point, cgroupRoot)
		if (m.kind == "cgroup" || m.kind == "cgroup2") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, errors.New("no cgroup file system is mounted: expected one under /sys/fs/cgroup")
	}
	return dirs, nil
}

// makeCgroups creates ours, with the controllers that kubelet looks for.
func makeCgroups() error {
	dirs, err := cgroups()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("create a cgroup: %w", err)
		}
		if err := delegate(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// delegate hands the controllers down to our cgroup, where there is one hierarchy for all of them.
func delegate(parent string) error {
	available, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers")) // #nosec G304 -- cgroupfs
	if err != nil {
		return nil // cgroup v1: nothing to hand down
	}
	for _, name := range controllers {
		if !slices.Contains(strings.Fields(string(available)), name) {
			continue // a hybrid machine has them in v1 hierarchies
		}
		control := filepath.Join(parent, "cgroup.subtree_control")
		if err := os.WriteFile(control, []byte("+"+name), 0o600); err != nil { // #nosec G306 -- cgroupfs
			return fmt.Errorf("hand down the %s controller (in a container, its processes must first leave the root cgroup): %w", name, err)
		}
	}
	return nil
}

// inCgroups are all processes in our cgroups: those of containers whose shim is gone, too.
func inCgroups() ([]process, error) {
	dirs, err := cgroups()
	if err != nil {
		return nil, err
	}
	seen := map[int]process{}
	for _, dir := range dirs {
		err := walkCgroup(dir, func(group string) error {
			// What is frozen does not notice that it was killed.
			_ = os.WriteFile(filepath.Join(group, "freezer.state"), []byte("THAWED"), 0o600)
			_ = os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("0"), 0o600)
			content, err := os.ReadFile(filepath.Join(group, "cgroup.procs")) // #nosec G304 -- cgroupfs
			if err != nil {
				return ignoreGone(err)
			}
			for _, field := range strings.Fields(string(content)) {
				pid, err := strconv.Atoi(field)
				if found, ok := readProcess("/proc", pid); err == nil && ok {
					seen[pid] = found
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the processes of a cgroup: %w", err)
		}
	}
	var all []process
	for _, p := range seen {
		all = append(all, p)
	}
	return all, nil
}

// removeCgroups takes them away. A cgroup stays busy for a moment after its last process ended.
func removeCgroups(ctx context.Context) error {
	dirs, err := cgroups()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for _, dir := range dirs {
		for {
			err := removeCgroup(dir)
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || pause(ctx) != nil {
				return fmt.Errorf("remove cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}

func removeCgroup(dir string) error {
	var groups []string
	if err := walkCgroup(dir, func(group string) error { groups = append(groups, group); return nil }); err != nil {
		return err
	}
	slices.Reverse(groups) // children before parents
	for _, group := range groups {
		if err := ignoreGone(syscall.Rmdir(group)); err != nil {
			return err
		}
	}
	return nil
}

// walkCgroup visits dir and every cgroup below it, parents first.
func walkCgroup(dir string, visit func(group string) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		if !entry.IsDir() {
			return nil
		}
		return visit(path)
	})
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
