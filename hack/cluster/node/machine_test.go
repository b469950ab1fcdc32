package node

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

func TestWhatWasMountedSurvivesTheDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	precious := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(precious, "data"), nil, 0o600))
	for range 2 { // one over the other
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "volume here"), 0o700))
		require.NoError(t, syscall.Mount(precious, filepath.Join(dir, "volume here"), "", syscall.MS_BIND, ""))
	}
	require.NoError(t, unmountUnder(dir))
	require.NoError(t, os.RemoveAll(dir))
	assert.FileExists(t, filepath.Join(precious, "data"))
}
