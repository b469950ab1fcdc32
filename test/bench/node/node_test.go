package node

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge"
	controllerpod "github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const root = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

func standing() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer-1", UID: "pod-1", Labels: map[string]string{hearthv1.LabelAgent: "reviewer"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: hearthv1.AgentContainer, Ports: []corev1.ContainerPort{{Name: wire.PortName, ContainerPort: 4100}},
			Env: []corev1.EnvVar{{Name: controllerpod.EnvConcurrency, Value: "2"}, {Name: controllerpod.EnvQueue, Value: "1"},
				{Name: controllerpod.EnvToken, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "reviewer-1"}, Key: hearthv1.SecretToken}}}}}}},
	}
}

// served is a node over an API server's stand-in, and what the measuring process has of it.
func served(t *testing.T) (*node, *Node) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer-1"}, Data: map[string][]byte{hearthv1.SecretToken: []byte(root)}}
	n := &node{kube: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(standing(), secret).WithStatusSubresource(&corev1.Pod{}).Build(),
		dir: t.TempDir(), book: newBook(), released: &gates{all: map[string]chan struct{}{}}, slots: make(chan struct{}, booting), pods: map[types.UID]*pod{}}
	t.Cleanup(func() {
		n.lost(standing())
		n.work.Wait()
	})
	at := httptest.NewServer(n.control())
	t.Cleanup(at.Close)
	return n, &Node{base: at.URL}
}

// link is the controller's, to a Pod of the node.
func link(t *testing.T, address string) *client.Link {
	t.Helper()
	keys, err := challenge.Derive([]byte(root), "pod-1")
	require.NoError(t, err)
	links := client.NewLinks()
	t.Cleanup(links.Close)
	l, err := links.Ensure(client.Config{
		Target: wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-1"}, Address: address, Keys: keys, Now: time.Now, Random: rand.Reader,
		Log: slog.New(slog.DiscardHandler), Changed: func(client.Change) {}, Backoff: func(int) time.Duration { return 10 * time.Millisecond },
	})
	require.NoError(t, err)
	eventually(t, func() bool { return l.Status().State == client.StateVerified })
	return l
}

func eventually(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, f, time.Minute, 5*time.Millisecond)
}

func send(t *testing.T, l *client.Link, uid, goal string) wire.RunRef {
	t.Helper()
	run := wire.RunRef{Namespace: "team", Name: uid, UID: uid}
	require.NoError(t, l.Send(client.Delivery{DeliveryRequest: wire.DeliveryRequest{APIVersion: wire.APIVersion, Run: run, Attempt: 1,
		Target: wire.Target{Name: "reviewer-1", UID: "pod-1"}, Journal: l.Status().Journal, Goal: goal}}, 0))
	return run
}

// end is what a run's attempt came to, fetched as the controller does.
func end(t *testing.T, l *client.Link, run wire.RunRef) *wire.Envelope {
	t.Helper()
	key := client.Key{RunUID: run.UID, Attempt: 1}
	eventually(t, func() bool {
		a, ok := l.Snapshot(key)
		return ok && a.Seen != nil && a.Seen.State.Ended() && !a.InFlight
	})
	require.NoError(t, l.Look(run, 1))
	eventually(t, func() bool { a, _ := l.Snapshot(key); return a.Seen.Envelope != nil })
	a, _ := l.Snapshot(key)
	return a.Seen.Envelope
}

