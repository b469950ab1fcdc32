package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/kontext"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// olderEnviron is the environment of a Pod of the older contract's controller: no downward API, no variable of ours but where to
// write and, in a test, where to listen.
func (p *place) olderEnviron() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "KONTEXT_DELIVERY_TOKEN=" + token, "KONTEXT_GOAL=Stand by.", "KONTEXT_AGENT_NAME=reviewer",
		"HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_METRICS_LISTEN=127.0.0.1:0", "HEARTH_KONTEXT_LISTEN=127.0.0.1:0", "HEARTH_DATA_DIR=" + p.Dir,
		"AGENT_EFFECTS_FILE=" + p.effects, "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
	}, p.env...)
}

func newOlderPlace(t *testing.T) *place {
	p := newPlace(t)
	p.older = true
	return p
}

// readyOlder boots a harness and waits until port 4000 is open.
func (p *place) readyOlder(args ...string) *booted {
	p.t.Helper()
	b := p.start(args...)
	b.log.Await(p.t, `acp: listening`)
	return b
}

// ended is how a delivery ended for that controller.
type ended struct {
	status int
	result kontext.Result
	body   string
	again  error // the connection broke: it comes again
}

// post is a delivery as that controller makes it, and checks it as that controller does: signature first.
func (b *booted) post(ctx context.Context, run, goal string) ended {
	body, err := wire.Encode(kontext.Request{
		APIVersion: kontext.APIVersion, Run: wire.RunRef{Namespace: "team", Name: "review-" + run, UID: run},
		Target: wire.Target{Name: b.Identity.PodName, UID: podUID}, Goal: goal,
	})
	require.NoError(b.t, err)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.delivery()+kontext.Path, bytes.NewReader(body))
	require.NoError(b.t, err)
	r.Host = b.Identity.PodName
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set(kontext.HeaderChallenge, "a-challenge")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return ended{again: err}
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(response.Body, kontext.MaxResultBytes+1))
	require.NoError(b.t, err)
	assert.LessOrEqual(b.t, len(got), kontext.MaxResultBytes)
	assert.Equal(b.t, kontext.Sign([]byte(token), "a-challenge", run, got), response.Header.Get(kontext.HeaderSignature), "%s", got)
	e := ended{status: response.StatusCode, body: string(got)}
	if e.status == http.StatusOK {
		require.NoError(b.t, wire.DecodeAnswer(got, &e.result), "%s", got)
	}
	return e
}

// posted is a delivery whose caller waits elsewhere.
func (b *booted) posted(run, goal string) (end chan ended, leave context.CancelFunc) {
	ctx, leave := context.WithCancel(b.t.Context())
	b.t.Cleanup(leave)
	end = make(chan ended, 1)
	go func() { end <- b.post(ctx, run, goal) }()
	return end, leave
}

// SPEC.md, The older contract: the real binary in a Pod of that controller.
func TestTheOlderContractIsServed(t *testing.T) {
	p := newOlderPlace(t)
	b := p.readyOlder()
	goal := "say: looks good ;; env: KONTEXT_DELIVERY_TOKEN ;; env: KONTEXT_AGENT_NAME ;; usage: 3 4"
	first := b.post(t.Context(), "run", goal)
	require.Equal(t, kontext.Succeeded, first.result.Outcome, "%+v", first)
	assert.Contains(t, first.body, "looks good")
	assert.Contains(t, first.body, "reviewer")
	assert.NotContains(t, first.body, token)
	assert.Equal(t, int64(3), *first.result.Usage.InputTokens)
	assert.Equal(t, first, b.post(t.Context(), "run", goal), "from the journal")
	assert.Equal(t, http.StatusConflict, b.post(t.Context(), "run", "say: something else").status)
	assert.Equal(t, 1, p.effectsOf(goal))

	assert.Equal(t, 1, strings.Count(b.log.String(), "delivery: listening"))
	assert.Contains(t, b.log.String(), "contract=kontext.dev/delivery/v1alpha1")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.delivery()+wire.ChallengePath, nil)
	require.NoError(t, err)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusNotFound, response.StatusCode, "our own contract is off")

	long := b.post(t.Context(), "long", "huge: 100000")
	assert.True(t, long.result.Truncation != nil && long.result.Truncation.OutputTruncated, "%+v", long)
}

