package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArgumentsNameADirectoryOnlyAsAWholePath(t *testing.T) {
	const dir = "/state/cluster"
	for arg, want := range map[string]bool{
		"/state/cluster":                             true,
		"--data-dir=/state/cluster/etcd":             true,
		"unix:///state/cluster/containerd.sock":      true,
		"--files=/other,/state/cluster/x":            true,
		"--data-dir=/state/cluster2/etcd":            false,
		"/backup/state/cluster/etcd":                 false,
		"/state/cluster2:/state/cluster/etcd":        true,
		"--data-dir=/state/clusterer,/state/cluster": true,
		"": false,
	} {
		assert.Equal(t, want, names(arg, dir), arg)
	}
}

func TestOnlyTheNodesOwnProgramsAreOurs(t *testing.T) {
	const dir, arg = "/state/cluster", "--kubeconfig=/state/cluster/kubeconfig"
	for name, c := range map[string]struct {
		p    process
		ours bool
	}{
		"a component":                {process{exe: "/c/kube", args: []string{"/c/kubelet", arg}}, true},
		"a rebuilt one":              {process{exe: "/c/kube-old/kube", args: []string{"kubelet", arg}}, true},
		"somebody's kubectl":         {process{exe: "/c/kube", args: []string{"/c/kubectl", arg}}, false},
		"somebody's tail of a log":   {process{exe: "/usr/bin/tail", args: []string{"tail", "-f", "/state/cluster/logs/etcd.log"}}, false},
		"another cluster's kubelet":  {process{exe: "/c/kube", args: []string{"kubelet", "--kubeconfig=/state/cluster-2/kubeconfig"}}, false},
		"the machine's containerd":   {process{exe: "/usr/bin/containerd", args: []string{"containerd"}}, false},
		"a name without its program": {process{exe: "/usr/bin/bash", args: []string{"etcd", arg}}, false},
		"no command line":            {process{exe: "/c/kube"}, false},
	} {
		assert.Equal(t, c.ours, c.p.belongsTo(dir), name)
	}
}

func TestDescendantsOfOursAreOurs(t *testing.T) {
	shim := process{pid: 10, parent: 1, exe: "/usr/bin/containerd-shim-runc-v2", args: []string{"/usr/bin/containerd-shim-runc-v2", "-address", "/s/c/containerd.sock"}}
	all := []process{
		{pid: 12, parent: 11, exe: "/child"}, {pid: 11, parent: 10, exe: "/agent"}, shim,
		{pid: 1, exe: "/init"}, {pid: 20, parent: 1, exe: "/stranger"},
	}
	var pids []int
	for _, p := range owned(all, "/s/c") {
		pids = append(pids, p.pid)
	}
	assert.ElementsMatch(t, []int{10, 11, 12}, pids)
}

// fakeProcess writes what readProcess reads.
func fakeProcess(t *testing.T, proc string, pid int, stat, exe, cmdline string) {
	t.Helper()
	dir := filepath.Join(proc, strconv.Itoa(pid))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cmdline"), []byte(cmdline), 0o600))
	require.NoError(t, os.Symlink(exe, filepath.Join(dir, "exe")))
}

func TestProcessesAreReadFromProc(t *testing.T) {
	proc := t.TempDir()
	const fields = " 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4242 100"
	fakeProcess(t, proc, 30, "30 (a (b) c) S"+fields, "/c/kube (deleted)", "/c/etcd\x00--data-dir=/x\x00")
	fakeProcess(t, proc, 31, "31 (dead) Z"+fields, "/c/kube", "")
	require.NoError(t, os.Mkdir(filepath.Join(proc, "32"), 0o700), "one that ends while we read")
	require.NoError(t, os.Mkdir(filepath.Join(proc, "self"), 0o700))
	all, err := processes(proc)
	require.NoError(t, err)
	assert.Equal(t, []process{{pid: 30, parent: 7, start: "4242", exe: "/c/kube", args: []string{"/c/etcd", "--data-dir=/x"}}}, all)
}

func TestKillSparesWhoeverHasThePIDNow(t *testing.T) {
	self, ok := readProcess("/proc", os.Getpid())
	require.True(t, ok)
	self.start = "1" // a process that had our PID before us
	require.NoError(t, kill(self))
}

func TestAProcessIsGoneOnlyWithAllItsThreads(t *testing.T) {
	const line = "30 (etcd) %s 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 %s 0 %s 100"
	for name, c := range map[string]struct {
		state, threads, start string
		want                  bool
	}{
		"running":                            {"S", "9", "4242", false},
		"first thread dead, others not":      {"Z", "3", "4242", false},
		"program gone, not yet a zombie":     {"D", "1", "4242", false},
		"a zombie nobody has waited for":     {"Z", "1", "4242", true},
		"another process under the same PID": {"S", "9", "5000", true},
	} {
		proc := t.TempDir()
		fakeProcess(t, proc, 30, fmt.Sprintf(line, c.state, c.threads, c.start), "/c/kube", "")
		assert.Equal(t, c.want, gone(proc, process{pid: 30, start: "4242"}), name)
	}
	assert.True(t, gone(t.TempDir(), process{pid: 30, start: "4242"}), "no such process")
}
