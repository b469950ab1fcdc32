package run_test

import (
	"context"
	"crypto/rand"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/run"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/room"
)

var server = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// world is a room in which, with start, the controller runs with the rights of config/rbac.
type world struct {
	t *testing.T
	*room.Room
	ahead atomic.Int64 // how far the controller's clock is ahead
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, Room: room.New(t, server)}
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// start runs the controller until the test ends, or stop is called.
func (w *world) start() (stop func()) {
	w.t.Helper()
	return w.reconcile(w.Manager(server.Controller(w.t), room.Options()))
}

// reconcile runs the controller of a manager.
func (w *world) reconcile(mgr manager.Manager) (stop func()) {
	w.t.Helper()
	require.NoError(w.t, (&run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: w.now, Random: rand.Reader}).SetupWithManager(mgr))
	return w.Start(mgr)
}

func isRunning(r *v1alpha1.AgentRun) bool { return r.Status.Phase == v1alpha1.PhaseRunning }

// onNode puts the run's Pod on a node, without which a deleted Pod goes at once.
func onNode(r *v1alpha1.AgentRun) { r.Spec.Template.Spec.NodeName = "node-1" }

func ends(code int32, message string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.Phase, s.Conditions = corev1.PodFailed, nil
		if code == 0 {
			s.Phase = corev1.PodSucceeded
		}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", Image: "i", ImageID: "i", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Message: message, StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}}}
	}
}

func leaves(message string) string {
	return string(wire.EncodeTermination(wire.Envelope{Outcome: wire.OutcomeFailed, Reason: wire.ReasonLimitReached, Message: message, Output: &wire.Output{MediaType: "text/plain", Value: "half"}}))
}

// R10, R11: from the Pod to the record, with a Service of the run's name beside it; the Pod stays to be looked at, and a record never changes.
func TestAOneShotRunIsRecordedOnceFromItsTerminationMessage(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.start()
	w.OneShot("review-17")
	r := w.Run("review-17", room.HasPod)
	var s corev1.Service
	require.NoError(t, w.Get(ctx, w.Key("review-17"), &s))
	assert.True(t, metav1.IsControlledBy(&s, r))
	assert.Equal(t, corev1.ClusterIPNone, s.Spec.ClusterIP)
	assert.False(t, s.Spec.PublishNotReadyAddresses)
	assert.Equal(t, []any{"acp", int32(4000), "acp"}, []any{s.Spec.Ports[0].Name, s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort.String()})
	var p corev1.Pod
	require.NoError(t, w.Get(ctx, w.Key("review-17"), &p))
	for key, value := range s.Spec.Selector {
		assert.Equal(t, value, p.Labels[key])
	}
	w.Kubelet("review-17", room.Listens)
	w.Run("review-17", func(r *v1alpha1.AgentRun) bool { return r.Status.Address == "10.77.0.9:4000" })
	w.Kubelet("review-17", ends(2, leaves("stopped at its limit")))
	r = w.Run("review-17", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, []string{"Failed", "LimitReached", "stopped at its limit", "half", ""}, []string{r.Status.Outcome, r.Status.Reason, r.Status.Message, r.Status.Output.Value, r.Status.TerminationData})
	assert.True(t, meta.IsStatusConditionFalse(r.Status.Conditions, v1alpha1.AgentRunConditionACPReady))

	w.OneShot("next") // once it has its Pod, the controller has looked at the record, too
	w.Kubelet("review-17", func(s *corev1.PodStatus) { s.Message = "touched" })
	w.Run("next", room.HasPod)
	again := w.Run("review-17", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, r.ResourceVersion, again.ResourceVersion)
	require.NoError(t, w.Get(ctx, w.Key("review-17"), &p), "its logs can be read")
	assert.Nil(t, p.DeletionTimestamp)
}

// A Service of the run's name is never adopted, and the Pod waits for the name; a deleted one is made again while the run lives.
func TestTheServiceOfARun(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "review-17"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	require.NoError(t, w.Create(ctx, foreign))
	w.start()
	w.OneShot("review-17")
	r := w.Run("review-17", room.Says("Service review-17 exists and is not this run's: delete it"))
	assert.Empty(t, r.Status.PodUID)
	assert.Equal(t, v1alpha1.ReasonPodNotRunning, r.Status.Conditions[0].Reason)
	require.NoError(t, w.Delete(ctx, foreign))
	r = w.Run("review-17", room.HasPod)

	require.NoError(t, w.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "review-17"}}))
	var s corev1.Service
	w.Eventually("the Service is there again", func(ctx context.Context) bool {
		s = corev1.Service{}
		return w.Get(ctx, w.Key("review-17"), &s) == nil && s.DeletionTimestamp == nil
	})
	assert.True(t, metav1.IsControlledBy(&s, r))
}

