package doctor

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

const (
	patience = time.Minute // for what comes when it comes
	tick     = 10 * time.Millisecond
	root     = "secret-root-0123456789-0123456789-0123456789"
	viewKey  = "the-view-key-0123456789-0123456789"
	podUID   = "pod-uid-1"
)

func TestMain(m *testing.M) {
	code := m.Run()
	agenttest.Remove()
	if path, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// built is the harness.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hearth-doctor-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "harness")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, "../../cmd/harness").CombinedOutput()
	_, _ = os.Stderr.Write(out)
	return path, err
})

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// process is a real harness with the scripted agent.
type process struct {
	t    *testing.T
	said *lines
	pod  string
}

func startHarness(t *testing.T, env ...string) *process {
	t.Helper()
	path, err := built()
	require.NoError(t, err)
	hostname, err := os.Hostname()
	require.NoError(t, err)
	p := &process{t: t, said: &lines{}, pod: hostname}
	cmd := exec.CommandContext(t.Context(), path, "serve", "--", agenttest.Build(t))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.said, p.said, 5*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_DELIVERY_LISTEN=127.0.0.1:0",
		"HEARTH_DATA_DIR=" + t.TempDir(), "HEARTH_DELIVERY_TOKEN=" + root, "HEARTH_ACP_VIEW_KEY=" + viewKey, "HEARTH_ACP_STEER_KEY=other-" + viewKey,
		"POD_NAMESPACE=team", "POD_NAME=" + hostname, "POD_UID=" + podUID, "AGENT_NAME=scripted"}, env...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // t.Context has ended by then
	return p
}

func (p *process) address(what string) string {
	p.t.Helper()
	pattern, found := regexp.MustCompile(what+`: listening"? addr=(\S+)`), []string(nil)
	require.Eventually(p.t, func() bool { found = pattern.FindStringSubmatch(p.said.String()); return found != nil }, patience, tick, p.said)
	return found[1]
}

// at is a cluster whose every port is at an address.
func at(address string) *Cluster {
	return &Cluster{dial: func(ctx context.Context, _, _ string, _ int) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}}
}

func (p *process) target(scheme hearthv1.DeliveryScheme) target {
	return target{namespace: "team", pod: p.pod, uid: podUID, port: 4100, scheme: scheme}
}

// listener answers nothing, or what is given, on a port of its own.
func listener(t *testing.T, answer string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			if answer != "" {
				_, _ = conn.Read(make([]byte, 64))
				_, _ = conn.Write([]byte(answer))
				_ = conn.Close()
			}
		}
	}()
	return l.Addr().String()
}

func closed(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// The proof is the Pod's, or it is said whose it is not (SPEC.md, Challenge, Confidentiality).
func TestWhatADeliveryPortSays(t *testing.T) {
	p := startHarness(t)
	p.address("acp") // its agent stands
	c := at(p.address("delivery"))
	got := c.challenge(t.Context(), p.target(""), []byte(root))
	assert.Equal(t, Probe{Heard: HeardOK, Harness: got.Harness, Agent: "scripted 1.0.0", State: string(wire.AgentReady), Room: "0 of 1 running, 0 of 1 queued"}, got)
	assert.NotEmpty(t, got.Harness)
	assert.Equal(t, HeardOtherKey, c.challenge(t.Context(), p.target(hearthv1.DeliveryHTTPS), []byte("x"+root)).Heard, "another Secret")
	other := p.target("")
	other.uid = "pod-uid-2"
	assert.Equal(t, HeardOtherKey, c.challenge(t.Context(), other, []byte(root)).Heard, "another Pod's keys")
	other = p.target("")
	other.pod = "somebody-else"
	assert.Equal(t, HeardOtherPod, c.challenge(t.Context(), other, []byte(root)).Heard)
	assert.Equal(t, HeardUnproven, c.challenge(t.Context(), p.target(hearthv1.DeliveryHTTP), []byte(root)).Heard, "plain HTTP to a port of TLS")
	assert.Equal(t, HeardOther, c.challenge(t.Context(), p.target(""), []byte("short")).Heard)
}

func TestWhatADeliveryPortWithoutTLSSays(t *testing.T) {
	p := startHarness(t, "HEARTH_DELIVERY_SCHEME=HTTP", "AGENT_START=mute")
	c := at(p.address("delivery"))
	got := c.challenge(t.Context(), p.target(hearthv1.DeliveryHTTP), []byte(root))
	assert.Equal(t, HeardOK, got.Heard)
	assert.Equal(t, string(wire.AgentStarting), got.State, "its agent does not answer")
	assert.Equal(t, HeardNoTLS, c.challenge(t.Context(), p.target(""), []byte(root)).Heard)
	assert.Equal(t, HeardRefused, c.challenge(t.Context(), p.target(hearthv1.DeliveryHTTP), []byte("x"+root)).Heard)
}

func TestWhatNobodysPortSays(t *testing.T) {
	whom := target{namespace: "team", pod: "reviewer-1", uid: podUID, port: 4100}
	plain := whom
	plain.scheme = hearthv1.DeliveryHTTP
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	silence, nothing := at(listener(t, "")), at(closed(t))
	for _, w := range []target{whom, plain} {
		assert.Equal(t, HeardSilence, silence.challenge(soon(), w, []byte(root)).Heard)
		assert.Equal(t, HeardClosed, nothing.challenge(t.Context(), w, []byte(root)).Heard)
	}
	stranger := at(listener(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	assert.Equal(t, Probe{Heard: HeardUnproven, Words: "it answered 200 without a proof"}, stranger.challenge(t.Context(), plain, []byte(root)))
	assert.Equal(t, HeardNoTLS, stranger.challenge(t.Context(), whom, []byte(root)).Heard)
	assert.Equal(t, HeardSilence, silence.acp(soon(), "team", "reviewer-1", viewKey).Heard)
	assert.Equal(t, HeardClosed, nothing.acp(t.Context(), "team", "reviewer-1", viewKey).Heard)
	assert.Equal(t, HeardOther, stranger.acp(t.Context(), "team", "reviewer-1", viewKey).Heard)

	forbidden := &Cluster{dial: func(context.Context, string, string, int) (net.Conn, error) { return nil, assert.AnError }}
	assert.Empty(t, forbidden.challenge(t.Context(), whom, []byte(root)).Heard, "a port-forward that fails says nothing of the port")
	assert.Empty(t, forbidden.acp(t.Context(), "team", "reviewer-1", viewKey).Heard)
}

// The endpoint for people: initialize with the view key.
func TestWhatAnEndpointForPeopleSays(t *testing.T) {
	p := startHarness(t)
	c := at(p.address("acp"))
	assert.Equal(t, Probe{Heard: HeardOK, Agent: "scripted 1.0.0"}, c.acp(t.Context(), "team", p.pod, viewKey))
	assert.Equal(t, HeardRefused, c.acp(t.Context(), "team", p.pod, "not-"+viewKey).Heard)
	assert.Equal(t, HeardSilence, greeted([]byte(`{"error":{"code":-32603,"message":"no\nmodel"}}`)).Heard)
	assert.Equal(t, HeardOther, greeted([]byte(`{}`)).Heard)
	assert.Equal(t, HeardOther, greeted([]byte(`no`)).Heard)
	assert.Equal(t, Probe{Heard: HeardOK, Agent: "an agent that says no name"}, greeted([]byte(`{"result":{}}`)))
}
