package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func serve(h *house, r *http.Request) answer {
	w := httptest.NewRecorder()
	h.server.Handler().ServeHTTP(w, r)
	return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

func TestTheChallengeSaysWhoAnswers(t *testing.T) {
	h := build(t)
	ask := wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: testIdentity.PodName, UID: testIdentity.PodUID}}
	a := h.send(h.call(http.MethodPost, wire.ChallengePath, ask))
	require.Equal(t, http.StatusOK, a.status)
	var got wire.ChallengeAnswer
	require.NoError(t, wire.DecodeAnswer(a.body, &got))
	assert.Equal(t, wire.ChallengeAnswer{
		APIVersion: wire.APIVersion, Identity: testIdentity, Boot: h.server.Boot(), Journal: h.journal.ID(),
		Harness: wire.HarnessInfo{Version: "test"}, Agent: h.actor.Agent(), Capacity: wire.Capacity{Concurrency: 1, Queue: 1},
		Versions: []string{wire.APIVersion},
	}, got)

	ask.Target.UID = "former-pod"
	assert.Equal(t, wire.CodeMisdirected, h.send(h.call(http.MethodPost, wire.ChallengePath, ask)).problem(t).Code)
	wrongMedia := h.call(http.MethodPost, wire.ChallengePath, ask)
	wrongMedia.media = ""
	assert.Equal(t, wire.CodeUnsupportedMedia, h.send(wrongMedia).problem(t).Code)
	withPort := h.call(http.MethodPost, wire.ChallengePath, wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: testIdentity.PodName, UID: testIdentity.PodUID}})
	withPort.host += ":4100"
	assert.Equal(t, http.StatusOK, h.send(withPort).status, "Host may name the port")
	versioned := h.call(http.MethodPost, wire.ChallengePath, map[string]any{"apiVersion": "hearth.dev/delivery/v2"})
	assert.Equal(t, []string{wire.APIVersion}, h.send(versioned).problem(t).Versions)
}

// SPEC.md, Challenge: every response to a well-formed challenge is signed; send verifies it.
func TestUnknownEndpointsAndMethodsAreAnsweredToo(t *testing.T) {
	h := build(t)
	for _, c := range []struct {
		method, target string
		code           wire.Code
	}{
		{http.MethodGet, "/", wire.CodeNotFound},
		{http.MethodGet, "/hearth.dev/v1alpha2/agent-runs", wire.CodeNotFound},
		{http.MethodPost, wire.RunsPath + "/a/b/c", wire.CodeNotFound},
		{http.MethodPut, wire.RunsPath, wire.CodeMethodNotAllowed},
		{http.MethodGet, wire.ChallengePath, wire.CodeMethodNotAllowed},
		{http.MethodPatch, at("run"), wire.CodeMethodNotAllowed},
	} {
		assert.Equal(t, c.code, h.send(h.call(c.method, c.target, nil)).problem(t).Code, "%s %s", c.method, c.target)
	}
	head := h.send(h.call(http.MethodHead, wire.RunsPath, nil))
	assert.Equal(t, http.StatusMethodNotAllowed, head.status)
	assert.Empty(t, head.body)
	unproven := h.call(http.MethodGet, "/nowhere", nil)
	unproven.spoilProof = true
	assert.Equal(t, wire.CodeUnauthenticated, h.send(unproven).problem(t).Code, "strangers do not learn which endpoints there are")
}

// Row 42: a panic is a signed 500, said in the log, and the process lives.
func TestAPanicInARequestIsASigned500(t *testing.T) {
	h := build(t)
	inner := h.server.handler
	h.server.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("half an answer"))
		panic("Review this secret goal")
	})
	a := h.get(wire.RunsPath)
	assert.Equal(t, wire.CodeInternal, a.problem(t).Code)
	assert.NotContains(t, string(a.body), "half")
	assert.Contains(t, h.log.String(), "panic in a request")
	h.server.handler = inner
	assert.Equal(t, http.StatusOK, h.get(wire.RunsPath).status)
}