// A Link whose first list is held knows who it talks to, and not what that has.
func TestWhatAHarnessHasIsToldWhenListsAreReleased(t *testing.T) {
	n, asked := served(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n.see(ctx, standing())
	_, err := asked.Await(ctx, Counts{Pods: 1})
	require.NoError(t, err)
	require.NoError(t, asked.HoldLists(ctx))
	pods, err := asked.Pods(ctx)
	require.NoError(t, err)
	l := link(t, pods[0].Address)
	assert.False(t, l.Status().Listed)
	require.NoError(t, asked.ReleaseLists(ctx))
	eventually(t, func() bool { return l.Status().Listed })
}

// What the controller made gets a real harness at an address of its own, and every step of a delivery is counted and has its time.
func TestAPodIsServedAndItsDeliveriesAreTimed(t *testing.T) {
	n, asked := served(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n.see(ctx, standing())
	_, err := asked.Await(ctx, Counts{Pods: 1})
	require.NoError(t, err)
	var told corev1.Pod
	require.NoError(t, n.kube.Get(ctx, kube.ObjectKeyFromObject(standing()), &told))
	ready, why := controllerpod.Listening(&told)
	assert.True(t, ready, why)

	pods, err := asked.Pods(ctx)
	require.NoError(t, err)
	require.Len(t, pods, 1)
	assert.Equal(t, told.Status.PodIP+":4100", pods[0].Address)
	l := link(t, pods[0].Address)
	before := time.Now()
	held := send(t, l, "run-1", Hold)
	given := send(t, l, "run-2", Give+"4096")
	_, err = asked.Await(ctx, Counts{Begun: 2, Ended: 1})
	require.NoError(t, err)
	assert.Len(t, end(t, l, given).Output.Value, 4096)
	require.NoError(t, l.Recorded(given, 1))
	counts, err := asked.Await(ctx, Counts{Accepted: 2, Recorded: 1})
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 1}, []int64{counts.Requests["deliver"], counts.Requests["recorded"]})
	assert.Equal(t, 1, counts.Ended, "the held one runs")
	times, err := asked.Times(ctx)
	require.NoError(t, err)
	require.Len(t, times, 2)
	for _, one := range times {
		if one.Run != given.UID {
			continue
		}
		assert.Equal(t, "team/reviewer-1", one.Pod)
		for _, step := range [][2]time.Time{{before, one.Received}, {one.Received, one.Accepted}, {one.Received, one.Begun}, {one.Begun, one.Ended}, {one.Ended, one.Recorded}} {
			assert.False(t, step[1].Before(step[0]), "%+v", one)
		}
	}
	require.NoError(t, asked.Release(ctx, held.UID))
	_, err = asked.Await(ctx, Counts{Ended: 2})
	require.NoError(t, err)
}

// A Pod tells how many connections are open, so that who has killed a controller knows when all is counted that it had asked.
func TestAPodCountsItsOpenConnections(t *testing.T) {
	n, asked := served(t)
	ctx := t.Context()
	n.see(ctx, standing())
	_, err := asked.Await(ctx, Counts{Pods: 1})
	require.NoError(t, err)
	now := func() PodCounts {
		pods, err := asked.Pods(ctx)
		require.NoError(t, err)
		require.Len(t, pods, 1)
		return pods[0]
	}
	assert.Zero(t, now().Connections)
	l := link(t, now().Address)
	eventually(t, func() bool { return now().Requests["changes"] == 1 }) // and the next one is held
	assert.EqualValues(t, 1, now().Connections)
	l.Close()
	eventually(t, func() bool { return now().Connections == 0 })
}

// A restart is another boot over the same journal; a reset forgets what was counted, and not what was begun.
func TestARestartIsAnotherBootAndAResetForgets(t *testing.T) {
	n, asked := served(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n.see(ctx, standing())
	_, err := asked.Await(ctx, Counts{Pods: 1})
	require.NoError(t, err)
	pods, err := asked.Pods(ctx)
	require.NoError(t, err)
	l := link(t, pods[0].Address)
	boot := l.Status().Boot
	held := send(t, l, "run-1", Hold)
	_, err = asked.Await(ctx, Counts{Begun: 1})
	require.NoError(t, err)
	require.NoError(t, asked.Reset(ctx))
	require.NoError(t, asked.Restart(ctx))
	eventually(t, func() bool { s := l.Status(); return s.State == client.StateVerified && s.Boot != boot })
	assert.Equal(t, wire.OutcomeInterrupted, end(t, l, held).Outcome)
	counts, err := asked.Counts(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 0, 0, 0}, []int{counts.Pods, counts.Accepted, counts.Begun, counts.Again})
	n.book.begun(Key{Run: held.UID, Attempt: 2}, "team/reviewer-1", time.Now())
	counts, err = asked.Counts(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, counts.Again, "the same run's goal, begun twice")
}

// A failure of the stand-in ends every wait for it: a measurement must not go on without its Pods.
func TestAPodThatCannotBeServedFailsTheWait(t *testing.T) {
	n, asked := served(t)
	p := standing()
	p.Spec.Containers[0].Env = nil
	n.see(t.Context(), p)
	_, err := asked.Await(t.Context(), Counts{Pods: 1})
	assert.ErrorContains(t, err, controllerpod.EnvToken)
}

func TestOnlyPathsOfAttemptsNameOne(t *testing.T) {
	for path, want := range map[string]Key{
		wire.RunsPath + "/run-1?attempt=3":                            {Run: "run-1", Attempt: 3},
		wire.RunsPath + "/run-1" + wire.RecordedSuffix + "?attempt=3": {Run: "run-1", Attempt: 3},
		wire.RunsPath: {}, wire.ChallengePath: {}, "": {}, wire.RunsPath + "/run-1": {},
	} {
		got, ok := named(path)
		assert.Equal(t, want != Key{}, ok, path)
		if ok {
			assert.Equal(t, want, got, path)
		}
	}
}
