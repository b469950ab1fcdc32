package record_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
)

// older is an API server that drops some fields of a status, and a client that checks it.
type older struct {
	t       *testing.T
	drops   []string
	idle    bool // finds that nothing changes
	at      time.Time
	log     bytes.Buffer
	said    *events.FakeRecorder
	checked *record.Checked
}

func newOlder(t *testing.T, drops ...string) *older {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, hearthv1.AddToScheme(scheme))
	o := &older{t: t, drops: drops, at: at, said: events.NewFakeRecorder(8)}
	var stored []client.Object
	for _, name := range []string{"a", "b"} {
		stored = append(stored, &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)}, Spec: hearthv1.AgentRunSpec{Goal: "a secret goal"}})
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored...).WithStatusSubresource(&hearthv1.AgentRun{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			run, ok := obj.(*hearthv1.AgentRun)
			require.True(t, ok, "%T", obj)
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(run)
			require.NoError(t, err)
			for _, field := range o.drops {
				unstructured.RemoveNestedField(fields, strings.Split("status."+field, ".")...)
			}
			*run = hearthv1.AgentRun{} // as the client's decoder does
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, run))
			if o.idle {
				return nil
			}
			return c.SubResource(sub).Update(ctx, run, opts...)
		}}).Build()
	o.checked = record.NewChecked(api, slog.New(slog.NewTextHandler(&o.log, nil)), func() time.Time { return o.at })
	o.checked.Tell(o.said)
	return o
}

func (o *older) write(name, message string) (*hearthv1.AgentRun, error) {
	o.t.Helper()
	var r hearthv1.AgentRun
	require.NoError(o.t, o.checked.Get(o.t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &r))
	r.Status = hearthv1.AgentRunStatus{Phase: hearthv1.PhaseRunning, Message: message, Outcome: "private", StartTime: record.Micro(at)}
	return &r, o.checked.Status().Update(o.t.Context(), &r)
}

// R12: a field that an older CRD drops is said once a process, by name and never by value, in the log and on the object; and the caller
// sees that it is not stored.
func TestADroppedStatusFieldIsSaidOnce(t *testing.T) {
	o := newOlder(t, "outcome")
	for _, name := range []string{"a", "b", "a"} {
		r, err := o.write(name, "m"+o.at.String())
		require.NoError(t, err)
		assert.Empty(t, r.Status.Outcome)
		assert.Equal(t, record.Micro(at).UTC(), r.Status.StartTime.UTC())
		assert.Equal(t, "a secret goal", r.Spec.Goal)
	}
	assert.Equal(t, 1, strings.Count(o.log.String(), "level=ERROR"), o.log.String())
	assert.Contains(t, o.log.String(), "kind=AgentRun field=status.outcome namespace=team name=a")
	assert.NotContains(t, o.log.String(), "private")
	require.Len(t, o.said.Events, 1)
	said := <-o.said.Events
	assert.Contains(t, said, "Warning OlderCRD")
	assert.Contains(t, said, "apply config/crd of the controller's version. Not stored: status.outcome")
	assert.NotContains(t, said, "private")

	o.drops = append(o.drops, "message")
	_, err := o.write("a", "another")
	require.NoError(t, err)
	require.Len(t, o.said.Events, 1, "another field is another thing to say")
	assert.Contains(t, <-o.said.Events, "Not stored: status.message")
}

func TestAStatusThatIsKeptIsNotSpokenOf(t *testing.T) {
	o := newOlder(t)
	for i := range 40 {
		_, err := o.write("a", strings.Repeat("m", i+1))
		require.NoError(t, err)
	}
	assert.Empty(t, o.log.String())
	assert.Empty(t, o.said.Events)
}

// What is stored never becomes what is wanted: writes that lose fields get rare, each object's for itself, and are free again once the
// CRD keeps the fields.
func TestWritesThatLoseFieldsDoNotGoOnForEver(t *testing.T) {
	o := newOlder(t, "outcome")
	burst := func(name string) (written int) {
		for i := range 40 {
			_, err := o.write(name, o.at.String()+strings.Repeat("m", i))
			if wait, held := record.HeldFor(err); held {
				assert.Equal(t, 30*time.Second, wait)
				assert.ErrorContains(t, err, "expected a CRD of the controller's version")
				return written
			}
			require.NoError(t, err)
			written++
		}
		return written
	}
	assert.Equal(t, 16, burst("a"))
	assert.Equal(t, 16, burst("b"))
	o.at = o.at.Add(30 * time.Second)
	assert.Equal(t, 1, burst("a"))
	o.at, o.drops = o.at.Add(30*time.Second), nil
	assert.Equal(t, 40, burst("a"), "the CRD was updated")
	_, held := record.HeldFor(errors.New("another"))
	assert.False(t, held)
}

// A write that the API server finds to change nothing sends no event, so it is not one of a loop.
func TestAWriteThatChangesNothingIsNotCounted(t *testing.T) {
	o := newOlder(t, "outcome")
	o.idle = true
	for range 40 {
		_, err := o.write("a", "same")
		require.NoError(t, err)
	}
	assert.NotEmpty(t, o.log.String())
}
