package main

import (
	"context"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
	"github.com/hearthdev/hearth/test/process"
)

const (
	patience = process.Patience
	podUID   = process.PodUID
	token    = process.Token
)

var binary string

func TestMain(m *testing.M) { process.Main(m, &binary) }

// place is where harnesses of one test boot one after the other: a Pod.
type place struct {
	process.Pod
	t          *testing.T
	effects    string
	command    []string
	env        []string // more of it
	credential *syscall.Credential
	older      bool             // a Pod of the older contract's controller
	session    wire.SessionMode // of what is delivered
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{Pod: process.NewPod(t), t: t, effects: filepath.Join(t.TempDir(), "effects"), command: []string{agenttest.Build(t)}}
}

// environ is a Pod's environment, and nothing of this test's.
func (p *place) environ() []string {
	if p.older {
		return p.olderEnviron()
	}
	return append(append(p.Environ(), "AGENT_EFFECTS_FILE="+p.effects), p.env...)
}

// booted is one harness process.
type booted struct {
	*place
	cmd  *exec.Cmd
	log  *process.Output // stderr, and stdout of serve
	out  *process.Output // stdout of run
	exit chan struct{}   // closed when it ended
	err  error           // how, after exit
	boot wire.ChallengeAnswer

	headers http.Header // of each call, beside the contract's
	// closed stand in for stdout and stderr: pipes that nobody reads any more.
	closed map[string]*os.File
}

func (p *place) start(args ...string) *booted {
	p.t.Helper()
	log := process.NewOutput()
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
	b.log.Await(p.t, `acp: listening`)
	b.challenge()
	return b
}

func (b *booted) acp() string { b.t.Helper(); return b.log.Await(b.t, `acp: listening"? addr=(\S+)`) }
func (b *booted) delivery() string {
	b.t.Helper()
	return b.log.Await(b.t, `delivery: listening"? addr=(\S+)`)
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
	r, signed, err := b.Sign(b.t.Context(), method, "https://"+b.delivery(), target, b.boot.Boot, encoded)
	require.NoError(b.t, err)
	if method == http.MethodGet {
		r.Header.Set("Prefer", "wait=30")
	}
	maps.Copy(r.Header, b.headers)
	status, got, err := b.Ask(&http.Transport{DisableKeepAlives: true, TLSClientConfig: pinned.Client(b.Keys)}, r, signed)
	require.NoError(b.t, err, b.log.String())
	if into != nil {
		require.NoError(b.t, wire.DecodeAnswer(got, into), "%s", got)
	}
	return status
}

func (b *booted) challenge() {
	b.t.Helper()
	ask := wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: b.Identity.PodName, UID: b.Identity.PodUID}}
	require.Equal(b.t, http.StatusOK, b.call(http.MethodPost, wire.ChallengePath, ask, &b.boot))
}

// deliver posts a goal without waiting for its end.
func (b *booted) deliver(run, goal string, into any) int {
	b.t.Helper()
	return b.call(http.MethodPost, wire.RunsPath, wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: "review-" + run, UID: run}, Attempt: 1,
		Target: wire.Target{Name: b.Identity.PodName, UID: b.Identity.PodUID}, Journal: b.boot.Journal, Goal: goal, Session: b.session,
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
