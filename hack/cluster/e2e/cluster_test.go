package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/hack/cluster/node"
)

// startPods loads the test's image and waits for both Pods.
func startPods(t *testing.T, c tool) {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "inpod"), "./inpod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	binary, err := os.ReadFile(filepath.Join(dir, "inpod"))
	require.NoError(t, err)
	image, err := node.Image("localhost/inpod:1", "inpod", binary)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "inpod.tar"), image, 0o600))
	c.must(t, "load", filepath.Join(dir, "inpod.tar"))

	said, err := c.kubectl(t, "apply", "-f", "pods.yaml")
	require.NoError(t, err, said)
	said, err = c.kubectl(t, "wait", "-n", "proof", "--for=condition=Ready", "pod/server", "pod/asker", "--timeout=60s")
	require.NoError(t, err, said)
}

// eventually asks from inside the asking Pod: rules and names follow Pods within moments, not at once.
func eventually(t *testing.T, c tool, want string, args ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		out, err := c.kubectl(t, append([]string{"exec", "-n", "proof", "asker", "--", "/inpod"}, args...)...)
		require.NoError(collect, err, out)
		assert.Equal(collect, want, out)
	}, 30*time.Second, 200*time.Millisecond, args)
}

func TestAClusterServesPodsAndLeavesNothing(t *testing.T) {
	c := newTool(t)
	before := snapshot(t, c.dir)
	c.must(t, "up")
	startPods(t, c)
	during := snapshot(t, c.dir)
	const components, containers = 8, 2 * 3 // each Pod: a shim, its pause, its program
	assert.Len(t, during.processes, components+containers, "the snapshot sees what there is")
	assert.Contains(t, during.links, node.Bridge)
	assert.NotEqual(t, before.mounts, during.mounts)
	assert.NotEqual(t, before.tables, during.tables)
	assert.NotEqual(t, before.cgroups, during.cgroups)
	assert.NotEqual(t, before.files, during.files)

	eventually(t, c, "server", "dial", "server.proof.svc.cluster.local:80")
	eventually(t, c, "server", "dial", "server.headless:8080")
	address, err := c.kubectl(t, "get", "service", "-n", "proof", "server", "-o", "jsonpath={.spec.clusterIP}")
	require.NoError(t, err, address)
	eventually(t, c, "server", "dial", address+":80")
	eventually(t, c, "200 OK", "api", "https://kubernetes.default.svc/version")
	// Authenticated, and allowed nothing: the answer to a stranger would be 401.
	eventually(t, c, "403 Forbidden", "api", "https://kubernetes.default.svc/api/v1/secrets")
	logs, err := c.kubectl(t, "logs", "-n", "proof", "server")
	require.NoError(t, err, logs)
	assert.Equal(t, "serving on :8080\n", logs)

	again := c.must(t, "up")
	assert.NotContains(t, again, "starting", "up beside a running cluster does nothing")
	c.must(t, "down")
	assertSame(t, before, snapshot(t, c.dir))
	assert.NoDirExists(t, c.dir)
	c.must(t, "down") // nothing to do is not an error
}

