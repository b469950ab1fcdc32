package run_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/test/apiserver"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// startOlder runs the controller before a CRD without some status fields, of which the times of its writes stand still.
func (w *world) startOlder(older *apiserver.Server) (log *lines, writes *atomic.Int32) {
	w.t.Helper()
	log, writes = &lines{}, &atomic.Int32{}
	var checked *record.Checked
	frozen := time.Now()
	mgr, err := ctrl.NewManager(older.Controller(w.t), ctrl.Options{
		Scheme: apiserver.Scheme(w.t), Cache: pod.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			direct, err := client.NewWithWatch(c, o)
			checked = record.NewChecked(interceptor.NewClient(direct, interceptor.Funcs{
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
					if obj.GetName() == "review" {
						writes.Add(1)
					}
					return c.SubResource(sub).Update(ctx, obj, opts...)
				},
			}), slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return frozen })
			return checked, err
		},
	})
	require.NoError(w.t, err)
	checked.Tell(mgr.GetEventRecorder("hearth"))
	require.NoError(w.t, (&run.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("hearth"), Now: w.now, Random: rand.Reader}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		assert.NoError(w.t, <-ended)
	})
	return log, writes
}

// dropFields makes the AgentRuns' CRD one that does not know some status fields, and waits until it is served.
func (w *world) dropFields(older *apiserver.Server, fields ...string) {
	w.t.Helper()
	ctx, scheme := w.t.Context(), runtime.NewScheme()
	require.NoError(w.t, apiextensionsv1.AddToScheme(scheme))
	crds, err := client.New(older.Admin(w.t), client.Options{Scheme: scheme})
	require.NoError(w.t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(w.t, crds.Get(ctx, client.ObjectKey{Name: "agentruns.hearth.dev"}, &crd))
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	status := schema.Properties["status"]
	for _, field := range fields {
		require.Contains(w.t, status.Properties, field)
		delete(status.Properties, field)
		of := func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, field) }
		schema.XValidations, status.XValidations = slices.DeleteFunc(schema.XValidations, of), slices.DeleteFunc(status.XValidations, of)
	}
	schema.Properties["status"] = status
	require.NoError(w.t, crds.Update(ctx, &crd))
	probe := w.oneShot("probe")
	w.eventually("the older CRD is served", func(ctx context.Context) bool {
		if err := w.Get(ctx, client.ObjectKeyFromObject(probe), probe); err != nil {
			return false
		}
		probe.Status = v1alpha1.AgentRunStatus{Restarts: probe.Status.Restarts + 1, CompletionTime: record.Micro(time.Now())}
		checked := record.NewChecked(w.Client, slog.New(slog.DiscardHandler), time.Now)
		return checked.Status().Update(ctx, probe) == nil && probe.Status.CompletionTime == nil
	})
	require.NoError(w.t, w.Delete(ctx, probe))
}

// R12: a controller that was updated before its CRDs says which fields are dropped. Here it is even the one that makes a record final:
// the run never ends by what is stored, and is written a bounded number of times all the same.
func TestARecordThatAnOlderCRDDropsIsSaidAndNotWrittenForEver(t *testing.T) {
	older := apiserver.ForTest(t, apiserver.Options{})
	w := &world{t: t, namespace: older.Namespace(t), Client: older.Client(t)}
	w.dropFields(older, "completionTime", "startTime")
	log, writes := w.startOlder(older)
	w.oneShot("review")
	w.until("review", "has a Pod", hasPod)
	w.kubelet("review", runs)
	w.until("review", "runs", isRunning)
	w.kubelet("review", ends(0, leaves("private words")))
	w.until("review", "has an outcome", func(r *v1alpha1.AgentRun) bool { return r.Status.Outcome != "" })

	w.eventually("the fields are said on the run", func(ctx context.Context) bool {
		var list eventsv1.EventList
		said := ""
		if w.List(ctx, &list, client.InNamespace(w.namespace)) == nil {
			for _, e := range list.Items {
				if e.Reason == "OlderCRD" && e.Regarding.Kind == "AgentRun" && e.Regarding.Name == "review" {
					said += e.Note + "\n"
				}
				assert.NotEqual(t, "End", e.Action, "an end that is not stored is not told")
			}
		}
		return strings.Contains(said, "status.startTime") && strings.Contains(said, "status.completionTime")
	})
	for _, field := range []string{"status.startTime", "status.completionTime"} {
		assert.Equal(t, 1, strings.Count(log.text(), "field="+field), log.text())
	}
	assert.NotContains(t, log.text(), "private")

	for _, name := range []string{"next-1", "next-2", "next-3"} { // the controller goes on, for long enough to see a loop
		w.oneShot(name)
		w.until(name, "has a Pod", hasPod)
		w.kubelet("review", func(s *corev1.PodStatus) { s.Message = name })
	}
	const others = 8 // before its Pod ran nothing was lost
	assert.LessOrEqual(t, writes.Load(), int32(16+others))
	assert.Greater(t, writes.Load(), int32(2))
}