func TestADeliveryGoesFromAcceptedToRecorded(t *testing.T) {
	h := build(t)
	a := h.deliver(h.delivery("run/1 ä", 1))
	require.Equal(t, http.StatusAccepted, a.status)
	where := a.header.Get("Location")
	assert.Equal(t, wire.RunsPath+"/run%2F1%20%C3%A4?attempt=1", where)
	got := a.attempt(t)
	assert.Equal(t, "run/1 ä", got.Run.UID)
	assert.Equal(t, wire.Digest("run/1 ä", 1, "Review run/1 ä."), got.Digest)
	assert.Equal(t, "run/1 ä", <-h.actor.began)
	assert.Equal(t, wire.StateRunning, h.get(where).attempt(t).State)
	assert.Equal(t, "session-run/1 ä", h.get(where).attempt(t).Session)

	recorded := strings.Replace(where, "?", wire.RecordedSuffix+"?", 1)
	assert.Equal(t, wire.CodeAttemptActive, h.send(h.call(http.MethodPost, recorded, nil)).problem(t).Code)
	h.actor.finish("run/1 ä", "looks good")
	h.untilState("run/1 ä", wire.StateFinished)
	got = h.get(where).attempt(t)
	require.NotNil(t, got.Envelope)
	assert.Equal(t, "looks good", got.Envelope.Output.Value)
	assert.Equal(t, wire.ResultAPIVersion, got.Envelope.APIVersion)
	for range 2 {
		a := h.send(h.call(http.MethodPost, recorded, nil))
		assert.Equal(t, http.StatusNoContent, a.status)
		assert.Empty(t, a.body)
	}
	assert.True(t, h.get(where).attempt(t).Recorded)

	unknown := h.get(at("nobody"))
	assert.Equal(t, wire.CodeUnknown, unknown.problem(t).Code)
	assert.Equal(t, h.journal.ID(), unknown.problem(t).Journal)
	assert.Equal(t, wire.CodeUnknown, h.send(h.call(http.MethodPost, recordOf("nobody"), nil)).problem(t).Code)
	require.Len(t, h.actor.work(), 1)
	assert.Equal(t, "Review run/1 ä.", h.actor.work()[0].Goal)
}

// Row 11: fifty times the same delivery at once is accepted once and runs once.
func TestTheSameDeliveryInParallelIsAcceptedOnce(t *testing.T) {
	h := build(t)
	r := h.delivery("run", 1)
	statuses := make([]int, 50)
	var all sync.WaitGroup
	for i := range statuses {
		c := h.call(http.MethodPost, wire.RunsPath, r)
		all.Go(func() { statuses[i] = h.send(c).status })
	}
	all.Wait()
	count := map[int]int{}
	for _, s := range statuses {
		count[s]++
	}
	assert.Equal(t, map[int]int{http.StatusAccepted: 1, http.StatusOK: 49}, count)
	<-h.actor.began
	assert.Len(t, h.actor.work(), 1)
}

// Rows 12, 13, 54, 55: what a second delivery of the same attempt is told.
func TestASecondDeliveryIsToldWhatIsKnown(t *testing.T) {
	h := build(t)
	h.running("run")
	other := h.delivery("run", 1)
	other.Goal = "Review something else."
	assert.Equal(t, wire.CodeDigestMismatch, h.deliver(other).problem(t).Code, "row 12")
	assert.Equal(t, wire.CodeAttemptActive, h.deliver(h.delivery("run", 2)).problem(t).Code)
	h.actor.set(wire.AgentDown)
	a := h.deliver(h.delivery("run", 1))
	assert.Equal(t, http.StatusOK, a.status, "row 55: known comes before unavailable")
	assert.Equal(t, wire.StateRunning, a.attempt(t).State)
	h.actor.set(wire.AgentReady)
	h.actor.finish("run", "done")
	h.untilState("run", wire.StateFinished)
	assert.Equal(t, "done", h.deliver(h.delivery("run", 1)).attempt(t).Envelope.Output.Value)

	require.Equal(t, http.StatusOK, h.send(h.call(http.MethodDelete, at("late"), nil)).status)
	assert.Equal(t, wire.CodeVoided, h.deliver(h.delivery("late", 1)).problem(t).Code, "row 13")
	higher := h.call(http.MethodDelete, wire.RunsPath+"/late?attempt=3", nil)
	require.Equal(t, http.StatusOK, h.send(higher).status)
	assert.Equal(t, wire.CodeSuperseded, h.deliver(h.delivery("late", 2)).problem(t).Code)

	require.Equal(t, http.StatusNoContent, h.send(h.call(http.MethodPost, recordOf("run"), nil)).status)
	h.crash()
	assert.Equal(t, http.StatusOK, h.deliver(h.delivery("run", 1)).status, "row 54: across boots")
	assert.Equal(t, wire.CodeVoided, h.deliver(h.delivery("late", 1)).problem(t).Code, "across boots")
	assert.Len(t, h.actor.work(), 1, "nothing ran twice")
}