// Row 51: our label is taken from a live Pod of a one-shot run. To the watch that is its removal; it is not taken for gone, and its result counts.
func TestAOneShotPodWithoutItsLabelIsNotTakenForGone(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.start()
	w.OneShot("review-17")
	w.Run("review-17", room.HasPod)
	w.Kubelet("review-17", room.Listens)
	w.Run("review-17", isRunning)
	var p corev1.Pod
	require.NoError(t, w.Get(ctx, w.Key("review-17"), &p))
	before := p.DeepCopy()
	delete(p.Labels, v1alpha1.LabelRun)
	require.NoError(t, w.Patch(ctx, &p, client.MergeFrom(before)))
	w.OneShot("next")
	w.Run("next", room.HasPod)
	r := w.Run("review-17", room.Exists)
	require.False(t, r.Ended(), r.Status.Message)
	w.Kubelet("review-17", ends(0, ""))
	w.Touch(r)
	assert.Equal(t, v1alpha1.ReasonCompleted, w.Run("review-17", (*v1alpha1.AgentRun).Ended).Status.Reason)
}

// R9, row 33: a cancel deletes the Pod; what the harness left as it ended is the record, though the Pod is gone a moment later.
func TestAResultThatGoesWithItsPodIsRecorded(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.start()
	w.OneShot("review-17", onNode)
	w.Run("review-17", room.HasPod)
	w.Kubelet("review-17", room.Listens)
	r := w.Run("review-17", isRunning)
	cancelled := r.DeepCopy()
	cancelled.Spec.Cancel = true
	require.NoError(t, w.Patch(ctx, cancelled, client.MergeFrom(r)))
	p := w.Terminating("review-17")
	w.Kubelet("review-17", ends(2, leaves("the real end came first")))
	w.Remove(p)
	r = w.Run("review-17", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, "the real end came first", r.Status.Message)
}

// R7, R41: the image cannot be pulled until the time to start is over. The Pod goes first; the record says why.
func TestARunThatNeverStartsEndsByItsDeadline(t *testing.T) {
	w := newWorld(t)
	stop := w.start()
	w.OneShot("review-17", onNode, func(r *v1alpha1.AgentRun) { r.Spec.StartingDeadlineSeconds = ptr.To[int64](25) })
	w.Run("review-17", room.HasPod)
	w.Kubelet("review-17", func(s *corev1.PodStatus) {
		s.Phase = corev1.PodPending
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", Image: "i", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	})
	w.Run("review-17", room.Says("ImagePullBackOff: no such image"))
	stop()
	w.ahead.Store(int64(25 * time.Second))
	w.start()
	w.Run("review-17", func(r *v1alpha1.AgentRun) bool { return !r.Ended() && room.Says("not started within 25 s")(r) })
	w.Remove(w.Terminating("review-17"))
	r := w.Run("review-17", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, []string{"StartingDeadlineExceeded", "not started within 25 s: container agent: ImagePullBackOff: no such image"}, []string{r.Status.Reason, r.Status.Message})
}

// What is invalid stays so and ends the run; what a quota forbids may be allowed later and is waited for.
func TestWhatIsInvalidEndsARunAndAQuotaIsWaitedFor(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	require.NoError(t, w.Create(ctx, quota))
	quota.Status.Hard = quota.Spec.Hard
	quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	require.NoError(t, w.Status().Update(ctx, quota))
	w.start()
	w.OneShot("broken", func(r *v1alpha1.AgentRun) { r.Spec.Template.Spec.NodeSelector = map[string]string{"not a label": "x"} })
	r := w.Run("broken", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, v1alpha1.ReasonInvalidTemplate, r.Status.Reason)
	assert.Contains(t, r.Status.Message, "nodeSelector")
	w.OneShot("dotted.name")
	r = w.Run("dotted.name", (*v1alpha1.AgentRun).Ended)
	assert.Equal(t, v1alpha1.ReasonInvalidTemplate, r.Status.Reason)
	assert.Contains(t, r.Status.Message, "refused the Service")
	w.OneShot("review-17")
	r = w.Run("review-17", room.Says("exceeded quota"))
	assert.False(t, r.Ended())
	require.NoError(t, w.Delete(ctx, quota))
	w.Run("review-17", room.HasPod)
}

// dying is a client of a controller that ends between a Pod's creation and the write of the run's status.
type dying struct{ client.Client }

func (d dying) Status() client.SubResourceWriter { return deadWriter{d.Client.Status()} }

type deadWriter struct{ client.SubResourceWriter }

func (deadWriter) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return assert.AnError
}

// Crash point: the Pod was made and nobody wrote it down. The next process takes it over, also where it has ended by then: one Pod a run.
func TestAPodThatNobodyWroteDownIsTakenOver(t *testing.T) {
	for name, meanwhile := range map[string]func(*corev1.PodStatus){"it lives": room.Listens, "it ended": ends(0, "")} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(t), t.Context()
			w.OneShot("review-17")
			recorder := events.NewFakeRecorder(9)
			r := &run.Reconciler{Client: dying{w.Client}, Live: w.Client, Events: recorder, Now: w.now, Random: rand.Reader}
			_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: w.Key("review-17")})
			require.ErrorIs(t, err, assert.AnError)
			var p corev1.Pod
			require.NoError(t, w.Get(ctx, w.Key("review-17"), &p))
			require.False(t, room.HasPod(w.Run("review-17", room.Exists)))
			w.Kubelet("review-17", meanwhile)
			w.start()
			got := w.Run("review-17", room.HasPod)
			assert.Equal(t, p.UID, got.Status.PodUID)
			assert.Empty(t, recorder.Events, "nothing is told that was not written")
		})
	}
}

