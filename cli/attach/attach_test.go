package attach

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/forward"
)

// R51: who comes early, who comes late and who lost the connection in between see the same, without gap or double, history and then
// live; the end of the run's record is the end.
func TestEverybodySeesTheWholeOfARun(t *testing.T) {
	t.Parallel()
	p, first, second := newPod(t), newGate(t), newGate(t)
	run := p.deliver("review-1", "think: hm", "say: one", "tool: completed", first.wait(), "say: two", second.wait(), "say: three")
	early := watch(t, p, run, nil)
	early.see(`\none`)
	first.open()
	early.see(`\ntwo`)
	late := watch(t, p, run, nil)
	late.see(`\ntwo`)
	p.cut() // in the middle of loading, perhaps
	p.connected(2)
	second.open()
	for _, w := range []*watcher{early, late} {
		w.see(`── run team/review-1 ended: Succeeded \(Completed\)`)
		w.tell(recorded(run))
		require.NoError(t, w.end())
		assert.True(t, w.run.Ended())
	}
	assert.Equal(t, early.said(), late.said())
	for _, once := range []string{"· hm", "\none", "\ntwo", "three", "run team/review-1 begins"} {
		assert.Equal(t, 1, strings.Count(strings.ReplaceAll(early.said(), "say: three", ""), once), "%s in %s", once, early.said())
	}
	assert.Contains(t, early.said(), "> think: hm")

	afterwards := watch(t, p, recorded(run).Run, nil)
	require.NoError(t, afterwards.end())
	open := strings.NewReplacer("\n", "") // lines of our own stood in between
	assert.Equal(t, open.Replace(early.said()), open.Replace(afterwards.said()), "and who comes after the end")
}

// R54: who leaves ends nothing.
func TestWhoLeavesEndsNothing(t *testing.T) {
	t.Parallel()
	p, g := newPod(t), newGate(t)
	run := p.deliver("review-1", "say: one", g.wait(), "say: two")
	w := watch(t, p, run, nil)
	w.see(`\none`)
	w.cancel()
	require.ErrorIs(t, w.end(), context.Canceled)
	g.open()
	again := watch(t, p, run, nil)
	again.see(`two\n`)
	again.see(`ended: Succeeded`)
}

// R51: the harness was restarted in place: the session is shown on, nothing of it twice, and the run's record is the end although
// nobody could note one.
func TestAHarnessThatRestartedIsFoundAgain(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	run := p.deliver("review-1", "say: one", "mute:")
	w := watch(t, p, run, nil)
	w.see(`\none`)
	p.kill()
	w.see(`trying again`)
	p.start()
	p.connected(2) // the harness may have been killed before all of the session was loaded: then nothing more is said than what was missing
	w.tell(recorded(run))
	require.NoError(t, w.end())
	assert.Equal(t, 1, strings.Count(w.said(), "\none"), w.said())
}

// What a run waits for is said, its next attempt is shown when it begins, and a Pod that is gone is no error: the run tells the rest.
func TestARunIsFollowedFromAttemptToAttempt(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	waiting := &hearthv1.AgentRun{}
	waiting.Name, waiting.UID, waiting.Spec.AgentRef.Name, waiting.Spec.Delivery = "review-2", "review-2-uid", "reviewer", &hearthv1.DeliverySpec{Port: 4100}
	waiting.Status.Phase = hearthv1.PhasePending
	w := watch(t, p, waiting, func(f *Follower) {
		f.Story = func(run *hearthv1.AgentRun) []string { return []string{"it is " + string(run.Status.Phase)} }
	})
	w.see(`── it is Pending`)
	p.is(fmt.Errorf("Pod reviewer-0 %w", forward.ErrGone)) //nolint:staticcheck // a kind's name
	lost := waiting.DeepCopy()
	lost.Status.Phase, lost.Status.Delivery = hearthv1.PhaseRunning, &hearthv1.DeliveryStatus{Attempt: 1, PodName: "reviewer-0", PodUID: "gone"}
	w.tell(Change{Run: lost})
	w.see(`Pod reviewer-0 is gone: what was said there can be seen no more`)
	w.see(`── it is Running`)
	p.is(nil)
	run := p.deliver("review-2", "say: again")
	run.Status.Delivery.Attempt = 1
	w.tell(Change{Run: run})
	w.see(`\nagain`)
	w.see(`run team/review-2 ended`)
	w.tell(recorded(run))
	require.NoError(t, w.end())
	assert.True(t, w.run.Ended())

	w = watch(t, p, waiting, nil)
	w.tell(Change{Run: waiting, Gone: true})
	require.ErrorIs(t, w.end(), ErrDeleted)

	p.is(&forward.NotRunning{Pod: "t", Phase: corev1.PodSucceeded})
	w = watch(t, p, recorded(run).Run, nil)
	require.NoError(t, w.end())
	assert.Contains(t, w.out.String(), "Pod t is Succeeded: what was said there can be seen no more")
}

// R52: a question is not held up by somebody who has the steer key and no terminal: it is shown, and left to others or the policy.
func TestWithoutATerminalQuestionsAreLeftToOthers(t *testing.T) {
	t.Parallel()
	p, g := newPod(t, "--permissions=Ask", "--ask-timeout=1h"), newGate(t)
	run := p.deliver("review-1", "say: one", g.wait(), "permit: allow_once,reject_once")
	w := watch(t, p, run, func(f *Follower) {
		f.Access, f.Screen = forward.Steer, newPage(t.Context(), f.Screen, strings.NewReader("go faster\ngo faster\n"))
	})
	w.see(`\none`)
	w.see(`not sent: `)
	g.open()
	w.see(`\[question\]`)
	w.see(`\[answer\] not from here`)
	w.see(`\nreject_once`)
	w.see(`run team/review-1 ended`)
	w.tell(recorded(run))
	require.NoError(t, w.end())
	assert.Equal(t, 1, strings.Count(w.out.String(), "runtime.steering: Steer does"), w.out)
}

// R53: a word to a run that the Agent lets people steer goes to its session; what the harness refuses is said.
func TestAWordIsSentToARunThatMayBeSteered(t *testing.T) {
	t.Parallel()
	p := newPod(t, "--steering=Steer")
	run := p.deliver("review-1", "say: one", "mute:")
	lines := make(chan Input)
	w := watch(t, p, run, func(f *Follower) { f.Access, f.Screen = forward.Steer, page{f.Screen, lines} })
	w.see(`\none`)
	lines <- Input{Line: "go faster"}
	w.see(`\[refused\] your word: .*carries out another prompt.*\(-32051\)`)
	lines <- Input{Left: true}
	assert.ErrorIs(t, w.end(), ErrLeft)
}
