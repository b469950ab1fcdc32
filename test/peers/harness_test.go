package peers

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
	"github.com/hearthdev/hearth/test/llm"
)

const (
	patience = time.Minute // for what comes when it comes
	tick     = 10 * time.Millisecond
	token    = "secret-root-0123456789-0123456789-0123456789"
	viewKey  = "the-view-key-0123456789-0123456789"
	steerKey = "the-steer-key-0123456789-0123456789"
)

// built are the binaries under test.
var built struct{ harness, hearth string }

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hearth-peers-")
	if err != nil {
		panic(err)
	}
	built.harness, built.hearth = filepath.Join(dir, "harness"), filepath.Join(dir, "hearth")
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", dir, "../../cmd/harness", "../../cmd/hearth").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	agenttest.Remove()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// lines is what a process wrote.
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

// harness is a real harness process with an agent.
type harness struct {
	t     *testing.T
	log   *lines
	url   string // of its ACP endpoint, ws://…
	link  *client.Link
	model *llm.Server
	ended chan struct{} // closed when the process ended
}

// environ is little and known: agents read a lot of what they find.
func environ(home string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}, more...)
}

func startHarness(t *testing.T, a agent, args ...string) *harness {
	t.Helper()
	model := llm.New(llm.Options{Second: 20 * time.Millisecond})
	server := httptest.NewServer(model)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	command, env, more := a.start(t, server.URL)

	h := &harness{t: t, log: &lines{}, model: model}
	pod := wire.Identity{Namespace: "team", PodName: hostname(t), PodUID: "pod-uid-1"}
	args = append(append([]string{"serve", "--permissions=Ask"}, args...), more...)
	cmd := exec.Command(built.harness, append(append(args, "--"), command...)...) //nolint:noctx // it is ended by the cleanup
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = h.log, h.log, 5*time.Second
	cmd.Env = environ(t.TempDir(), append(env, "HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_DELIVERY_LISTEN=127.0.0.1:0", "HEARTH_DATA_DIR="+t.TempDir(),
		"HEARTH_DELIVERY_TOKEN="+token, "HEARTH_ACP_VIEW_KEY="+viewKey, "HEARTH_ACP_STEER_KEY="+steerKey,
		"POD_NAMESPACE="+pod.Namespace, "POD_NAME="+pod.PodName, "POD_UID="+pod.PodUID)...)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	h.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	h.url = "ws://" + h.said(`acp: listening"? addr=(\S+)`) + "/acp"
	keys, err := challenge.Derive([]byte(token), pod.PodUID)
	require.NoError(t, err)
	h.link, err = client.New(client.Config{
		Target: pod, Address: h.said(`delivery: listening"? addr=(\S+)`), Keys: keys, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler),
		Changed: func(client.Change) {}, Backoff: func(int) time.Duration { return 100 * time.Millisecond },
	})
	require.NoError(t, err)
	h.link.Start()
	t.Cleanup(h.link.Close)
	h.until("the harness to prove who it is", func() bool { return h.link.Status().State == client.StateVerified })
	return h
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}

// said waits for a line of the harness's log.
func (h *harness) said(pattern string) string {
	h.t.Helper()
	re := regexp.MustCompile(pattern)
	var found string
	h.until("the harness to say "+pattern, func() bool {
		if m := re.FindStringSubmatch(h.log.String()); m != nil {
			found = m[1]
		}
		return found != ""
	})
	return found
}

func (h *harness) until(what string, done func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(tick) {
		require.True(h.t, time.Now().Before(deadline), "waited for %s: %s", what, h.log)
		select {
		case <-h.ended:
			require.Fail(h.t, "the harness ended", "%s", h.log)
		default:
		}
	}
}

// deliver sends a goal as the controller does.
func (h *harness) deliver(run, goal string) client.Key {
	h.t.Helper()
	status := h.link.Status()
	ref := wire.RunRef{Namespace: "team", Name: run, UID: run + "-uid"}
	require.NoError(h.t, h.link.Send(client.Delivery{DeliveryRequest: wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: ref, Attempt: 1, Target: wire.Target{Name: hostname(h.t), UID: "pod-uid-1"}, Journal: status.Journal, Goal: goal,
	}}, 0))
	return client.Key{RunUID: ref.UID, Attempt: 1}
}

// result waits for the end of an attempt and looks at its result.
func (h *harness) result(k client.Key) wire.Envelope {
	h.t.Helper()
	var envelope *wire.Envelope
	h.until("the end of the run", func() bool {
		a, known := h.link.Snapshot(k)
		if known && a.Seen != nil && a.Seen.State == wire.StateFinished {
			if envelope = a.Seen.Envelope; envelope == nil && !a.InFlight {
				require.NoError(h.t, h.link.Look(a.Run, 1))
			}
		}
		return envelope != nil
	})
	return *envelope
}

// required is a path that the environment names; without it the test is skipped, unless that is not allowed.
func required(t *testing.T, variable, how string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		require.NotEqual(t, "1", os.Getenv("HEARTH_REQUIRE_REAL"), "%s is not set: %s", variable, how)
		t.Skip(variable + " is not set: " + how)
	}
	return strings.TrimSpace(path)
}
