package attach

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge/pinned"
	"github.com/hearthdev/hearth/cli/attach/view"
	"github.com/hearthdev/hearth/cli/forward"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
	"github.com/hearthdev/hearth/test/process"
)

const (
	patience = process.Patience
	podUID   = process.PodUID
	viewKey  = "view-key-0123456789-0123456789-0123456789-01"
	steerKey = "steer-key-0123456789-0123456789-0123456789-0"
)

var binary string

func TestMain(m *testing.M) { process.Main(m, &binary) }

// pod is a Pod with the real harness and the scripted agent. It implements Endpoint and Archive without a cluster.
type pod struct {
	process.Pod
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	boot wire.ChallengeAnswer

	mu    sync.Mutex
	log   *process.Output // of this boot; who follows dials while the next one begins
	conns []net.Conn
	state error // of Check
}

func newPod(t *testing.T, args ...string) *pod {
	t.Helper()
	p := &pod{Pod: process.NewPod(t), t: t, args: args}
	p.start()
	return p
}

// start boots the harness; after kill it is the next boot of the same Pod.
func (p *pod) start() {
	p.t.Helper()
	log := process.NewOutput()
	p.mu.Lock()
	p.log = log
	p.mu.Unlock()
	p.cmd = exec.CommandContext(context.WithoutCancel(p.t.Context()), binary, append(append([]string{"serve"}, p.args...), "--", agenttest.Build(p.t))...)
	p.cmd.Env = append(p.Environ(), "HEARTH_ACP_VIEW_KEY="+viewKey, "HEARTH_ACP_STEER_KEY="+steerKey)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = log, log, 5*time.Second
	require.NoError(p.t, p.cmd.Start())
	p.t.Cleanup(func() {
		p.kill()
		if p.t.Failed() {
			p.t.Log(log)
		}
	})
	log.Await(p.t, `acp: listening`)
	p.boot = wire.ChallengeAnswer{}
	p.call(wire.ChallengePath, wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: p.Identity.PodName, UID: podUID}}, &p.boot)
}

func (p *pod) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *pod) addr() string { return p.said(`acp: listening"? addr=(\S+)`) }

// said waits for what this boot says.
func (p *pod) said(pattern string) string {
	p.mu.Lock()
	log := p.log
	p.mu.Unlock()
	return log.Await(p.t, pattern)
}

// call sends one authenticated POST.
func (p *pod) call(target string, body, into any) {
	p.t.Helper()
	encoded, err := wire.Encode(body)
	require.NoError(p.t, err)
	r, signed, err := p.Sign(p.t.Context(), http.MethodPost, "https://"+p.said(`delivery: listening"? addr=(\S+)`), target, p.boot.Boot, encoded)
	require.NoError(p.t, err)
	status, got, err := p.Ask(&http.Transport{DisableKeepAlives: true, TLSClientConfig: pinned.Client(p.Keys)}, r, signed)
	require.NoError(p.t, err)
	require.Less(p.t, status, 300, "%s", got)
	if into != nil {
		require.NoError(p.t, wire.DecodeAnswer(got, into))
	}
}

// deliver gives the agent a goal, and returns the run as the API server has it while it works.
func (p *pod) deliver(name string, directives ...string) *hearthv1.AgentRun {
	p.t.Helper()
	uid := name + "-uid"
	p.call(wire.RunsPath, wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: name, UID: uid}, Attempt: 1,
		Target: wire.Target{Name: p.Identity.PodName, UID: podUID}, Journal: p.boot.Journal, Goal: strings.Join(directives, " ;; "),
	}, nil)
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(uid)}}
	run.Spec.AgentRef.Name, run.Spec.Delivery = "reviewer", &hearthv1.DeliverySpec{Port: 4100}
	run.Status.Phase, run.Status.PodName, run.Status.PodUID = hearthv1.PhaseRunning, p.Identity.PodName, podUID
	run.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 1, PodName: p.Identity.PodName, PodUID: podUID}
	return run
}

// recorded is a run with its record.
func recorded(run *hearthv1.AgentRun) Change {
	ended, now := run.DeepCopy(), metav1.NowMicro()
	ended.Status.Phase, ended.Status.CompletionTime = hearthv1.PhaseSucceeded, &now
	return Change{Run: ended}
}

func (p *pod) Judge(err error) error { return err }

func (p *pod) Check(context.Context, forward.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *pod) is(state error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
}

// through is a client whose connections can be cut.
func (p *pod) through() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr())
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			p.conns = append(p.conns, conn)
		}
		return conn, err
	}}}
}

// connected waits until so many connections were made since the last cut.
func (p *pod) connected(n int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.conns) >= n
	}, patience, 10*time.Millisecond)
}

// cut breaks every connection there is.
func (p *pod) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *pod) DialPod(ctx context.Context, _ forward.Pod, access forward.Access) (*websocket.Conn, string, error) {
	key := viewKey
	if access == forward.Steer {
		key = steerKey
	}
	conn, err := forward.DialACP(ctx, "ws://pod/acp", key, p.through())
	return conn, "", err
}

func (p *pod) Get(ctx context.Context, _ forward.Pod, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pod"+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(forward.HeaderKey, viewKey)
	return p.through().Do(r)
}

func (p *pod) Log(context.Context, forward.Pod) (io.ReadCloser, error) {
	return nil, errors.New("none")
}

// watcher is somebody who follows a run.
type watcher struct {
	t       *testing.T
	out     *process.Output
	changes chan Change
	ended   chan struct{}
	run     *hearthv1.AgentRun
	err     error
	cancel  context.CancelFunc
}

func watch(t *testing.T, p Endpoint, run *hearthv1.AgentRun, change func(*Follower)) *watcher {
	t.Helper()
	w := &watcher{t: t, out: process.NewOutput(), changes: make(chan Change), ended: make(chan struct{})}
	f := &Follower{Endpoint: p, Access: forward.Watch, Screen: page{Writer: w.out}, View: view.Config{}, RetryFor: patience, Changes: w.changes}
	if change != nil {
		change(f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go func() {
		defer close(w.ended)
		w.run, w.err = f.Follow(ctx, run)
	}()
	t.Cleanup(func() { cancel(); <-w.ended })
	return w
}

func (w *watcher) see(pattern string) { w.t.Helper(); w.out.Await(w.t, pattern) }

func (w *watcher) tell(c Change) {
	w.t.Helper()
	select {
	case w.changes <- c:
	case <-w.ended:
		require.Fail(w.t, "it has ended", "%v\n%s", w.err, w.out)
	case <-time.After(patience):
		require.Fail(w.t, "it does not listen", w.out.String())
	}
}

func (w *watcher) end() error {
	w.t.Helper()
	select {
	case <-w.ended:
		return w.err
	case <-time.After(patience):
		require.Fail(w.t, "it does not end", w.out.String())
		return nil
	}
}

// said is what was shown but for the lines of our own about the connection.
func (w *watcher) said() string {
	var out []string
	for line := range strings.Lines(w.out.String()) {
		if !strings.HasPrefix(line, "── ") || strings.HasPrefix(line, "── run ") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// gate is a file that an agent waits for.
type gate struct {
	t    *testing.T
	path string
}

func newGate(t *testing.T) gate {
	t.Helper()
	return gate{t, filepath.Join(t.TempDir(), "gate")}
}

func (g gate) wait() string { return "wait: " + g.path }
func (g gate) open()        { g.t.Helper(); require.NoError(g.t, os.WriteFile(g.path, nil, 0o600)) }
