package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
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

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute // for what comes when it comes

var testIdentity = wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-uid-1"}

// actor is a runner whose runs end when the test says so.
type actor struct {
	mu    sync.Mutex
	info  wire.AgentInfo
	ran   []Work
	ends  map[string]chan wire.Envelope
	began chan string // the UID of each run that started

	before func(ctx context.Context, w Work) bool // runs before start; false: do not start
}

func newActor() *actor {
	return &actor{
		info: wire.AgentInfo{Name: "scripted", Version: "1", State: wire.AgentReady},
		ends: map[string]chan wire.Envelope{}, began: make(chan string, 100),
	}
}

func (a *actor) Agent() wire.AgentInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.info
}

func (a *actor) set(s wire.AgentState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.info.State = s
}

func (a *actor) end(uid string) chan wire.Envelope {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ends[uid] == nil {
		a.ends[uid] = make(chan wire.Envelope, 1)
	}
	return a.ends[uid]
}

func (a *actor) finish(uid, text string) { a.end(uid) <- succeeded(text) }

func (a *actor) work() []Work {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Work{}, a.ran...)
}

func (a *actor) Run(ctx context.Context, w Work, start func(string) error) wire.Envelope {
	if a.before != nil && !a.before(ctx, w) {
		return wire.Envelope{}
	}
	if err := start("session-" + w.Run.UID); err != nil {
		return wire.Envelope{}
	}
	a.mu.Lock()
	a.ran = append(a.ran, w)
	a.mu.Unlock()
	a.began <- w.Run.UID
	select {
	case e := <-a.end(w.Run.UID):
		return e
	case <-ctx.Done():
		return wire.Envelope{Outcome: wire.OutcomeCancelled, Reason: wire.ReasonCancelled, Message: context.Cause(ctx).Error()}
	}
}

func succeeded(text string) wire.Envelope {
	return wire.Envelope{Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted, Output: &wire.Output{MediaType: "text/plain", Value: text}}
}

// house is a harness without an agent process and without a network.
type house struct {
	t       testing.TB
	dir     string
	config  Config
	actor   *actor
	journal *journal.Journal
	server  *Server
	keys    challenge.Keys
	log     *lockedBuilder
	full    atomic.Bool            // every journal write finds the disk full
	stall   atomic.Pointer[func()] // called in every journal write
	after   atomic.Pointer[string] // the write after which the harness panics, once
}

func build(t testing.TB, edit ...func(*Config)) *house {
	t.Helper()
	parent := "/dev/shm" // a sync costs nothing in memory; what the disk does is the journal's test
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "hearth-server-") //nolint:usetesting // t.TempDir is on a disk
	require.NoError(t, err)
	keys, err := challenge.Derive([]byte(strings.Repeat("k", challenge.Length)), testIdentity.PodUID)
	require.NoError(t, err)
	h := &house{t: t, dir: dir, keys: keys, actor: newActor(), log: &lockedBuilder{}}
	h.config = Config{Identity: testIdentity, Keys: keys, Concurrency: 1, Queue: 1, Version: "test", Now: time.Now, Log: h.log.logger()}
	for _, e := range edit {
		e(&h.config)
	}
	h.boot()
	t.Cleanup(func() {
		h.stop()
		assert.NoError(t, os.RemoveAll(dir))
		assert.NotContains(t, h.log.String(), "Review", "a goal never reaches the log (I8)")
	})
	return h
}

