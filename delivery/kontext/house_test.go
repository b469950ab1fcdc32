package kontext

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hostname = "run-reviewer-1"
	token    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ"
	patience = time.Minute // for what comes when it comes
)

// actor is a runner whose runs end when the test says so.
type actor struct {
	mu     sync.Mutex
	state  wire.AgentState
	ran    []server.Work
	before func(context.Context) // called before a start
	began  chan string           // the UID of each run that started
	end    chan wire.Envelope    // how the run that goes on ends
	stop   chan error            // why a run was cancelled
}

func newActor() *actor {
	return &actor{state: wire.AgentReady, began: make(chan string, 100), end: make(chan wire.Envelope), stop: make(chan error, 100)}
}

func (a *actor) Agent() wire.AgentInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return wire.AgentInfo{State: a.state}
}

func (a *actor) set(s wire.AgentState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = s
}

func (a *actor) starts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ran)
}

func (a *actor) Run(ctx context.Context, w server.Work, start func(string) error) wire.Envelope {
	if a.before != nil {
		a.before(ctx)
	}
	if err := start("s"); err != nil {
		return wire.Envelope{}
	}
	a.mu.Lock()
	a.ran = append(a.ran, w)
	a.mu.Unlock()
	a.began <- w.Run.UID
	select {
	case e := <-a.end:
		return e
	case <-ctx.Done():
		a.stop <- context.Cause(ctx)
		return wire.Envelope{Outcome: wire.OutcomeCancelled, Reason: wire.ReasonCancelled, Message: context.Cause(ctx).Error()}
	}
}

func said(text string) wire.Envelope {
	return wire.Envelope{Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted, Output: &wire.Output{MediaType: "text/plain", Value: text}}
}

// house is a harness of the older contract without an agent process, on a real listener.
type house struct {
	t       *testing.T
	dir     string
	config  Config
	actor   *actor
	journal *journal.Journal
	server  *Server
	address string
	client  *http.Client
	log     *logged
	full    atomic.Bool            // every journal write finds the disk full
	stall   atomic.Pointer[func()] // called in every journal write
	keep    int
	stopped context.CancelFunc
	served  chan error
}

type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func build(t *testing.T, edit ...func(*house)) *house {
	t.Helper()
	parent := "/dev/shm" // a sync costs nothing in memory; what the disk does is the journal's test
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "hearth-kontext-") //nolint:usetesting // t.TempDir is on a disk
	require.NoError(t, err)
	h := &house{t: t, dir: dir, actor: newActor(), log: &logged{}}
	h.config = Config{
		Hostname: hostname, Token: []byte(token), Concurrency: 1, Queue: 1, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, e := range edit {
		e(h)
	}
	// As that controller's client: no proxy, no redirect, connections kept.
	h.client = &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 2},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	h.boot()
	t.Cleanup(func() {
		h.stop()
		h.client.CloseIdleConnections()
		assert.NoError(t, os.RemoveAll(dir))
		assert.NotContains(t, h.log.String(), "Review", "a goal never reaches the log (I8)")
		assert.NotContains(t, h.log.String(), token, "nor does a secret")
	})
	return h
}

