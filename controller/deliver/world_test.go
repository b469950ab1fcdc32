package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/deliver"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/room"
	"github.com/hearthdev/hearth/test/harness"
)

const (
	patience = time.Minute
	port     = 4100
	goal     = "Review PR 17 for correctness."
)

var api = apiserver.New(apiserver.Options{})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(api.Main(m))
}

// world is a namespace with an Agent named reviewer. The test plays kubelet and the other reconcilers.
type world struct {
	t     *testing.T
	ns    string
	kube  kube.Client
	agent *hearthv1.Agent
	// scheme and backend of the standing runs made from now on; HTTPS and Pod unless set.
	scheme  hearthv1.DeliveryScheme
	backend hearthv1.Backend
	// limits of controllers started from now on; the defaults unless set: a busy machine must not make anything time out.
	limits client.Timeouts
	// log and spans of controllers started from now on; none unless set.
	log   *slog.Logger
	spans *trace.Spans
	// reattach is how long controllers started from now on wait for what a target holds; the default unless set.
	reattach time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ns: api.Namespace(t), kube: api.Client(t), log: slog.New(slog.DiscardHandler)}
	w.agent = &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Name: "reviewer", Namespace: w.ns},
		Spec:       hearthv1.AgentSpec{GoalTemplate: "${goal}", Runtime: runtime(), Template: template()},
	}
	require.NoError(t, w.kube.Create(t.Context(), w.agent))
	return w
}

func runtime() hearthv1.AgentRuntime {
	return hearthv1.AgentRuntime{Command: []string{"scripted"}, Delivery: &hearthv1.DeliveryRuntime{Port: port}}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: hearthv1.AgentContainer, Image: "scripted"}}}}
}

// target is a standing run with its Pod and the harness in it.
type target struct {
	w       *world
	run     *hearthv1.AgentRun
	pod     *corev1.Pod
	ip      string
	harness *harness.Harness
}

// standing makes a standing run whose Pod is Ready, with a harness.
func (w *world) standing(name string, o harness.Options) *target {
	w.t.Helper()
	x := w.placeholder(name)
	x.boot(o)
	x.ready()
	return x
}

// placeholder makes a standing run with its Secret and a Pod that has no IP yet.
func (w *world) placeholder(name string) *target {
	w.t.Helper()
	x := &target{w: w, ip: room.NewIP()}
	x.run = &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.ns, Labels: map[string]string{hearthv1.LabelAgent: w.agent.Name},
			Annotations: map[string]string{hearthv1.AnnotationGeneration: "1"}, OwnerReferences: owned("Agent", w.agent),
		},
		Spec: hearthv1.AgentRunSpec{
			AgentRef: hearthv1.AgentRef{Name: w.agent.Name, UID: w.agent.UID, Generation: 1}, Runtime: ptr.To(runtime()), Template: ptr.To(template()),
		},
	}
	x.run.Spec.Runtime.Delivery.Scheme, x.run.Spec.Backend = w.scheme, w.backend
	require.NoError(w.t, w.kube.Create(w.t.Context(), x.run))
	require.NoError(w.t, w.kube.Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: hearthv1.RunSecretName(name, x.run.UID), Namespace: w.ns, OwnerReferences: owned("AgentRun", x.run)},
		Data:       map[string][]byte{hearthv1.SecretToken: []byte(harness.Root)},
	}))
	x.makePod()
	return x
}

func owned(kind string, o kube.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "hearth.dev/v1alpha1", Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true)}}
}

func (x *target) makePod() {
	x.w.t.Helper()
	x.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: x.run.Name, Namespace: x.w.ns, OwnerReferences: owned("AgentRun", x.run),
			Labels: map[string]string{hearthv1.LabelRun: x.run.Name, hearthv1.LabelAgent: x.w.agent.Name},
		},
		Spec: template().Spec,
	}
	if x.run.Spec.Backend == hearthv1.BackendSandbox {
		o := &x.pod.OwnerReferences[0]
		o.APIVersion, o.Kind, o.UID = "agents.x-k8s.io/v1beta1", "Sandbox", "a Sandbox of the run"
	}
	require.NoError(x.w.t, x.w.kube.Create(x.w.t.Context(), x.pod))
}

func (x *target) boot(o harness.Options) {
	x.w.t.Helper()
	o.Identity = wire.Identity{Namespace: x.w.ns, PodName: x.pod.Name, PodUID: string(x.pod.UID)}
	o.Address = x.address()
	x.harness = harness.Start(x.w.t, o)
}

