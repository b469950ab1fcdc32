package server

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// P2: while one accept is being synced others are decided and wait for the next sync together; the last place is given away once, and a
// look, a refusal and a duplicate's lock wait for nobody else's disk.
func TestDeliveriesThatArriveDuringASyncShareTheNextOne(t *testing.T) {
	const places, more = 8, 4
	h := build(t, func(c *Config) { c.Concurrency, c.Queue = 1, places-1 })
	gate, reached := make(chan struct{}), make(chan struct{}, places+more)
	stall := func() { reached <- struct{}{}; <-gate }
	h.stall.Store(&stall)
	var work sync.WaitGroup
	statuses := make(chan int, places+more)
	deliver := func(run string) { work.Go(func() { statuses <- h.deliver(h.delivery(run, 1)).status }) }
	deliver("first")
	<-reached
	for i := range places - 1 + more {
		deliver("r" + strconv.Itoa(i))
	}
	for range more {
		assert.Equal(t, http.StatusTooManyRequests, <-statuses, "decided, and answered, while the disk is busy")
	}
	require.Eventually(t, func() bool { accepted, _ := h.journal.Counts(); return accepted == places }, patience, time.Millisecond)
	assert.Equal(t, wire.CodeUnknown, h.get(at("first")).problem(t).Code, "nobody is told before it is on disk")
	h.stall.Store(nil)
	close(gate)
	work.Wait()
	for range places {
		assert.Equal(t, http.StatusAccepted, <-statuses)
	}
	assert.Equal(t, "first", <-h.actor.began)
	h.untilState("first", wire.StateRunning)
	accepted, running := h.journal.Counts()
	assert.Equal(t, []int{places - 1, 1}, []int{accepted, running})
}

// SPEC.md, Drain: what was decided before a drain and journalled after it began does not stay behind as accepted.
func TestADrainVoidsWhatIsBeingAccepted(t *testing.T) {
	h := build(t)
	gate, reached := make(chan struct{}), make(chan struct{}, 1)
	stall := func() { reached <- struct{}{}; <-gate }
	h.stall.Store(&stall)
	var work sync.WaitGroup
	work.Go(func() { assert.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 1)).status) })
	<-reached
	h.stall.Store(nil)
	work.Go(func() { h.server.Drain(t.Context(), 0) })
	require.Eventually(t, h.server.draining.Load, patience, time.Millisecond)
	close(gate)
	h.untilState("run", wire.StateVoided)
	require.Equal(t, http.StatusNoContent, h.send(h.call(http.MethodPost, recordOf("run"), nil)).status)
	work.Wait()
	assert.Empty(t, h.actor.work())
}

// A lock of a run is gone when nobody holds it, so that runs that are over cost no memory.
func TestTheLockOfARunIsGoneWithItsLastUser(t *testing.T) {
	h := build(t)
	h.running("run")
	h.actor.finish("run", "x")
	h.untilState("run", wire.StateFinished)
	require.Equal(t, http.StatusNoContent, h.send(h.call(http.MethodPost, recordOf("run"), nil)).status)
	require.Equal(t, http.StatusOK, h.deliver(h.delivery("run", 1)).status)
	h.server.Close()
	assert.Empty(t, h.server.runs.held)
	_, err := h.journal.Get(journal.Key{RunUID: "run", Attempt: 1})
	assert.NoError(t, err)
}
