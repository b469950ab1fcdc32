package node

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlaceIsChosenFromTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env       map[string]string
		dir, fail string
	}{
		"its own variable": {env: map[string]string{"HEARTH_CLUSTER_DIR": "/a/b/", "HOME": "/root"}, dir: "/a/b"},
		"XDG":              {env: map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/root"}, dir: "/s/hearth/cluster"},
		"home":             {env: map[string]string{"HOME": "/root"}, dir: "/root/.local/state/hearth/cluster"},
		"nothing":          {fail: "HOME, XDG_STATE_HOME and HEARTH_CLUSTER_DIR are all empty"},
		"relative":         {env: map[string]string{"HEARTH_CLUSTER_DIR": "a/b"}, fail: "expected an absolute path"},
		"too long":         {env: map[string]string{"HEARTH_CLUSTER_DIR": "/a/" + strings.Repeat("b", maxDir)}, fail: "expected at most 70"},
		"top level":        {env: map[string]string{"HEARTH_CLUSTER_DIR": "/etc"}, fail: "expected at least two levels"},
	} {
		t.Run(name, func(t *testing.T) {
			place, err := NewPlace(func(key string) string { return c.env[key] })
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.dir, place.Dir())
		})
	}
}

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

func TestMountsAreParsedAndUndoneLastFirst(t *testing.T) {
	all := parseMounts(`22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
41 22 0:40 / /s/c/kubelet/a\040b rw - tmpfs tmpfs rw
42 41 0:41 / /s/c/kubelet/a\040b/c rw - tmpfs tmpfs rw
43 22 0:42 / /s/c2 rw - tmpfs tmpfs rw
broken
`)
	assert.Equal(t, mount{point: "/sys/fs/cgroup/pids", kind: "cgroup"}, all[1])
	assert.Equal(t, []string{"/s/c/kubelet/a b/c", "/s/c/kubelet/a b"}, under(all, "/s/c"))
}

func TestListenersAreParsed(t *testing.T) {
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:303B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:303B 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 112 1 0 100 0 0 10 0
   2: 00000000000000000000000000000000:280A 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 113 1 0 100 0 0 10 0
   3: nonsense
`
	sockets := parseSockets(table)
	require.Len(t, sockets, 2)
	assert.Equal(t, "127.0.0.1:12347", sockets[0].address.String())
	assert.Equal(t, "[::]:10250", sockets[1].address.String())

	for wanted, inode := range map[string]string{"127.0.0.1:12347": "111", "10.77.0.1:10250": "113", "10.77.0.1:12347": "", "127.0.0.1:1": ""} {
		held, taken := collides(netip.MustParseAddrPort(wanted), sockets)
		assert.Equal(t, inode != "", taken, wanted)
		assert.Equal(t, inode, held.inode, wanted)
	}
}

func TestAPortInUseIsNamedWithItsHolder(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	address := listener.Addr().String()

	err = checkPorts([]component{{name: "etcd", listens: []string{address}}})
	require.ErrorContains(t, err, "etcd needs "+address)
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid())+" (")
	require.ErrorContains(t, err, "listens on "+address)

	require.NoError(t, listener.Close())
	require.NoError(t, checkPorts([]component{{name: "etcd", listens: []string{address}}}))
}

func TestAddressesInOurRangesAreRefused(t *testing.T) {
	address := func(text string) []net.Addr {
		ip, network, err := net.ParseCIDR(text)
		require.NoError(t, err)
		return []net.Addr{&net.IPNet{IP: ip, Mask: network.Mask}}
	}
	require.ErrorContains(t, conflict("vpn0", address("10.77.0.9/8")), "vpn0 has address 10.77.0.9/8, in the range 10.77.0.0/24")
	require.ErrorContains(t, conflict("eth0", address("10.96.3.4/24")), Services)
	require.NoError(t, conflict("eth0", address("10.0.0.5/8")))
	require.NoError(t, conflict("eth0", address("fe80::1/64")))
}

func TestPackagesAreNamedOnce(t *testing.T) {
	needed := []requirement{{"containerd", "containerd"}, {"ctr", "containerd"}, {"nft", "nftables"}, {"ip", "iproute2"}}
	assert.Equal(t, []string{"containerd", "nftables"}, missing(needed, func(file string) bool { return file == "ip" }))
	assert.Empty(t, missing(needed, func(string) bool { return true }))
}

func TestLastLines(t *testing.T) {
	text := strings.Repeat("old\n", 3) + strings.Repeat("new\n", lastLineNum)
	assert.Equal(t, strings.TrimSpace(strings.Repeat("new\n", lastLineNum)), lastLines(text))
	assert.Equal(t, "one", lastLines("one\n"))
}

func TestResolvConfWithoutANameserverMeansNoForwarding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	assert.False(t, hasNameserver(path))
	require.NoError(t, os.WriteFile(path, []byte("# nameserver 1.2.3.4\nsearch x\n"), 0o600))
	assert.False(t, hasNameserver(path))
	require.NoError(t, os.WriteFile(path, []byte("search x\nnameserver 10.0.0.1\n"), 0o600))
	assert.True(t, hasNameserver(path))
}