func (x *target) address() string { return net.JoinHostPort(x.ip, fmt.Sprint(port)) }

// ready is what kubelet would write.
func (x *target) ready() {
	x.w.t.Helper()
	x.pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: x.ip, PodIPs: []corev1.PodIP{{IP: x.ip}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: hearthv1.AgentContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
	require.NoError(x.w.t, x.w.kube.Status().Update(x.w.t.Context(), x.pod))
}

// remove takes the Pod away at once, as a lost node does, and its harness with it.
func (x *target) remove() {
	x.w.t.Helper()
	x.harness.Stop()
	require.NoError(x.w.t, x.w.kube.Delete(x.w.t.Context(), x.pod, kube.GracePeriodSeconds(0)))
}

// deliver creates a delivered run as admission stores it.
func (w *world) deliver(name, goal string, change ...func(*hearthv1.AgentRun)) *hearthv1.AgentRun {
	w.t.Helper()
	run := &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns},
		Spec: hearthv1.AgentRunSpec{
			AgentRef: hearthv1.AgentRef{Name: w.agent.Name, UID: w.agent.UID, Generation: 1}, Goal: goal,
			Runtime: ptr.To(runtime()), Delivery: &hearthv1.DeliverySpec{Port: port},
			ActiveDeadlineSeconds: ptr.To[int64](600), StartingDeadlineSeconds: ptr.To[int64](600), BackoffLimit: ptr.To[int32](0),
		},
	}
	for _, c := range change {
		c(run)
	}
	require.NoError(w.t, w.kube.Create(w.t.Context(), run))
	return run
}

func (w *world) get(run *hearthv1.AgentRun) (*hearthv1.AgentRun, error) {
	var out hearthv1.AgentRun
	err := w.kube.Get(w.t.Context(), kube.ObjectKeyFromObject(run), &out)
	return &out, err
}

// until waits until the stored run is as wanted, and says how it is when it never is.
func (w *world) until(run *hearthv1.AgentRun, what string, is func(*hearthv1.AgentRun) bool) *hearthv1.AgentRun {
	w.t.Helper()
	var last *hearthv1.AgentRun
	ok := w.eventually(func() bool {
		r, err := w.get(run)
		if err == nil {
			last = r
		}
		return err == nil && is(r)
	})
	if !ok {
		w.t.Fatalf("run %s is not %s: phase %s, %s, delivery %+v", run.Name, what, last.Status.Phase, reason(last), last.Status.Delivery)
	}
	return last
}

func (w *world) eventually(done func() bool) bool {
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(10 * time.Millisecond); time.Now().Before(deadline); <-tick.C {
		if done() {
			tick.Stop()
			return true
		}
	}
	return false
}

func (w *world) ended(run *hearthv1.AgentRun) *hearthv1.AgentRun {
	w.t.Helper()
	return w.until(run, "ended", func(r *hearthv1.AgentRun) bool { return r.Status.CompletionTime != nil })
}

func (w *world) reasonIs(run *hearthv1.AgentRun, want string) *hearthv1.AgentRun {
	w.t.Helper()
	return w.until(run, want, func(r *hearthv1.AgentRun) bool { return reason(r) == want })
}

func reason(r *hearthv1.AgentRun) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, hearthv1.AgentRunConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}

// process is one controller process.
type process struct {
	stop   func()
	loads  *deliver.Loads
	mu     sync.Mutex
	asked  map[string]int         // requests to the API server but watches, by method and what they are about
	looks  map[string]int         // by run, how often it was read from the cache: once a look
	writes map[string][]string    // by run, the reason that each committed write left
	refuse func(run string) error // for each status write, before it is sent
	fail   func(run string) error // for each status write, after it was committed
	deny   func(path string) bool // of each read, whether the API server fails instead of answering it
}

// through answers reads that are denied.
func (p *process) through(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		p.mu.Lock()
		deny := p.deny
		if !r.URL.Query().Has("watch") {
			p.asked[r.Method+" "+resourceOf(r.URL.Path)]++
		}
		p.mu.Unlock()
		if r.Method != http.MethodGet || deny == nil || !deny(r.URL.Path) {
			return next.RoundTrip(r)
		}
		failed := httptest.NewRecorder()
		failed.WriteHeader(http.StatusInternalServerError)
		return failed.Result(), nil
	})
}

