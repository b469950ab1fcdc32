//go:build faults

package faults_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/netfault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 19, on a disk that is really full: what comes is refused and promised nothing, what was promised ends and is recorded, and when there
// is room again, what waited has its one start.
func TestRow19_ADiskThatIsReallyFull(t *testing.T) {
	rig.Slow(t) // a harness whose disk is full asks for half a minute
	t.Parallel()
	disk := ""
	t.Cleanup(func() { // after the World has ended and read its transcripts
		if disk != "" {
			assert.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH))
			assert.NoError(t, os.RemoveAll(filepath.Dir(filepath.Dir(disk))))
		}
	})
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1))
	pod := w.Ready("reviewer", 1)[0]
	pod.StayDown()
	w.Eventually("it is down", func() bool { return pod.PID() == 0 })
	pod.LoseJournal()
	require.NoError(t, syscall.Mount("tmpfs", pod.Data(), "tmpfs", 0, "size=16m"), "root is needed")
	disk = pod.Data()
	pod.Up()
	works(t, w, "reviewer")

	goal, open := gate(t)
	promised := w.Run("reviewer", goal)
	begun(t, w, promised)
	rubbish := filepath.Join(disk, "rubbish")
	fill(t, rubbish)
	refused := w.Run("reviewer", "say: at last")
	got := w.Await(refused, hearthv1.ReasonTargetBusy)
	assert.Equal(t, hearthv1.PhasePending, got.Status.Phase)
	assert.Zero(t, got.Status.Delivery.Losses)
	open()
	once(t, w, w.Ended(promised))
	assert.Empty(t, w.EffectsOf(refused))
	require.NoError(t, os.Remove(rubbish))
	got = w.Ended(refused)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.Len(t, w.EffectsOf(refused), 1)
}

// fill writes until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	require.NoError(t, err)
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, file.Close())
}

// secretOf is the Secret of a standing run.
func secretOf(t *testing.T, w *rig.World, pod *rig.Pod) *corev1.Secret {
	t.Helper()
	run := standing(t, w, pod.Name)
	s := &corev1.Secret{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: pod.Name + "-" + string(run.UID[:8]) + "-harness"}, s))
	return s
}

func standing(t *testing.T, w *rig.World, name string) *hearthv1.AgentRun {
	t.Helper()
	run := &hearthv1.AgentRun{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, run))
	return run
}

// Row 36: the Secret goes while a run is at work. The link keeps its keys for the Pod's life: the work ends and is recorded.
func TestRow36_TheSecretIsDeletedUnderALiveRun(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 1, rig.Options{})
	goal, open := gate(t)
	run := w.Run("reviewer", goal)
	begun(t, w, run)
	require.NoError(t, w.Admin.Delete(t.Context(), secretOf(t, w, pods[0])))
	pods[0].Proxy.Cut() // the connection is made anew with the same keys
	open()
	once(t, w, w.Ended(run))
	works(t, w, "reviewer")
}

// Rows 36 and 48: the container restarts after its Secret is gone. It cannot come back, which is said; it gets no more work and is replaced,
// and what waited goes to the new one.
func TestRow48_TheContainerRestartsAfterItsSecretIsGone(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 1, rig.Options{})
	works(t, w, "reviewer")
	old := pods[0]
	require.NoError(t, w.Admin.Delete(t.Context(), secretOf(t, w, old)))
	old.Kill()
	waits := w.Run("reviewer", "say: elsewhere")
	w.Eventually("the loss is said", func() bool {
		run := &hearthv1.AgentRun{}
		if w.Admin.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: old.Name}, run) != nil {
			return false
		}
		c := meta.FindStatusCondition(run.Status.Conditions, hearthv1.AgentRunConditionCredentialReady)
		return c != nil && c.Reason == hearthv1.ReasonCredentialLost && run.Status.CordonedAt != nil
	})
	got := w.Ended(waits)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.NotEqual(t, old.UID, got.Status.PodUID)
	assert.Len(t, w.EffectsOf(waits), 1)
	w.Eventually("the old one goes", old.Gone)
}

