package deliver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/controller/deliver"
	"github.com/hearthdev/hearth/test/harness"
)

// holds waits until what a standing run holds is as wanted.
func (x *target) holds(p *process, what string, is func(agent.Load) bool) {
	x.w.t.Helper()
	var last agent.Load
	ok := x.w.eventually(func() bool {
		load, err := p.loads.Load(x.w.t.Context(), x.run)
		last = load
		return err == nil && is(load)
	})
	require.True(x.w.t, ok, "%s: %+v", what, last)
}

// cordon has the standing run take no further work, and waits until a run is refused for it.
func (x *target) cordon() {
	x.w.t.Helper()
	x.run.Status.CordonedAt = ptr.To(metav1.NewMicroTime(time.Now()))
	require.NoError(x.w.t, x.w.kube.Status().Update(x.w.t.Context(), x.run))
}

func empty(l agent.Load) bool { return l.Empty }

// What a standing run holds is what is reserved for it and what its harness has; and what cannot be asked is not empty.
func TestAStandingRunIsEmptyOnlyWhenThatIsProven(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	p := w.controller()
	x.holds(p, "nothing yet", func(l agent.Load) bool { return l.Empty && l.Link == agent.LinkVerified })
	first, second := w.deliver("first", harness.HoldPrefix+"a"), w.deliver("second", harness.HoldPrefix+"b")
	x.holds(p, "one at work, one queued", func(l agent.Load) bool { return l.Running == 1 && l.Queued == 1 && l.Reserved == 0 && !l.Empty })

	x.harness.Stop()
	x.holds(p, "nobody there", func(l agent.Load) bool {
		return l.Link == agent.LinkFailed && l.Reason == hearthv1.ReasonTargetUnreachable && l.Message != "" && !l.Empty
	})
	x.harness.Boot()
	w.until(second, "running", func(r *hearthv1.AgentRun) bool {
		return len(x.harness.Runner.Started()) == 2 || r.Status.CompletionTime != nil
	})
	x.harness.Runner.Release(string(first.UID))
	x.harness.Runner.Release(string(second.UID))
	w.ended(first)
	w.ended(second)
	x.holds(p, "all recorded", empty)
	x.harness.Stop()
	x.holds(p, "nobody there, nothing known to be left", func(l agent.Load) bool { return l.Link == agent.LinkFailed && !l.Empty })
}

// A cordon that comes between what an assignment read and what it writes: the Pod is not empty until that is known.
func TestACordonWaitsForTheAssignmentUnderWay(t *testing.T) {
	w := newWorld(t)
	x := w.standing("reviewer-1", harness.Options{})
	p := w.controller()
	w.ended(w.deliver("first", goal))
	x.holds(p, "nothing left", empty)

	reached, written := make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	p.refuse = func(name string) error {
		if name == "late" && reached != nil {
			close(reached)
			reached = nil
			<-written
		}
		return nil
	}
	p.mu.Unlock()
	entered := reached
	late := w.deliver("late", harness.HoldPrefix+"late")
	<-entered
	x.cordon()
	for range 3 {
		load, err := p.loads.Load(t.Context(), x.run)
		require.NoError(t, err)
		assert.False(t, load.Empty, "nobody knows yet what is reserved")
	}
	close(written)
	w.reasonIs(late, hearthv1.ReasonRunning)
	x.holds(p, "what was reserved", func(l agent.Load) bool { return l.Running == 1 && !l.Empty })
	x.harness.Runner.Release(string(late.UID))
	assert.Equal(t, hearthv1.PhaseSucceeded, w.ended(late).Status.Phase)
	x.holds(p, "nothing left", empty)
}

// A cordoned run that never had a Pod, or whose Pod's agent never started, has nothing: such a Pod may wait for its image for ever. The
// API server is asked for both.
func TestACordonedRunWhoseAgentNeverStartedIsEmpty(t *testing.T) {
	w := newWorld(t)
	x := w.placeholder("reviewer-1")
	p := w.controller()
	w.ended(w.deliver("unadmitted", goal, func(r *hearthv1.AgentRun) { r.Spec.Goal = "" })) // the cache is there
	load, err := p.loads.Load(t.Context(), x.run)
	require.NoError(t, err)
	assert.False(t, load.Empty, "it may be given work")
	x.cordon()
	x.holds(p, "its agent never started", empty)
	x.pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: hearthv1.AgentContainer, RestartCount: 1,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}}
	require.NoError(t, w.kube.Status().Update(t.Context(), x.pod))
	x.holds(p, "it ran, and nobody can talk to it", func(l agent.Load) bool { return !l.Empty })
	require.NoError(t, w.kube.Delete(t.Context(), x.pod))
	x.holds(p, "it has none", empty)
}

var _ agent.Loads = (*deliver.Loads)(nil)