func TestOnlyCertificatesOpenTheCluster(t *testing.T) {
	c := newTool(t)
	c.must(t, "up")
	for _, address := range []string{"127.0.0.1:16443", "127.0.0.1:10250"} {
		_, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		require.Error(t, err, "only the bridge is listened on")
	}
	ca, err := os.ReadFile(filepath.Join(c.dir, "pki", "ca.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	for url, status := range map[string]int{
		"https://10.77.0.1:16443/api/v1/namespaces": http.StatusForbidden, // anonymous, with no rights
		"https://10.77.0.1:10250/pods":              http.StatusUnauthorized,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		assert.Equal(t, status, response.StatusCode, url)
		require.NoError(t, response.Body.Close())
	}
}

func TestUpAfterASIGKILLInTheMiddle(t *testing.T) {
	for _, moment := range []string{"starting etcd", "starting kube-apiserver", "starting kubelet", "waiting for node"} {
		t.Run(moment, func(t *testing.T) {
			c := newTool(t)
			before := snapshot(t, c.dir)
			c.killWhen(t, moment)
			c.must(t, "up")
			startPods(t, c)
			eventually(t, c, "server", "dial", "server:80")
			c.must(t, "down")
			assertSame(t, before, snapshot(t, c.dir))
		})
		t.Run(moment+", then down", func(t *testing.T) {
			c := newTool(t)
			before := snapshot(t, c.dir)
			c.killWhen(t, moment)
			c.must(t, "down")
			assertSame(t, before, snapshot(t, c.dir))
		})
	}
}

func TestUpAfterEverythingWasKilled(t *testing.T) {
	for name, programs := range map[string][]string{
		"every component and shim": {"kube", "coredns", "containerd", "containerd-shim-runc-v2"},
		"all but the shims":        {"kube", "coredns", "containerd"},
		"one of them":              {"coredns"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTool(t)
			before := snapshot(t, c.dir)
			c.must(t, "up")
			startPods(t, c)
			killPrograms(t, c.dir, programs)
			said := c.must(t, "up")
			assert.Contains(t, said, "removing what an earlier cluster left")
			startPods(t, c)
			eventually(t, c, "server", "dial", "server:80")
			killPrograms(t, c.dir, programs)
			c.must(t, "down")
			assertSame(t, before, snapshot(t, c.dir))
		})
	}
}

func TestAFailedStartNamesTheComponentAndShowsItsLog(t *testing.T) {
	c := newTool(t)
	before := snapshot(t, c.dir)
	broken := t.TempDir()
	script := "#!/bin/sh\nfor i in $(seq 30); do echo line $i; done\necho the end of it >&2\nexit 3\n"
	require.NoError(t, os.WriteFile(filepath.Join(broken, "containerd"), []byte(script), 0o700)) // #nosec G306 -- a program
	t.Setenv("PATH", broken+":"+os.Getenv("PATH"))

	said, err := c.run(t, "up")
	require.Error(t, err)
	assert.Contains(t, said, "containerd died while the cluster was starting: exit status 3")
	assert.Contains(t, said, "line 30\nthe end of it")
	assert.NotContains(t, said, "line 11\n", "only the last 20 lines")
	assertSame(t, before, snapshot(t, c.dir))
	assert.FileExists(t, filepath.Join(c.dir, "logs", "containerd.log"))
}

func TestAPortInUseIsNamed(t *testing.T) {
	c := newTool(t)
	before := snapshot(t, c.dir)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:10259")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	said, err := c.run(t, "up")
	require.Error(t, err)
	assert.Contains(t, said, "kube-scheduler needs 127.0.0.1:10259, but process ")
	assertSame(t, before, snapshot(t, c.dir))

	require.NoError(t, listener.Close())
	c.must(t, "up")
}

func TestASecondClusterIsRefused(t *testing.T) {
	c := newTool(t)
	c.must(t, "up")
	other := tool{path: c.path, dir: c.dir + "2"}
	said, err := other.run(t, "up")
	require.Error(t, err)
	assert.Contains(t, said, "a cluster runs in "+c.dir)
	other.must(t, "down")
	_, err = c.kubectl(t, "get", "--raw", "/readyz")
	require.NoError(t, err, "the first one is untouched")
}

// killPrograms ends, with SIGKILL, the processes of the node in dir that run one of the programs.
func killPrograms(t *testing.T, dir string, programs []string) {
	t.Helper()
	for _, line := range listProcesses(t, dir) {
		pid, exe, _ := strings.Cut(line, " ")
		if slices.Contains(programs, filepath.Base(exe)) {
			_ = exec.CommandContext(t.Context(), "kill", "-KILL", pid).Run() // it may have gone with its parent
		}
	}
}