// Row 54: a leader is frozen between reserving and sending. Another takes the attempt over, it is carried out, recorded and forgotten, and the
// harness restarts; then the first one goes on and sends. It is never carried out again.
func TestRow54_AFrozenLeaderSendsWhatWasRecordedAndForgotten(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 1, rig.Options{})
	hold := w.Hold(crashpoint.AfterReserve)
	run := w.Run("reviewer", "say: hello")
	hit := hold.Wait()
	frozen := hit.Controller
	frozen.Freeze()
	w.DropLease()
	w.Controller()
	got := w.Ended(run)
	once(t, w, got)
	w.Eventually("it is told that it is recorded", func() bool { return pods[0].Reached(crashpoint.AfterWrite("recorded")) > 0 })
	pods[0].Kill()
	w.Eventually("the harness is back", func() bool { return pods[0].Restarts() == 1 && pods[0].Ready() })
	hit.Go()
	frozen.Thaw()
	works(t, w, "reviewer")
	frozen.Wait() // it finds that it leads no more
	once(t, w, w.Get(run))
	assert.Equal(t, got.Status, w.Get(run).Status)
}

// Row 55: the reply to the accept is lost, and when the harness is asked again it drains: a new delivery is refused there. The run stays
// with its Pod, though another one is free.
func TestRow55_TheAcceptsReplyIsLostAndTheHarnessDrains(t *testing.T) {
	t.Parallel()
	w, _, pods := reviewers(t, 2, rig.Options{})
	before := w.Hold(crashpoint.AfterReserve)
	goal, open := gate(t)
	run := w.Run("reviewer", goal)
	reserving := before.Wait()
	reserved := w.Get(run)
	pod := pods[0]
	if pods[1].UID == reserved.Status.Delivery.PodUID {
		pod = pods[1]
	}
	hold := pod.Hold(crashpoint.AfterWrite("accept"))
	reserving.Go()
	hit := hold.Wait()
	pod.Proxy.Set(netfault.Refuse) // the reply finds no way
	hit.Go()
	begun(t, w, run)
	pod.Delete(90 * time.Second)
	w.Eventually("it drains", func() bool { return strings.Contains(pod.Log(), "msg=draining") })
	pod.Proxy.Heal()
	got := w.Await(run, hearthv1.ReasonRunning)
	assert.Equal(t, reserved.Status.Delivery.PodUID, got.Status.PodUID)
	open()
	got = w.Ended(run)
	once(t, w, got)
	assert.Equal(t, reserved.Status.Delivery.PodUID, got.Status.PodUID)
}

// Row 39: the Agent's template changes while a run is at work, one is queued in the same harness and one waits. The old Pod ends what it
// has; what waited goes to the new one.
func TestRow39_RecastWithWorkAtHand(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1))
	old := w.Ready("reviewer", 1)[0]
	goal, open := gate(t)
	running := w.Run("reviewer", goal)
	begun(t, w, running)
	queued := w.Run("reviewer", "say: queued")
	w.Await(queued, hearthv1.ReasonQueued)
	waits := w.Run("reviewer", "say: waited")
	w.Await(waits, hearthv1.ReasonTargetBusy)
	change(t, w, "reviewer", variable("CHANGED", "1"))
	got := w.Ended(waits)
	once(t, w, got)
	assert.NotEqual(t, old.UID, got.Status.PodUID)
	open()
	for _, run := range []*hearthv1.AgentRun{running, queued} {
		got := w.Ended(run)
		once(t, w, got)
		assert.Equal(t, old.UID, got.Status.PodUID)
	}
	w.Eventually("the old one goes", old.Gone)
}

// Row 39, without the time for it: what is at work is cancelled by the drain, and says so; what had not begun goes to the new one, and no
// loss is counted.
func TestRow39_RecastThatDoesNotWait(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1), func(a *hearthv1.Agent) {
		a.Spec.DrainTimeoutSeconds = ptr.To[int64](1)
		a.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](36) // one second to drain
	})
	old := w.Ready("reviewer", 1)[0]
	running := w.Run("reviewer", endless)
	begun(t, w, running)
	queued := w.Run("reviewer", "say: queued")
	w.Await(queued, hearthv1.ReasonQueued)
	change(t, w, "reviewer", variable("CHANGED", "1"))
	got := w.Ended(running)
	assert.Equal(t, hearthv1.ReasonCancelled, got.Status.Reason)
	assert.Contains(t, got.Status.Message, "the harness was drained before the run ended")
	got = w.Ended(queued)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase, "%s: %s", got.Status.Reason, got.Status.Message)
	assert.NotEqual(t, old.UID, got.Status.PodUID)
	assert.Zero(t, got.Status.Delivery.Losses)
	assert.Len(t, w.EffectsOf(queued), 1)
	w.Eventually("the old one goes", old.Gone)
}
