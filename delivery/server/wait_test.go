package server

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func (h *house) changes(since int64, wait string) wire.Changes {
	h.t.Helper()
	c := h.call(http.MethodGet, fmt.Sprintf("%s?since=%d", wire.RunsPath, since), nil)
	if wait != "" {
		c.header.Set("Prefer", wait)
	}
	a := h.send(c)
	require.Equal(h.t, http.StatusOK, a.status, "%s", a.body)
	require.LessOrEqual(h.t, len(a.body), wire.MaxPageBytes)
	var out wire.Changes
	require.NoError(h.t, wire.DecodeAnswer(a.body, &out))
	return out
}

// SPEC.md, Endpoints: with Prefer: wait the feed is held until something changes, at most as long as asked or allowed.
func TestTheFeedIsHeldUntilSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.running("run")
		c := h.changes(0, "")
		require.Len(t, c.Runs, 1)
		assert.Equal(t, wire.StateRunning, c.Runs[0].State)
		assert.Equal(t, wire.Capacity{Concurrency: 1, Queue: 1, Running: 1}, c.Capacity)

		for wait, held := range map[string]time.Duration{
			"":                               0,
			"wait=25":                        25 * time.Second,
			"respond-async, Wait=\"7\"; a=b": 7 * time.Second,
			"wait=9999":                      wire.MaxWaitSeconds * time.Second,
			"wait=soon":                      0,
		} {
			began := time.Now()
			assert.Empty(t, h.changes(c.Revision, wait).Runs)
			assert.Equal(t, held, time.Since(began), wait)
		}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { h.actor.finish("run", "x") })
		next := h.changes(c.Revision, "wait=25")
		assert.Equal(t, 3*time.Second, time.Since(began))
		require.Len(t, next.Runs, 1)
		assert.Equal(t, wire.StateFinished, next.Runs[0].State)
		assert.Nil(t, next.Runs[0].Envelope, "states without envelopes")

		time.AfterFunc(2*time.Second, func() { h.actor.set(wire.AgentDown); h.server.AgentChanged() })
		assert.Equal(t, wire.AgentDown, h.changes(next.Revision, "wait=25").Agent.State, "the agent's state rides on the feed")
	})
}

func TestTheFeedIsPagedWithinItsLimit(t *testing.T) {
	h := build(t)
	long := fmt.Sprintf("%0120d", 0)
	const n = 1400
	for i := range n {
		r := h.delivery(fmt.Sprintf("%s-%04d", long[:100], i), 1)
		r.Run.Name, r.Run.Namespace = fmt.Sprintf("%0250d", i), fmt.Sprintf("%0250d", i)
		_, err := h.journal.Accept(r)
		require.NoError(t, err)
	}
	seen, pages := map[string]bool{}, 0
	for since := int64(0); ; pages++ {
		c := h.changes(since, "wait=25")
		for _, a := range c.Runs {
			seen[a.Run.UID] = true
		}
		since = c.Revision
		if !c.More {
			break
		}
	}
	assert.Len(t, seen, n)
	assert.Positive(t, pages, "it took more than one page")
}

func TestTooManyHeldRequestsAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		for range MaxHeld {
			c := h.call(http.MethodGet, wire.RunsPath, nil)
			c.header.Set("Prefer", "wait=30")
			go h.send(c)
		}
		synctest.Wait()
		began := time.Now()
		h.changes(h.journal.Revision(), "wait=30")
		assert.Zero(t, time.Since(began))
		time.Sleep(time.Minute)
		h.changes(h.journal.Revision(), "wait=30")
		assert.Equal(t, time.Minute+30*time.Second, time.Since(began), "and are held again once others left")
	})
}

// SPEC.md, Endpoints: Prefer: wait on a delivery makes it the plain synchronous contract.
func TestADeliveryMayWaitForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		deliver := func(run string, wait int) answer {
			c := h.call(http.MethodPost, wire.RunsPath, h.delivery(run, 1))
			c.header.Set("Prefer", fmt.Sprintf("wait=%d", wait))
			return h.send(c)
		}
		time.AfterFunc(2*time.Second, func() { h.actor.finish("quick", "here") })
		began := time.Now()
		a := deliver("quick", 10)
		assert.Equal(t, http.StatusOK, a.status)
		assert.Equal(t, "here", a.attempt(t).Envelope.Output.Value)
		assert.Equal(t, 2*time.Second, time.Since(began))

		began = time.Now()
		a = deliver("slow", 10)
		assert.Equal(t, http.StatusAccepted, a.status)
		assert.Equal(t, wire.StateRunning, a.attempt(t).State)
		assert.Equal(t, 10*time.Second, time.Since(began))
		time.AfterFunc(time.Second, func() { h.actor.finish("slow", "at last") })
		a = deliver("slow", 10)
		assert.Equal(t, http.StatusOK, a.status, "known already")
		assert.Equal(t, "at last", a.attempt(t).Envelope.Output.Value)

		assert.Equal(t, []string{"quick", "slow"}, []string{<-h.actor.began, <-h.actor.began})
		h.running("blocker")
		time.AfterFunc(time.Second, func() { h.send(h.call(http.MethodDelete, at("victim"), nil)) })
		assert.Equal(t, wire.CodeVoided, deliver("victim", 10).problem(t).Code)
	})
}
