package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

const (
	patience = time.Minute // for a condition that comes when it comes
	podUID   = "pod-uid-1"
	token    = "secret-root-0123456789-0123456789-0123456789"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hearth-harness-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "harness")
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	agenttest.Remove()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// place is where harnesses of one test boot one after the other: a Pod.
type place struct {
	t            *testing.T
	dir, effects string
	keys         challenge.Keys
	pod          wire.Identity
	command      []string
	env          []string // more of it
	credential   *syscall.Credential
	older        bool             // a Pod of the older contract's controller
	session      wire.SessionMode // of what is delivered
}

func newPlace(t *testing.T) *place {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	keys, err := challenge.Derive([]byte(token), podUID)
	require.NoError(t, err)
	return &place{
		t: t, dir: t.TempDir(), effects: filepath.Join(t.TempDir(), "effects"), keys: keys, command: []string{agenttest.Build(t)},
		pod: wire.Identity{Namespace: "team", PodName: name, PodUID: podUID},
	}
}

// environ is a Pod's environment, and nothing of this test's.
func (p *place) environ() []string {
	if p.older {
		return p.olderEnviron()
	}
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "POD_NAMESPACE=" + p.pod.Namespace, "POD_NAME=" + p.pod.PodName, "POD_UID=" + p.pod.PodUID,
		envToken + "=" + token, "HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_METRICS_LISTEN=127.0.0.1:0", "HEARTH_DELIVERY_LISTEN=127.0.0.1:0", "HEARTH_DATA_DIR=" + p.dir,
		"AGENT_EFFECTS_FILE=" + p.effects, "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
	}, p.env...)
}

// booted is one harness process.
type booted struct {
	*place
	cmd  *exec.Cmd
	log  *lines        // stderr, and stdout of serve
	out  *lines        // stdout of run
	exit chan struct{} // closed when it ended
	err  error         // how, after exit
	boot wire.ChallengeAnswer

	headers http.Header // of each call, beside the contract's
	// closed stand in for stdout and stderr: pipes that nobody reads any more.
	closed map[string]*os.File
}

func (p *place) start(args ...string) *booted {
	p.t.Helper()
	log := newLines()
	return p.launch(&booted{place: p, log: log, out: log, exit: make(chan struct{})}, "serve", p.environ(), args)
}

func (p *place) launch(b *booted, command string, environ, args []string) *booted {
	p.t.Helper()
	b.cmd = exec.CommandContext(context.WithoutCancel(p.t.Context()), binary, append(append([]string{command}, args...), append([]string{"--"}, p.command...)...)...)
	b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr = environ, b.out, b.log
	if w := b.closed["stdout"]; w != nil {
		b.cmd.Stdout = w
	}
	if w := b.closed["stderr"]; w != nil {
		b.cmd.Stderr = w
	}
	b.cmd.WaitDelay = 5 * time.Second // an orphan of a killed harness may hold its stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential}
	require.NoError(p.t, b.cmd.Start())
	go func() {
		b.err = b.cmd.Wait()
		close(b.exit)
	}()
	p.t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.exit
		assert.NotContains(p.t, b.log.String(), token, "I8")
		assert.NotContains(p.t, b.log.String(), "Review", "I8")
	})
	return b
}

// ready boots a harness and waits until port 4000 is open and the challenge is answered.
func (p *place) ready(args ...string) *booted {
	p.t.Helper()
	b := p.start(args...)
	b.log.await(p.t, `acp: listening`)
	b.challenge()
	return b
}

func (b *booted) acp() string { b.t.Helper(); return b.log.await(b.t, `acp: listening"? addr=(\S+)`) }
func (b *booted) delivery() string {
	b.t.Helper()
	return b.log.await(b.t, `delivery: listening"? addr=(\S+)`)
}

// kill is SIGKILL, and waits for the end.
func (b *booted) kill() {
	b.t.Helper()
	require.NoError(b.t, b.cmd.Process.Kill())
	<-b.exit
}

func (b *booted) signal(s os.Signal) { b.t.Helper(); require.NoError(b.t, b.cmd.Process.Signal(s)) }

// code waits for the end and returns the exit code.
func (b *booted) code() int {
	b.t.Helper()
	select {
	case <-b.exit:
	case <-time.After(patience):
		require.Fail(b.t, "it does not end", b.log.String())
	}
	return b.cmd.ProcessState.ExitCode()
}

