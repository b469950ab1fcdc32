package deliver_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// R45: waiting is said with its reason, one write a reason, and a run that waited is delivered once it can be.
func TestARunWaitsWithAReasonAndGoesOnWhenItCan(t *testing.T) {
	w := newWorld(t)
	p := w.controller()
	run := w.deliver("patient", goal)
	w.reasonIs(run, hearthv1.ReasonWaitingForService)
	x := w.placeholder("reviewer-1")
	w.reasonIs(run, hearthv1.ReasonTargetNotReady)
	x.boot(harness.Options{})
	x.ready()
	w.ended(run)
	reasons := p.written("patient")
	require.GreaterOrEqual(t, len(reasons), 3)
	assert.Equal(t, []string{"WaitingForService", "TargetNotReady", "Reserved"}, reasons[:3], "one write a reason")
}

// Row 7: two controllers at once: one reservation wins, sends are idempotent, one record, one effect.
func TestTwoControllersAtOnceDeliverOnce(t *testing.T) {
	w := newWorld(t)
	targets := []*target{w.standing("reviewer-1", harness.Options{Concurrency: 4, Queue: 40}), w.standing("reviewer-2", harness.Options{Concurrency: 4, Queue: 40})}
	w.controller()
	w.controller()
	var runs []*hearthv1.AgentRun
	for i := range 24 {
		runs = append(runs, w.deliver(fmt.Sprintf("run-%d", i), goal))
	}
	for _, run := range runs {
		got := w.ended(run)
		assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase, "%s", got.Status.Message)
		assert.Equal(t, 1, effects(run, targets...))
	}
}

func effects(run *hearthv1.AgentRun, targets ...*target) int {
	n := 0
	for _, x := range targets {
		for k, times := range x.harness.Runner.Started() {
			if k.RunUID == string(run.UID) {
				n += times
			}
		}
	}
	return n
}

// Rows 4 and 5: the controller goes away while the run runs; the next one finds it, writes Running, and records it once.
func TestARunGoesOnWhileTheControllerIsAwayAndIsRecordedOnReturn(t *testing.T) {
	for name, released := range map[string]bool{"still running on return": false, "finished meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			x := w.standing("reviewer-1", harness.Options{})
			first := w.controller()
			w.ended(w.deliver("warm", goal))
			run := w.deliver("long", harness.HoldPrefix+goal)
			got := w.reasonIs(run, hearthv1.ReasonRunning)
			assert.Equal(t, hearthv1.PhaseRunning, got.Status.Phase)
			assert.Equal(t, "127", strings.SplitN(got.Status.Address, ".", 2)[0], "the target's endpoint is shown")
			first.wrote(t, "long", "Reserved", "Running") // before it is stopped: what it did not hear of it did not write
			first.stop()
			if released {
				x.harness.Runner.Release(string(run.UID))
			}
			second := w.controller()
			if !released {
				x.harness.Runner.Release(string(run.UID))
			}
			got = w.ended(run)
			assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
			assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
			assert.Equal(t, 1, effects(run, x))
			second.wrote(t, "long", "Completed")
		})
	}
}

// Row 2: killed after the reservation, before anything was sent: the same attempt goes to the same Pod.
func TestAReservationFoundAfterARestartIsSentAsTheSameAttempt(t *testing.T) {
	w := newWorld(t)
	var mute atomic.Bool
	mute.Store(true)
	x := w.standing("reviewer-1", harness.Options{Wrap: losing(&mute, func(r *http.Request) bool {
		return r.Method == http.MethodPost && r.URL.Path == wire.RunsPath
	})})
	first := w.controller()
	run := w.deliver("reserved", goal)
	w.until(run, "reserved", func(r *hearthv1.AgentRun) bool {
		return r.Status.Delivery != nil && r.Status.Delivery.ReservedAt != nil
	})
	first.stop()
	mute.Store(false)
	w.controller()
	got := w.ended(run)
	assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
	assert.Empty(t, got.Status.Delivery.ReservedBy, "another process took it over before it sent it")
	assert.Equal(t, 1, effects(run, x))
}

// losing breaks the connection of matching requests before the harness saw them.
func losing(on *atomic.Bool, match func(*http.Request) bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if on.Load() && match(r) {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(rw, r)
		})
	}
}

