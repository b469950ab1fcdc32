//go:build faults

package faults_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/apifault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// The API server is away while a run runs and ends: the leader gives up, the next one finds the result, and there is one record.
func TestRow29_TheAPIServerIsAwayWhileARunEnds(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	w := rig.New(t, rig.Options{KeepLease: true})
	first := w.Controller()
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", "slow: 3 ;; say: done")
	w.Await(run, hearthv1.ReasonRunning)
	leader := w.Leader()
	w.API.Down()
	first.Wait() // it cannot renew its lease
	assert.NotZero(t, pod.Reached(crashpoint.AfterWrite("finish")), "the work went on")
	w.API.Up()
	w.Controller()
	got := w.Await(run, "Succeeded")
	assert.NotEqual(t, leader, w.Leader())
	assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
	assert.Len(t, w.EffectsOf(run), 1)
}

// Every write of a run's way, and those that make a standing run, are refused or fail, or are done and said to have failed, twice
// each. It converges: one Pod, one effect, one attempt, one record.
func TestRow30_EveryWriteMayFailOrBeDoneAndDenied(t *testing.T) {
	for name, spoil := range map[string]func(*apifault.Rule) *apifault.Rule{
		"409":                 func(r *apifault.Rule) *apifault.Rule { return r.Fail(409, 2) },
		"500":                 func(r *apifault.Rule) *apifault.Rule { return r.Fail(500, 2) },
		"committed but 504":   func(r *apifault.Rule) *apifault.Rule { return r.Commit(504, 2) },
		"committed and a cut": func(r *apifault.Rule) *apifault.Rule { return r.Drop(2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			rules := map[string]*apifault.Rule{}
			for _, resource := range []string{"agentruns", "pods", "secrets", "services"} {
				rules["create "+resource] = spoil(w.API.On(apifault.Match{Verbs: []string{"create"}, Resource: resource, Subresource: apifault.None}))
			}
			for stage, words := range map[string][]string{
				"reserved": {`"reason":"Reserved"`}, "running": {`"reason":"Running"`}, "ended": {`"completionTime":"`, `"reason":"Completed"`}, "waits": {`"reason":"WaitingForService"`},
			} {
				rules[stage] = spoil(w.API.On(apifault.Match{Verbs: []string{"update"}, Resource: "agentruns", Subresource: "status", Name: "run-1-x",
					Body: func(b []byte) bool {
						for _, word := range words {
							if !bytes.Contains(b, []byte(word)) {
								return false
							}
						}
						return true
					}}))
			}
			w.Controller()
			w.Agent("reviewer")
			run := w.Run("reviewer", "slow: 2 ;; say: done")
			require.Equal(t, "run-1-x", run.Name)
			got := w.Await(run, "Succeeded")
			assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
			assert.Len(t, w.EffectsOf(run), 1)
			assert.Len(t, w.Pods("reviewer"), 1)
			for stage, rule := range rules {
				if stage != "waits" && stage != "running" { // which may be passed over
					assert.NotZero(t, rule.Hits(), "no write met %s", stage)
				}
			}
		})
	}
}

// A controller whose caches stand where the run was reserved, or running, while it has ended and is recorded: it sends nothing, and
// what it would write is refused, once, for as long as that lasts.
func TestRow09_AStaleCacheOfAFinishedRunSendsAndChangesNothing(t *testing.T) {
	for name, stale := range map[string]func(*testing.T, *rig.World) *hearthv1.AgentRun{
		"reserved": func(t *testing.T, w *rig.World) *hearthv1.AgentRun {
			hold := w.Hold(crashpoint.AfterReserve)
			run := w.Run("reviewer", "say: done")
			hit := hold.Wait()
			require.NoError(t, w.API.Stale(t.Context(), "agentruns"))
			hit.Go()
			return run
		},
		"running": func(t *testing.T, w *rig.World) *hearthv1.AgentRun {
			run := w.Run("reviewer", "slow: 2 ;; say: done")
			w.Await(run, hearthv1.ReasonRunning)
			require.NoError(t, w.API.Stale(t.Context(), "agentruns"))
			return run
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			first := w.Controller()
			w.Agent("reviewer")
			pod := w.Ready("reviewer", 1)[0]
			w.Await(w.Run("reviewer", "say: warm"), "Succeeded")
			run := stale(t, w)
			recorded := w.Hold(crashpoint.AfterRecorded)
			record := w.Await(run, "Succeeded")
			recorded.Wait().Go()
			first.Kill()

			w.API.HoldWatches("agentruns")
			wrote := apifault.Match{Verbs: []string{"update", "patch"}, Resource: "agentruns", Name: run.Name}
			read := apifault.Match{Verbs: []string{"get"}, Resource: "agentruns", Name: run.Name}
			tries, reads, sends := w.API.Count(wrote), w.API.Count(read), pod.Reached(crashpoint.AfterReply("deliver"))
			second := w.Controller()
			w.Eventually("the controller to look and to meet the API server's word", func() bool { return w.API.Count(wrote) > tries || w.API.Count(read) > reads })
			assert.False(t, comesTo(3*time.Second, func() bool { return pod.Reached(crashpoint.AfterReply("deliver")) > sends }), "an old view is no reason to send")
			assert.LessOrEqual(t, w.API.Count(wrote)-tries, 3, "nor to try the same write again and again")
			w.API.Fresh()
			w.API.ReleaseWatches()
			w.Await(w.Run("reviewer", "say: next"), "Succeeded")
			assert.Equal(t, record.Status, w.Get(run).Status)
			assert.Len(t, w.EffectsOf(run), 1)
			assert.True(t, second.Alive())
		})
	}
}
