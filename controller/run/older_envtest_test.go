package run_test

import (
	"bytes"
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/room"
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
	options := room.Options()
	options.NewClient = func(c *rest.Config, o client.Options) (client.Client, error) {
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
	}
	mgr := w.Manager(older.Controller(w.t), options)
	checked.Tell(mgr.GetEventRecorder("hearth"))
	w.reconcile(mgr)
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
	probe := w.OneShot("probe")
	w.Eventually("the older CRD is served", func(ctx context.Context) bool {
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
	w := &world{t: t, Room: room.New(t, older)}
	w.dropFields(older, "completionTime", "startTime")
	log, writes := w.startOlder(older)
	w.OneShot("review")
	w.Run("review", room.HasPod)
	w.Kubelet("review", room.Listens)
	w.Run("review", isRunning)
	w.Kubelet("review", ends(0, leaves("private words")))
	w.Run("review", func(r *v1alpha1.AgentRun) bool { return r.Status.Outcome != "" })

	w.Eventually("the fields are said on the run", func(ctx context.Context) bool {
		var list eventsv1.EventList
		said := ""
		if w.List(ctx, &list, client.InNamespace(w.Namespace)) == nil {
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
		w.OneShot(name)
		w.Run(name, room.HasPod)
		w.Kubelet("review", func(s *corev1.PodStatus) { s.Message = name })
	}
	const others = 8 // before its Pod ran nothing was lost
	assert.LessOrEqual(t, writes.Load(), int32(16+others))
	assert.Greater(t, writes.Load(), int32(2))
}