// resourceOf is a path without the names in it.
func resourceOf(path string) string {
	_, rest, _ := strings.Cut(path, "/namespaces/")
	parts := strings.Split(rest, "/") // namespace, resource, name, subresource
	if len(parts) < 2 {
		return path
	}
	return strings.Join(append([]string{parts[1]}, parts[min(3, len(parts)):]...), "/")
}

// requests are those since the last time that was asked.
func (p *process) requests() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.asked
	p.asked = map[string]int{}
	return out
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// denies has the process's reads fail from now on, or no more.
func (p *process) denies(deny func(path string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deny = deny
}

// wrote waits until the process knows of its last write, which others may see before, and checks the reasons that a run's status
// went through, one for each write.
func (p *process) wrote(t *testing.T, run string, want ...string) {
	t.Helper()
	assert.Eventually(t, func() bool { return len(p.written(run)) >= len(want) }, patience, 10*time.Millisecond)
	assert.Equal(t, want, p.written(run))
}

func (p *process) written(run string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes[run])
}

func (p *process) looked(run string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks[run]
}

// controller starts a process; it is stopped at the end of the test or before.
func (w *world) controller() *process { return w.controllerAt(time.Now) }

// controllerAt starts one with a clock.
func (w *world) controllerAt(now func() time.Time) *process {
	w.t.Helper()
	p := &process{asked: map[string]int{}, looks: map[string]int{}, writes: map[string][]string{}}
	reach := rest.CopyConfig(api.Controller(w.t))
	reach.Wrap(p.through)
	mgr, err := ctrl.NewManager(reach, ctrl.Options{
		Scheme: apiserver.Scheme(w.t), Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		NewClient:  p.newClient,
		Cache:      cacheOptions(w.ns),
	})
	require.NoError(w.t, err)
	p.loads, err = deliver.SetupWithManager(mgr, deliver.Options{
		Links: deliver.NewLinks(), Now: now, Log: w.log, Spans: w.spans,
		Timeouts: w.limits, ReattachWithin: w.reattach,
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // ended by stop
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := mgr.Start(ctx); err != nil {
			w.t.Errorf("the manager ended: %v", err)
		}
	}()
	p.stop = sync.OnceFunc(func() { cancel(); <-over })
	w.t.Cleanup(p.stop)
	return p
}

func cacheOptions(ns string) cache.Options {
	o := pod.CacheOptions()
	o.DefaultNamespaces = map[string]cache.Config{ns: {}}
	o.ByObject[&hearthv1.AgentRun{}] = cache.ByObject{Transform: deliver.Transform}
	return o
}

// newClient counts looks at runs, and status writes that were committed.
func (p *process) newClient(cfg *rest.Config, o kube.Options) (kube.Client, error) {
	c, err := kube.NewWithWatch(cfg, o)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c kube.WithWatch, key kube.ObjectKey, o kube.Object, opts ...kube.GetOption) error {
			if _, ok := o.(*hearthv1.AgentRun); ok {
				p.mu.Lock()
				p.looks[key.Name]++
				p.mu.Unlock()
			}
			return c.Get(ctx, key, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c kube.Client, sub string, o kube.Object, opts ...kube.SubResourceUpdateOption) error {
			p.mu.Lock()
			refuse := p.refuse
			p.mu.Unlock()
			if refuse != nil {
				if err := refuse(o.GetName()); err != nil {
					return err
				}
			}
			if err := c.SubResource(sub).Update(ctx, o, opts...); err != nil {
				return err
			}
			p.mu.Lock()
			if r, ok := o.(*hearthv1.AgentRun); ok {
				p.writes[r.Name] = append(p.writes[r.Name], reason(r))
			}
			fail := p.fail
			p.mu.Unlock()
			if fail != nil {
				return fail(o.GetName())
			}
			return nil
		},
	}), nil
}

// once gives an error for the first so many writes of a run's status.
func once(run string, times int32, err error) func(string) error {
	var writes atomic.Int32
	return func(name string) error {
		if name == run && writes.Add(1) <= times {
			return err
		}
		return nil
	}
}

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Group: "hearth.dev", Resource: "agentruns"}, "run", errors.New("a test"))
}

func timeout() error { return apierrors.NewTimeoutError("the reply was lost", 0) }

var (
	random = rand.NewChaCha8([32]byte{1})
	quiet  = slog.New(slog.DiscardHandler)
)

func now() time.Time { return time.Now() }

func backoff(int) time.Duration { return 50 * time.Millisecond }