// Row 10: the harness accepted and its reply was lost. It is looked up, not made into a new attempt.
func TestALostReplyIsLookedUp(t *testing.T) {
	w := newWorld(t)
	var once sync.Once
	x := w.standing("reviewer-1", harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			lost := false
			if r.Method == http.MethodPost && r.URL.Path == wire.RunsPath {
				once.Do(func() { lost = true })
			}
			if lost {
				next.ServeHTTP(discard{}, r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(rw, r)
		})
	}})
	w.controller()
	run := w.deliver("run", goal)
	got := w.ended(run)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
	assert.Equal(t, 1, effects(run, x))
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// Row 13: a pass stands still between the reservation that it wrote and its sending. Nobody else may say that it was not sent.
func TestAReservationThatIsStillToBeSentIsNotTakenForUnsent(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	p := w.controller()
	w.ended(w.deliver("warm", goal))
	reserved, goOn := make(chan struct{}), make(chan struct{})
	var written atomic.Int32
	p.mu.Lock()
	p.fail = func(name string) error {
		if name == "run" && written.Add(1) == 1 {
			close(reserved)
			<-goOn
		}
		return nil
	}
	p.mu.Unlock()
	run := w.deliver("run", harness.HoldPrefix+goal)
	<-reserved
	require.NoError(t, w.kube.Patch(t.Context(), run, kube.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))))
	w.reasonIs(run, hearthv1.ReasonCancelling)
	assert.Never(t, func() bool {
		got, err := w.get(run)
		return err != nil || got.Status.CompletionTime != nil
	}, 200*time.Millisecond, 10*time.Millisecond)
	close(goOn)
	assert.Equal(t, hearthv1.ReasonCancelled, w.ended(run).Status.Reason)
	assert.Equal(t, 1, effects(run, x))
}

// Row 30: writes that lose a race are made again, though no event follows that would say so.
func TestAWriteThatLostARaceIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	p := w.controller()
	w.ended(w.deliver("warm", goal))
	p.mu.Lock()
	p.refuse = once("run", 2, conflict())
	p.mu.Unlock()
	run := w.deliver("run", goal)
	assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(run).Status.Phase)
	assert.Equal(t, 1, effects(run, x))
}

// Row 30: every status write is committed and its reply lost, once per run. It converges with one effect and one record.
func TestAWriteThatWasCommittedThoughItsReplyWasLostConverges(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{Concurrency: 2})
	p := w.controller()
	w.ended(w.deliver("warm", goal))
	p.mu.Lock()
	p.fail = once("run", 2, timeout())
	p.mu.Unlock()
	run := w.deliver("run", goal)
	got := w.ended(run)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
	assert.Equal(t, 1, effects(run, x))
}

// Row 31, I4: a deleted run is gone at once and the agent's work for it ends, whether the controller was up or down.
func TestTheWorkOfADeletedRunIsStopped(t *testing.T) {
	for name, down := range map[string]bool{"controller up": false, "controller down": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			x := w.standing("reviewer-1", harness.Options{})
			p := w.controller()
			run := w.deliver("run", harness.HoldPrefix+goal)
			w.reasonIs(run, hearthv1.ReasonRunning)
			if down {
				p.stop()
			}
			require.NoError(t, w.kube.Delete(t.Context(), run))
			_, err := w.get(run)
			require.True(t, apierrors.IsNotFound(err), "no finalizer holds it")
			// Row 32: the same name again, at once. The old work must not be taken for its.
			again := w.deliver("run", goal)
			if down {
				w.controller()
			}
			got := w.ended(again)
			assert.Equal(t, harness.Output(goal), got.Status.Output.Value)
			assert.Equal(t, 1, effects(run, x))
			assert.Equal(t, 1, effects(again, x), "the room that the deleted one had was free again")
		})
	}
}

// Row 33, R42: cancel while it waits, while it is queued, while it runs.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	waits := w.deliver("waits", goal)
	cancel := func(run *hearthv1.AgentRun) {
		require.NoError(t, w.kube.Patch(t.Context(), run, kube.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))))
	}
	w.controller()
	w.reasonIs(waits, hearthv1.ReasonWaitingForService)
	cancel(waits)
	assert.Equal(t, hearthv1.ReasonCancelled, w.ended(waits).Status.Reason)

	x := w.standing("reviewer-1", harness.Options{})
	runs := w.deliver("runs", harness.HoldPrefix+goal)
	w.reasonIs(runs, hearthv1.ReasonRunning)
	queued := w.deliver("queued", goal)
	w.reasonIs(queued, hearthv1.ReasonQueued)
	cancel(queued)
	assert.Equal(t, hearthv1.ReasonCancelled, w.ended(queued).Status.Reason)
	cancel(runs)
	got := w.ended(runs)
	assert.Equal(t, hearthv1.ReasonCancelled, got.Status.Reason)
	assert.Equal(t, "Cancelled", got.Status.Outcome, "the harness's own word")
	assert.Equal(t, 0, effects(queued, x))
}