// Row 54: once the result was dropped, its tombstone still answers.
func TestAForgottenAttemptIsGoneAndNeverRunsAgain(t *testing.T) {
	h := build(t)
	h.stop()
	var err error
	h.journal, err = journal.Open(journal.Config{Dir: h.dir, Now: h.config.Now, Keep: 1, ReserveBytes: 4096})
	require.NoError(t, err)
	h.config.Journal = h.journal
	h.server, err = New(h.config)
	require.NoError(t, err)
	for _, run := range []string{"old", "new"} {
		h.running(run)
		h.actor.finish(run, "x")
		h.untilState(run, wire.StateFinished)
		require.Equal(t, http.StatusNoContent, h.send(h.call(http.MethodPost, recordOf(run), nil)).status)
	}
	h.running("another") // what is dropped goes with the next write
	assert.Equal(t, wire.CodeForgotten, h.deliver(h.delivery("old", 1)).problem(t).Code)
	got := h.get(at("old")).attempt(t)
	assert.Equal(t, wire.StateFinished, got.State)
	assert.Nil(t, got.Envelope)
	assert.Equal(t, http.StatusOK, h.deliver(h.delivery("new", 1)).status)
}

func TestRefusalsThatPassSayWhenToComeAgain(t *testing.T) {
	h := build(t, func(c *Config) { c.Queue = 0 })
	h.running("run")
	a := h.deliver(h.delivery("more", 1))
	assert.Equal(t, http.StatusTooManyRequests, a.status)
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	assert.Equal(t, &wire.Capacity{Concurrency: 1, Running: 1}, a.problem(t).Capacity)
	h.actor.set(wire.AgentStarting)
	a = h.deliver(h.delivery("more", 1))
	assert.Equal(t, http.StatusServiceUnavailable, a.status)
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	assert.Equal(t, http.StatusNotFound, h.get(at("more")).status, "nothing journalled")
}

// A disk that stalls delays what must be durable and nothing else: a challenge, a look and the feed answer, so the link stays up.
func TestADiskThatStallsDelaysNobodyWhoOnlyAsks(t *testing.T) {
	h := build(t)
	h.running("known")
	reached, release := make(chan struct{}), make(chan struct{})
	stall := sync.OnceFunc(func() { close(reached); <-release })
	h.stall.Store(&stall)
	accepted := make(chan int, 1)
	go func() { accepted <- h.deliver(h.delivery("run", 1)).status }()
	<-reached
	answered := make(chan int)
	go func() {
		defer close(answered)
		for _, c := range []call{
			h.call(http.MethodPost, wire.ChallengePath, wire.ChallengeRequest{
				APIVersion: wire.APIVersion, Target: wire.Target{Name: testIdentity.PodName, UID: testIdentity.PodUID},
			}),
			h.call(http.MethodGet, wire.RunsPath, nil), h.call(http.MethodGet, at("known"), nil),
		} {
			answered <- h.send(c).status
		}
	}()
	for range 3 {
		select {
		case status := <-answered:
			assert.Equal(t, http.StatusOK, status)
		case <-time.After(patience):
			close(release)
			require.Fail(t, "somebody who only asks waits for the disk")
		}
	}
	assert.Empty(t, accepted)
	close(release)
	assert.Equal(t, http.StatusAccepted, <-accepted)
}

// SPEC.md, Strictness: a UID in the path is text, as one in a body. Journalled under bytes that are none, an attempt would make
// the next boot give up the whole journal.
func TestAUIDInThePathIsText(t *testing.T) {
	h := build(t)
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status)
	journal := h.journal.ID()
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		for _, uid := range []string{"%ff", "run%c3", "%ed%a0%80"} {
			a := h.send(h.call(method, at(uid), nil))
			assert.Equal(t, http.StatusBadRequest, a.status, "%s %s", method, uid)
			assert.Equal(t, wire.CodeMalformed, a.problem(t).Code)
		}
	}
	h.crash()
	assert.Equal(t, journal, h.journal.ID(), "nothing is lost")
}