func (h *house) boot() {
	h.t.Helper()
	var err error
	h.journal, err = journal.Open(journal.Config{Dir: h.dir, Now: h.config.Now, Log: h.config.Log, ReserveBytes: 4096, BeforeWrite: h.disk, AfterWrite: h.written})
	require.NoError(h.t, err)
	h.config.Journal, h.config.Runner = h.journal, h.actor
	h.server, err = New(h.config)
	require.NoError(h.t, err)
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

func (h *house) written(write string) {
	if name := h.after.Load(); name != nil && *name == write {
		h.after.Store(nil)
		panic("after a write")
	}
}

func (h *house) stop() {
	h.server.Close()
	assert.NoError(h.t, h.journal.Close())
}

// crash ends the boot as SIGKILL would: nothing that happens from here on reaches the disk. Then the next boot begins.
func (h *house) crash() {
	assert.NoError(h.t, h.journal.Close())
	h.server.Close()
	h.boot()
}

// call is one request on its way; a test spoils parts of it.
type call struct {
	method, target, host, boot, media, challenge string
	body                                         []byte
	header                                       http.Header
	spoilProof, chunked                          bool
}

type answer struct {
	status int
	header http.Header
	body   []byte
	signed bool
}

func (a answer) problem(t testing.TB) wire.Problem {
	t.Helper()
	var p wire.Problem
	require.NoError(t, wire.DecodeAnswer(a.body, &p), "%s", a.body)
	assert.Equal(t, wire.ProblemMediaType, a.header.Get("Content-Type"))
	assert.Equal(t, a.status, p.Status)
	assert.Equal(t, p.Code.Status(), p.Status)
	return p
}

func (a answer) attempt(t *testing.T) wire.Attempt {
	t.Helper()
	var out wire.Attempt
	require.NoError(t, wire.DecodeAnswer(a.body, &out), "%s", a.body)
	return out
}

func (h *house) call(method, target string, body any) call {
	h.t.Helper()
	nonce, err := challenge.New(rand.Reader)
	require.NoError(h.t, err)
	c := call{method: method, target: target, host: testIdentity.PodName, boot: h.server.Boot(), challenge: nonce, header: http.Header{}}
	if body != nil {
		c.media = jsonMediaType
		c.body, err = wire.Encode(body)
		require.NoError(h.t, err)
	}
	if target == wire.ChallengePath {
		c.boot = ""
	}
	return c
}

func (h *house) request(c call) (*http.Request, challenge.Request) {
	asked := challenge.Request{
		Method: c.method, Target: c.target, PodName: testIdentity.PodName, PodUID: testIdentity.PodUID,
		Boot: c.boot, Challenge: c.challenge, Body: c.body,
	}
	r := httptest.NewRequestWithContext(h.t.Context(), c.method, c.target, bytes.NewReader(c.body))
	r.Host = c.host
	r.Header = c.header.Clone()
	r.Header.Set(wire.HeaderChallenge, c.challenge)
	proof := h.keys.Proof(asked)
	if c.spoilProof {
		proof = strings.Repeat("A", len(proof))
	}
	r.Header.Set(wire.HeaderProof, proof)
	if c.boot != "" {
		r.Header.Set(wire.HeaderBoot, c.boot)
	}
	if c.media != "" {
		r.Header.Set("Content-Type", c.media)
	}
	if c.chunked {
		r.ContentLength = -1
	}
	return r, asked
}

// send answers and verifies the answer's MAC whenever the challenge was well-formed.
func (h *house) send(c call) answer {
	h.t.Helper()
	r, asked := h.request(c)
	w := httptest.NewRecorder()
	h.server.Handler().ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	a.signed = h.keys.VerifyAnswer(asked, a.status, a.body, w.Header().Get(wire.HeaderAnswer))
	assert.Equal(h.t, challenge.Valid(c.challenge), a.signed, "%s %s: %d %s", c.method, c.target, a.status, a.body)
	return a
}

func (h *house) get(target string) answer {
	h.t.Helper()
	return h.send(h.call(http.MethodGet, target, nil))
}

func (h *house) delivery(run string, attempt int64) wire.DeliveryRequest {
	return wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: "review-" + run, UID: run}, Attempt: attempt,
		Target: wire.Target{Name: testIdentity.PodName, UID: testIdentity.PodUID}, Journal: h.journal.ID(), Goal: "Review " + run + ".",
	}
}

func (h *house) deliver(r wire.DeliveryRequest) answer {
	h.t.Helper()
	return h.send(h.call(http.MethodPost, wire.RunsPath, r))
}

// running delivers an attempt and waits until the agent has its goal.
func (h *house) running(run string) {
	h.t.Helper()
	require.Equal(h.t, http.StatusAccepted, h.deliver(h.delivery(run, 1)).status)
	require.Equal(h.t, run, <-h.actor.began)
}

// until waits for a state of the journal without polling.
func (h *house) until(what func() bool) {
	h.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		changed := h.journal.Changed()
		if what() {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			require.Fail(h.t, "the journal never got there")
		}
	}
}

func (h *house) state(run string, attempt int64) wire.State {
	e, err := h.journal.Get(journal.Key{RunUID: run, Attempt: attempt})
	if err != nil {
		return ""
	}
	return e.State
}

func (h *house) untilState(run string, s wire.State) {
	h.t.Helper()
	h.until(func() bool { return h.state(run, 1) == s })
}

func at(run string) string { return wire.RunsPath + "/" + run + "?attempt=1" }
func recordOf(run string) string {
	return wire.RunsPath + "/" + run + wire.RecordedSuffix + "?attempt=1"
}