// Row 28, R45: a target that says it is busy is no loss: it is voided there, given back, and tried again.
func TestBusyIsNoLoss(t *testing.T) {
	w := newWorld(t)
	var refusals atomic.Int32
	var identity wire.Identity
	x := w.placeholder("reviewer-1")
	identity = wire.Identity{Namespace: w.ns, PodName: x.pod.Name, PodUID: string(x.pod.UID)}
	x.boot(harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == wire.RunsPath && refusals.Add(1) <= 2 {
				refuse(t, rw, r, identity, wire.CodeBusy)
				return
			}
			next.ServeHTTP(rw, r)
		})
	}})
	x.ready()
	w.controller()
	run := w.deliver("run", goal)
	got := w.ended(run)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.Equal(t, int64(3), got.Status.Delivery.Attempt)
	assert.Zero(t, got.Status.Delivery.Losses)
	assert.Equal(t, 1, effects(run, x))
}

// refuse is a refusal that is proven to be the target's.
func refuse(t *testing.T, rw http.ResponseWriter, r *http.Request, me wire.Identity, code wire.Code) {
	t.Helper()
	body, err := wire.Encode(wire.NewProblem(code, "not now"))
	assert.NoError(t, err)
	signed := challenge.Request{
		Method: r.Method, Target: r.RequestURI, PodName: me.PodName, PodUID: me.PodUID,
		Boot: r.Header.Get(wire.HeaderBoot), Challenge: r.Header.Get(wire.HeaderChallenge),
	}
	rw.Header().Set(wire.HeaderAnswer, harness.Keys(t, me.PodUID).Answer(signed, code.Status(), body))
	rw.WriteHeader(code.Status())
	_, _ = rw.Write(body)
}

// Rows 26 and 28: sixty-four targets that hang in the middle of a delivery do not delay the sixty-fifth, of another Agent's.
func TestHungTargetsDelayNobodyElse(t *testing.T) {
	w := newWorld(t)
	over := make(chan struct{})
	defer close(over)
	hang := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == wire.RunsPath {
				<-over
			}
			next.ServeHTTP(rw, r)
		})
	}
	const hung = 64
	for i := range hung {
		w.standing(fmt.Sprintf("reviewer-%d", i), harness.Options{Concurrency: 1, Wrap: hang})
	}
	w.controller()
	var runs []*hearthv1.AgentRun
	for i := range hung {
		runs = append(runs, w.deliver(fmt.Sprintf("hung-%d", i), goal))
	}
	for _, run := range runs {
		w.until(run, "reserved", func(r *hearthv1.AgentRun) bool {
			return r.Status.Delivery != nil && r.Status.Delivery.ReservedAt != nil
		})
	}
	x := w.standing("reviewer-x", harness.Options{Concurrency: 8})
	last := w.deliver("last", goal)
	got := w.ended(last)
	assert.Equal(t, x.pod.UID, got.Status.PodUID)
	for _, run := range runs {
		r, err := w.get(run)
		require.NoError(t, err)
		assert.Nil(t, r.Status.CompletionTime, "the hung ones were still hanging")
	}
}

// Row 45: a run that reached storage without admission is never executed. Row 50: nor one whose Agent is another now.
func TestWhatMayNotRunEnds(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	w.controller()
	sparse := w.deliver("sparse", "", func(r *hearthv1.AgentRun) { r.Spec.Runtime = nil })
	assert.Equal(t, hearthv1.ReasonNotAdmitted, w.ended(sparse).Status.Reason)
	other := w.deliver("other", goal, func(r *hearthv1.AgentRun) { r.Spec.AgentRef.UID = "an-earlier-agent" })
	assert.Equal(t, hearthv1.ReasonAgentNotFound, w.ended(other).Status.Reason)
	assert.Empty(t, x.harness.Runner.Started())
}

// I8: a harness has no say about runs of other namespaces, whatever it lists.
func TestAttemptsOfOtherNamespacesAreNotTouched(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{Concurrency: 2})
	w.controller()
	foreign := wire.RunRef{Namespace: "elsewhere", Name: "theirs", UID: "uid-theirs"}
	mine, err := client.New(client.Config{
		Target: x.harness.Identity, Address: x.address(), Keys: harness.Keys(t, string(x.pod.UID)), Now: now, Random: random,
		Log: quiet, Changed: func(client.Change) {}, Backoff: backoff,
	})
	require.NoError(t, err)
	mine.Start()
	defer mine.Close()
	require.True(t, w.eventually(func() bool { return mine.Status().Listed }))
	require.NoError(t, mine.Send(client.Delivery{DeliveryRequest: wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: foreign, Attempt: 1, Journal: mine.Status().Journal, Goal: harness.HoldPrefix + "it",
		Target: wire.Target{Name: x.pod.Name, UID: string(x.pod.UID)},
	}}, 0))
	running := func() bool {
		a, ok := mine.Snapshot(client.Key{RunUID: foreign.UID, Attempt: 1})
		return ok && a.Seen != nil && a.Seen.State == wire.StateRunning && !a.Seen.CancelRequested
	}
	require.True(t, w.eventually(running))
	w.ended(w.deliver("run", goal))
	assert.True(t, running())
}