// Rows 15, 16, 17 for the older contract: SIGKILL with one run finished, one running and one that waits.
func TestAKilledHarnessAnswersTheOlderContractFromItsJournal(t *testing.T) {
	p := newOlderPlace(t)
	b := p.readyOlder()
	finished := b.post(t.Context(), "finished", "say: kept")
	require.Equal(t, kontext.Succeeded, finished.result.Outcome)
	gate := filepath.Join(t.TempDir(), "gate")
	running := "touch: " + gate + " ;; mute:"
	runs, _ := b.posted("running", running)
	appears(t, gate)
	ends := map[string]chan ended{} // one of them waits, for the other there is no room
	ends["one"], _ = b.posted("one", "say: one")
	ends["other"], _ = b.posted("other", "say: other")
	waiting, busy := "one", "other"
	select {
	case e := <-ends[busy]:
		require.Error(t, e.again)
	case e := <-ends[waiting]:
		require.Error(t, e.again)
		waiting, busy = busy, waiting
	}
	b.kill()
	require.Error(t, (<-runs).again)
	require.Error(t, (<-ends[waiting]).again)

	b = p.readyOlder()
	assert.Equal(t, finished, b.post(t.Context(), "finished", "say: kept"), "row 17")
	interrupted := b.post(t.Context(), "running", running)
	assert.Equal(t, kontext.Failed, interrupted.result.Outcome, "row 16")
	assert.Equal(t, "Interrupted", interrupted.result.Error.Code)
	assert.Zero(t, p.effectsOf("say: "+waiting), "row 15: its caller is gone")
	assert.Equal(t, kontext.Succeeded, b.post(t.Context(), waiting, "say: "+waiting).result.Outcome)
	for goal, times := range map[string]int{"say: kept": 1, running: 1, "say: " + waiting: 1, "say: " + busy: 0} {
		assert.Equal(t, times, p.effectsOf(goal), goal)
	}
}

// appears waits until an agent has made a file.
func appears(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, patience, time.Millisecond)
}

// Row 33 for the older contract: whose last caller leaves is cancelled, and who comes again is told so.
func TestACallerThatLeavesCancelsItsTurn(t *testing.T) {
	p := newOlderPlace(t)
	b := p.readyOlder()
	gate := filepath.Join(t.TempDir(), "gate")
	goal := "touch: " + gate + " ;; mute:"
	end, leave := b.posted("run", goal)
	appears(t, gate)
	leave()
	require.Error(t, (<-end).again)
	b.log.Await(t, "nobody waits for the run any more: stopped")
	assert.Equal(t, "Cancelled", b.post(t.Context(), "run", goal).result.Error.Code)
	assert.Equal(t, 1, p.effectsOf(goal))
}

// Row 38 for the older contract: what runs is answered, and the harness does not wait for a call that this contract has not.
func TestSIGTERMAnswersTheOlderContract(t *testing.T) {
	p := newOlderPlace(t)
	b := p.readyOlder()
	gate := filepath.Join(t.TempDir(), "gate")
	begun := filepath.Join(t.TempDir(), "begun")
	end, _ := b.posted("run", "touch: "+begun+" ;; wait: "+gate+" ;; say: in time")
	appears(t, begun)
	b.signal(syscall.SIGTERM)
	b.log.Await(t, "draining")
	require.Error(t, b.post(t.Context(), "more", "say: more").again)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, kontext.Succeeded, (<-end).result.Outcome)
	assert.Equal(t, 0, b.code(), b.log.String())
	assert.NotContains(t, b.log.String(), "not handed over")
	assert.Zero(t, p.effectsOf("say: more"))
}

// While no agent answers, nobody gets an answer that would end its run.
func TestWithoutAnAgentTheOlderContractsCallersComeAgain(t *testing.T) {
	p := newOlderPlace(t)
	p.env = []string{"AGENT_START=mute"}
	b := p.start("--start-timeout=2s") // and three of them until it gives up
	b.log.Await(t, "no answer within 2s")
	require.Error(t, b.post(t.Context(), "run", "say: never").again)
	assert.NotContains(t, b.log.String(), "acp: listening")
}

func TestTheOlderContractsBadInputGetsOneClearMessage(t *testing.T) {
	for name, c := range map[string]struct{ env, says string }{
		"short token": {"KONTEXT_DELIVERY_TOKEN=short", "KONTEXT_DELIVERY_TOKEN: expected at least 32 bytes, got 5"},
		"empty token": {"KONTEXT_DELIVERY_TOKEN=", "KONTEXT_DELIVERY_TOKEN: expected at least 32 bytes, got 0"},
		"no address":  {"HEARTH_KONTEXT_LISTEN=nowhere:x", "delivery: listen on nowhere:x"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newOlderPlace(t)
			p.env = withEnv(nil, []string{c.env})
			b := p.start()
			assert.Equal(t, 1, b.code())
			assert.Contains(t, b.log.String(), c.says)
		})
	}
}