// call sends one authenticated request; the answer must verify.
func (b *booted) call(method, target string, body any, into any) int {
	b.t.Helper()
	var encoded []byte
	var err error
	if body != nil {
		encoded, err = wire.Encode(body)
		require.NoError(b.t, err)
	}
	nonce, err := challenge.New(rand.Reader)
	require.NoError(b.t, err)
	asked := challenge.Request{Method: method, Target: target, PodName: b.pod.PodName, PodUID: b.pod.PodUID, Boot: b.boot.Boot, Challenge: nonce, Body: encoded}
	if target == wire.ChallengePath {
		asked.Boot = ""
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, "https://"+b.delivery()+target, bytes.NewReader(encoded))
	require.NoError(b.t, err)
	r.Host = b.pod.PodName
	r.Header.Set(wire.HeaderChallenge, nonce)
	r.Header.Set(wire.HeaderProof, b.keys.Proof(asked))
	if method == http.MethodGet {
		r.Header.Set("Prefer", "wait=30")
	}
	maps.Copy(r.Header, b.headers)
	if asked.Boot != "" {
		r.Header.Set(wire.HeaderBoot, asked.Boot)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := (&http.Transport{DisableKeepAlives: true, TLSClientConfig: pinned.Client(b.keys)}).RoundTrip(r)
	require.NoError(b.t, err, b.log.String())
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.True(b.t, b.keys.VerifyAnswer(asked, response.StatusCode, got, response.Header.Get(wire.HeaderAnswer)))
	if into != nil {
		require.NoError(b.t, wire.DecodeAnswer(got, into), "%s", got)
	}
	return response.StatusCode
}

func (b *booted) challenge() {
	b.t.Helper()
	ask := wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: b.pod.PodName, UID: b.pod.PodUID}}
	require.Equal(b.t, http.StatusOK, b.call(http.MethodPost, wire.ChallengePath, ask, &b.boot))
}

// deliver posts a goal without waiting for its end.
func (b *booted) deliver(run, goal string, into any) int {
	b.t.Helper()
	return b.call(http.MethodPost, wire.RunsPath, wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: "review-" + run, UID: run}, Attempt: 1,
		Target: wire.Target{Name: b.pod.PodName, UID: b.pod.PodUID}, Journal: b.boot.Journal, Goal: goal, Session: b.session,
	}, into)
}

func (b *booted) attempt(run string) wire.Attempt {
	b.t.Helper()
	var a wire.Attempt
	require.Equal(b.t, http.StatusOK, b.call(http.MethodGet, wire.RunsPath+"/"+run+"?attempt=1", nil, &a))
	return a
}

// until follows the feed until an attempt is in a state, as a caller does.
func (b *booted) until(run string, state wire.State) wire.Attempt {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for since := int64(0); ; {
		if a := b.attempt(run); a.State == state {
			return a
		}
		require.True(b.t, time.Now().Before(deadline), "%s never was %s: %s", run, state, b.log)
		var c wire.Changes
		require.Equal(b.t, http.StatusOK, b.call(http.MethodGet, wire.RunsPath+"?since="+strconv.FormatInt(since, 10), nil, &c))
		since = c.Revision
	}
}

// accepted delivers a goal and waits until its attempt is in a state.
func (b *booted) accepted(run, goal string, state wire.State) {
	b.t.Helper()
	require.Equal(b.t, http.StatusAccepted, b.deliver(run, goal, nil), b.log.String())
	b.until(run, state)
}

// refuses tells whether nobody listens at an address.
func refuses(t *testing.T, address string) bool {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err != nil
}

// lines is a process's output, and waits for what is to come.
type lines struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for a pattern and returns its last match's group, or the whole of it.
func (l *lines) await(t *testing.T, pattern string) string {
	t.Helper()
	return l.awaitNth(t, pattern, 1)
}

func (l *lines) awaitNth(t *testing.T, pattern string, n int) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if found := re.FindAllStringSubmatch(l.String(), -1); len(found) >= n {
			last := found[len(found)-1]
			return last[len(last)-1]
		}
		select {
		case <-changed:
		case <-timeout:
			require.Fail(t, "it never said "+pattern, l.String())
		}
	}
}

const tick = 5 * time.Millisecond

// childrenOf are the processes that a process started.
func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	require.NoError(t, err)
	var out []string
	for _, file := range threads {
		if b, err := os.ReadFile(file); err == nil { //nolint:gosec // a file of /proc
			out = append(out, strings.Fields(string(b))...)
		}
	}
	return out
}
