package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is what /proc says about one process.
type process struct {
	pid, parent int
	start       string // in clock ticks since boot; with the PID it names a process for good
	exe         string
	args        []string
}

// programs are the executables of a node and the names they may be called by: the same file is also kubectl, which
// anybody may be running with our kubeconfig.
var programs = map[string][]string{
	"kube":                    {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"},
	"coredns":                 {"coredns"},
	"containerd":              {"containerd"},
	"containerd-shim-runc-v2": {"containerd-shim-runc-v2"},
	"runc":                    {"runc"},
}

// belongsTo says whether the process is part of the node whose directory is dir: it runs one of our programs under
// one of its names, and an argument names something in dir.
func (p process) belongsTo(dir string) bool {
	if len(p.args) == 0 || !slices.Contains(programs[filepath.Base(p.exe)], filepath.Base(p.args[0])) {
		return false
	}
	return slices.ContainsFunc(p.args[1:], func(arg string) bool { return names(arg, dir) })
}

// names says whether arg holds dir as a whole path or as the beginning of one.
func names(arg, dir string) bool {
	for rest := arg; ; {
		at := strings.Index(rest, dir)
		if at < 0 {
			return false
		}
		before, after := rest[:at], rest[at+len(dir):]
		startsPath := before == "" || strings.ContainsAny(before[len(before)-1:], "=:/,")
		if startsPath && (after == "" || after[0] == '/') {
			return true
		}
		rest = after
	}
}

// component is the name the process was called by.
func (p process) component() string { return filepath.Base(p.args[0]) }

// processes reads all of them. Those that end while we read, and zombies, are left out.
func processes(proc string) ([]process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if found, ok := readProcess(proc, pid); ok {
			all = append(all, found)
		}
	}
	return all, nil
}

func readProcess(proc string, pid int) (process, bool) {
	stat, ok := readStat(proc, pid)
	if !ok || stat.state == "Z" {
		return process{}, false
	}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil { // a kernel thread, or ending
		return process{}, false
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline")) // #nosec G304 -- procfs
	if err != nil {
		return process{}, false
	}
	found := process{pid: pid, parent: stat.parent, start: stat.start, exe: strings.TrimSuffix(exe, " (deleted)")}
	if text := strings.TrimRight(string(cmdline), "\x00"); text != "" {
		found.args = strings.Split(text, "\x00")
	}
	return found, true
}

// status is the part of /proc/PID/stat that outlives the program.
type status struct {
	state, start, threads string
	parent                int
}

func readStat(proc string, pid int) (status, bool) {
	stat, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat")) // #nosec G304 -- procfs
	if err != nil {
		return status{}, false
	}
	// The name is in parentheses and may hold anything, parentheses included.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, parent, threads, start = 0, 1, 17, 19
	if len(fields) <= start {
		return status{}, false
	}
	found := status{state: fields[state], start: fields[start], threads: fields[threads]}
	found.parent, _ = strconv.Atoi(fields[parent])
	return found, true
}

// gone says whether p has ended with all its threads. A process whose first thread is a zombie may still have others,
// and with them its open sockets.
func gone(proc string, p process) bool {
	now, ok := readStat(proc, p.pid)
	return !ok || now.start != p.start || (now.state == "Z" && now.threads == "1")
}

// owned are the node's processes and whatever descends from them, containers included.
func owned(all []process, dir string) []process {
	ours := map[int]bool{}
	for _, p := range all {
		if p.belongsTo(dir) {
			ours[p.pid] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if !ours[p.pid] && ours[p.parent] {
				ours[p.pid], grew = true, true
			}
		}
	}
	var found []process
	for _, p := range all {
		if ours[p.pid] {
			found = append(found, p)
		}
	}
	return found
}