// stale reads a run as it was, as a cache that is far behind does.
type stale struct {
	client.Client
	run *v1alpha1.AgentRun
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if r, ok := o.(*v1alpha1.AgentRun); ok {
		s.run.DeepCopyInto(r)
		return nil
	}
	if _, ok := o.(*corev1.Pod); ok {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return s.Client.Get(ctx, key, o, options...)
}

// Row 9, R43: a cache that still shows a finished run without a Pod makes no second one and changes nothing.
func TestAStaleCacheMakesNoSecondPodAndChangesNoRecord(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	fresh := w.OneShot("review-17")
	stop := w.start()
	w.Run("review-17", room.HasPod)
	w.Kubelet("review-17", ends(0, ""))
	recorded := w.Run("review-17", (*v1alpha1.AgentRun).Ended)
	stop()
	w.Remove(w.Pod("review-17"))
	r := &run.Reconciler{Client: stale{w.Client, fresh}, Live: w.Client, Events: events.NewFakeRecorder(9), Now: w.now, Random: rand.Reader}
	_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: w.Key("review-17")})
	require.NoError(t, err)
	w.ahead.Store(int64(24 * time.Hour)) // past every deadline
	_, err = r.Reconcile(ctx, ctrl.Request{NamespacedName: w.Key("review-17")})
	require.NoError(t, err)
	assert.True(t, apierrors.IsNotFound(w.Get(ctx, w.Key("review-17"), &corev1.Pod{})))
	assert.Equal(t, recorded.ResourceVersion, w.Run("review-17", (*v1alpha1.AgentRun).Ended).ResourceVersion)
}

// A Pod that has started in the meantime is not deleted for not having started: it is deleted only as it was seen.
func TestAPodThatStartsAtTheLastMomentGoesOn(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.OneShot("review-17", onNode)
	r := &run.Reconciler{Client: w.Client, Live: w.Client, Events: events.NewFakeRecorder(9), Now: w.now, Random: rand.Reader}
	look := func() {
		_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: w.Key("review-17")})
		require.NoError(t, err)
	}
	look()
	var before corev1.Pod
	require.NoError(t, w.Get(ctx, w.Key("review-17"), &before))
	w.Kubelet("review-17", room.Listens)
	w.ahead.Store(int64(601 * time.Second))
	r.Client = behind{w.Client, &before}
	look()
	var p corev1.Pod
	require.NoError(t, w.Get(ctx, w.Key("review-17"), &p))
	assert.Nil(t, p.DeletionTimestamp)
	r.Client = w.Client
	look()
	assert.Equal(t, v1alpha1.PhaseRunning, w.Run("review-17", room.HasPod).Status.Phase)
}

// behind reads a Pod as it was.
type behind struct {
	client.Client
	pod *corev1.Pod
}

func (b behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if p, ok := o.(*corev1.Pod); ok {
		b.pod.DeepCopyInto(p)
		return nil
	}
	return b.Client.Get(ctx, key, o, options...)
}