func (h *house) boot() {
	h.t.Helper()
	var err error
	h.journal, err = journal.Open(journal.Config{Dir: h.dir, Now: h.config.Now, Log: h.config.Log, ReserveBytes: 4096, Keep: h.keep, BeforeWrite: h.disk})
	require.NoError(h.t, err)
	h.config.Journal, h.config.Runner = h.journal, h.actor
	h.server, err = New(h.config)
	require.NoError(h.t, err)
	h.server.pace = pace{header: time.Hour, read: time.Hour} // who has to go has to be thrown out
	listener, err := new(net.ListenConfig).Listen(h.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(h.t, err)
	h.address = listener.Addr().String()
	var ctx context.Context
	ctx, h.stopped = context.WithCancel(context.WithoutCancel(h.t.Context()))
	h.served = make(chan error, 1)
	go func() { h.served <- h.server.Serve(ctx, listener) }()
}

func (h *house) disk(string) error {
	if stall := h.stall.Load(); stall != nil {
		(*stall)()
	}
	if h.full.Load() {
		return syscall.ENOSPC
	}
	return nil
}

func (h *house) stop() {
	h.server.Close()
	h.stopped()
	assert.NoError(h.t, <-h.served)
	assert.NoError(h.t, h.journal.Close())
}

// crash ends the boot as SIGKILL would: nothing that happens from here on reaches the disk. Then the next boot begins.
func (h *house) crash() {
	assert.NoError(h.t, h.journal.Close())
	h.server.Close()
	h.stopped()
	assert.NoError(h.t, <-h.served)
	h.boot()
}

// answer is what that controller makes of a delivery.
type answer struct {
	status int
	header http.Header
	body   []byte
	closed bool  // the connection ends with the answer
	again  error // the connection broke: it comes again
}

func (a answer) result(t *testing.T) Result {
	t.Helper()
	require.NoError(t, a.again)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	assert.Equal(t, "application/json", a.header.Get("Content-Type"))
	return accepted(t, a.body)
}

func (a answer) text(t *testing.T) string {
	t.Helper()
	r := a.result(t)
	require.NotNil(t, r.Output, "%s", a.body)
	var text string
	require.NoError(t, wire.DecodeAnswer(r.Output.Value, &text))
	return text
}

func (a answer) code(t *testing.T) wire.Code {
	t.Helper()
	require.NoError(t, a.again)
	var p wire.Problem
	require.NoError(t, wire.DecodeAnswer(a.body, &p), "%s", a.body)
	assert.Equal(t, a.status, p.Status)
	assert.Equal(t, wire.ProblemMediaType, a.header.Get("Content-Type"))
	assert.LessOrEqual(t, len(a.body), MaxResultBytes)
	return p.Code
}

func requestOf(uid, goal string) Request {
	return Request{
		APIVersion: APIVersion, Run: wire.RunRef{Name: "review-" + uid, Namespace: "team", UID: uid},
		Target: wire.Target{Name: hostname, UID: "pod-uid"}, Goal: goal,
	}
}

// send is one delivery, verified as that controller does; a test spoils the request.
func (h *house) send(ctx context.Context, body []byte, spoil ...func(*http.Request)) answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.address+Path, bytes.NewReader(body))
	require.NoError(h.t, err)
	r.Host = hostname
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set(HeaderChallenge, "challenge-1")
	for _, s := range spoil {
		s(r)
	}
	response, err := h.client.Do(r)
	if err != nil {
		return answer{again: err}
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: got, closed: response.Close, again: err}
}

func (h *house) deliver(ctx context.Context, uid, goal string) answer {
	body, err := wire.Encode(requestOf(uid, goal))
	require.NoError(h.t, err)
	a := h.send(ctx, body)
	if a.again == nil {
		assert.Equal(h.t, Sign([]byte(token), "challenge-1", uid, a.body), a.header.Get(HeaderSignature), "%d %s", a.status, a.body)
	}
	return a
}

// call delivers without waiting for the answer; cancel is the caller who leaves.
func (h *house) call(uid, goal string) (answers chan answer, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(h.t.Context())
	answers = make(chan answer, 1)
	go func() { answers <- h.deliver(ctx, uid, goal) }()
	return answers, cancel
}

// until waits for a state of the journal without polling.
func (h *house) until(uid string, attempt int64, s wire.State) journal.Entry {
	h.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		changed := h.journal.Changed()
		if e, err := h.journal.Get(journal.Key{RunUID: uid, Attempt: attempt}); err == nil && e.State == s {
			return e
		}
		select {
		case <-changed:
		case <-timeout.C:
			require.Fail(h.t, "never "+string(s), h.log.String())
		}
	}
}

// begun waits until the agent has a run's goal.
func (h *house) begun(uid string) {
	h.t.Helper()
	select {
	case got := <-h.actor.began:
		require.Equal(h.t, uid, got)
	case <-time.After(patience):
		require.Fail(h.t, uid+" did not begin", h.log.String())
	}
}
