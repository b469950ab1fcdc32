package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine is everything a node touches outside its directory. Each line is one thing.
type machine struct{ processes, mounts, links, tables, cgroups, files, sysctls []string }

// watched are the folders that parts of a node write to unless they are told not to.
var watched = []string{
	"/etc/cni", "/opt/cni", "/opt/containerd", "/run/containerd", "/run/netns", "/run/calico", "/run/kubernetes",
	"/usr/libexec/kubernetes", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/containers",
	"/var/log/pods", "/var/run/kubernetes",
}

var kernelSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward",
	"net/ipv4/conf/all/route_localnet", "net/netfilter/nf_conntrack_max", "net/ipv6/conf/all/forwarding",
}

func snapshot(t *testing.T, dir string) machine {
	t.Helper()
	return machine{
		processes: listProcesses(t, dir),
		mounts:    listNodeMounts(t, dir),
		links:     names(t, "/sys/class/net"),
		tables:    output(t, "nft", "list", "ruleset"),
		cgroups:   listCgroups(t),
		files:     listFiles(t),
		sysctls:   listSettings(),
	}
}

// listProcesses finds those of the node in dir, by command line, and those in containers, by cgroup. Others come and
// go while a test runs, other API servers included.
func listProcesses(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, pid := range names(t, "/proc") {
		exe, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
		if err != nil || filepath.Base(exe) == "cluster" {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		cgroup, _ := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
		if strings.Contains(string(cmdline), dir) || strings.Contains(string(cgroup), ":/hearth") {
			found = append(found, pid+" "+exe)
		}
	}
	return found
}

func listMounts(t *testing.T) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	var points []string
	for line := range strings.Lines(string(table)) {
		points = append(points, strings.Fields(line)[4])
	}
	return points
}

// listNodeMounts leaves out what other people mount meanwhile, where a node has no business.
func listNodeMounts(t *testing.T, dir string) []string {
	t.Helper()
	return slices.DeleteFunc(listMounts(t), func(point string) bool {
		return !slices.ContainsFunc([]string{dir, "/run/", "/var/", "/sys/", "/dev/"}, func(root string) bool { return strings.HasPrefix(point, root) })
	})
}

// listCgroups is the top level of every hierarchy, where a node makes its own.
func listCgroups(t *testing.T) []string {
	t.Helper()
	var groups []string
	for _, point := range listMounts(t) {
		if !strings.HasPrefix(point, "/sys/fs/cgroup") {
			continue
		}
		entries, err := os.ReadDir(point)
		require.NoError(t, err)
		for _, entry := range entries {
			if entry.IsDir() {
				groups = append(groups, filepath.Join(point, entry.Name()))
			}
		}
	}
	return groups
}

func listFiles(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, root := range watched {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() { // an empty folder may be a package's, and is nobody's trace
				found = append(found, path)
			}
			return nil
		}))
	}
	return found
}

func listSettings() []string {
	var found []string
	for _, name := range kernelSettings {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			found = append(found, name+"="+strings.TrimSpace(string(value)))
		}
	}
	return found
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func output(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
	require.NoError(t, err, args)
	return strings.Split(string(out), "\n")
}

// assertSame compares kind by kind, so that a failure shows the one thing that was left.
func assertSame(t *testing.T, before, after machine) {
	t.Helper()
	assert.Equal(t, before.processes, after.processes, "processes")
	assert.Equal(t, before.mounts, after.mounts, "mounts")
	assert.Equal(t, before.links, after.links, "links")
	assert.Equal(t, before.tables, after.tables, "nft tables")
	assert.Equal(t, before.cgroups, after.cgroups, "cgroups")
	assert.Equal(t, before.files, after.files, "files")
	assert.Equal(t, before.sysctls, after.sysctls, "kernel settings")
}
