package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// world is an API server in memory, in which the test plays Hearth.
type world struct {
	t       *testing.T
	api     client.Client
	created []string          // names of runs, as they were created
	says    map[string]string // what a run says, by step and attempt; a run that is not here fails
	writes  int
	fault   func(write int, do func() error) error // what becomes of the operator's n-th write
}

var owner = types.NamespacedName{Namespace: "shop", Name: "checkout"}

const ownerUID = "7d3f8a52-3d0e-4c6c-9d0b-0123456789ab"

var errKilled = errors.New("killed")

func newWorld(t *testing.T, says map[string]string) *world {
	t.Helper()
	w := &world{t: t, says: says, fault: func(_ int, do func() error) error { return do() }}
	uids := 0
	w.api = fake.NewClientBuilder().WithScheme(scheme()).WithStatusSubresource(&Remediation{}, &hearthv1.AgentRun{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			uids++
			o.SetUID(types.UID(fmt.Sprint("uid-", uids)))
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	r := &Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name, UID: ownerUID}, Spec: Spec{Problem: "Checkout is slow.", Attempts: 2}}
	require.NoError(t, w.api.Create(t.Context(), r))
	r.UID = ownerUID
	require.NoError(t, w.api.Update(t.Context(), r))
	return w
}

// operator is one life of the operator.
func (w *world) operator() *operator {
	wrap := func(do func() error) error {
		w.writes++
		return w.fault(w.writes, do)
	}
	return &operator{interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // the fake is one
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return wrap(func() error {
				err := c.Create(ctx, o, opts...)
				if err == nil {
					w.created = append(w.created, o.GetName())
				}
				return err
			})
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return wrap(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	})}
}

func (w *world) remediation() *Remediation {
	w.t.Helper()
	var r Remediation
	require.NoError(w.t, w.api.Get(w.t.Context(), owner, &r))
	return &r
}

// wake is one reconcile by an operator that is started anew when it dies.
func (w *world) wake() {
	defer func() {
		if dead := recover(); dead != nil && dead != any(errKilled) {
			panic(dead)
		}
	}()
	_, _ = w.operator().Reconcile(w.t.Context(), ctrl.Request{NamespacedName: owner})
}

// end ends all runs that have not: Hearth did the work.
func (w *world) end() {
	w.t.Helper()
	var runs hearthv1.AgentRunList
	require.NoError(w.t, w.api.List(w.t.Context(), &runs))
	for i := range runs.Items {
		run := &runs.Items[i]
		if run.Ended() {
			continue
		}
		text, ok := w.says[run.Name[:len(run.Name)-len(ownerUID)-1]]
		run.Status.Phase, run.Status.Reason = hearthv1.PhaseFailed, "AgentError"
		if ok {
			run.Status.Phase, run.Status.Reason, run.Status.Output = hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, &hearthv1.Output{Value: text}
		}
		run.Status.CompletionTime = new(metav1.NowMicro())
		require.NoError(w.t, w.api.Status().Update(w.t.Context(), run))
	}
}

// play goes on until the Remediation has ended.
func (w *world) play() *Remediation {
	w.t.Helper()
	for range 60 {
		for range 3 {
			w.wake()
		}
		w.end()
		if r := w.remediation(); r.Status.Phase != "" && r.Status.Phase != working {
			return r
		}
	}
	require.Fail(w.t, "it does not end", "%+v", w.remediation().Status)
	return nil
}

func names(steps ...string) (names []string) {
	for _, s := range steps {
		names = append(names, s+"-"+ownerUID)
	}
	return names
}

// What may become of a write: killed before it, after it, refused as outdated, refused, done and told that it was not.
var faults = map[string]func(do func() error) error{
	"killed before": func(func() error) error { panic(errKilled) },
	"killed after":  func(do func() error) error { _ = do(); panic(errKilled) },
	"409": func(func() error) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "any"}, "any", errors.New("it was changed"))
	},
	"500": func(func() error) error { return apierrors.NewInternalError(errors.New("no")) },
	"504 after it was committed": func(do func() error) error {
		_ = do()
		return apierrors.NewTimeoutError("no answer", 1)
	},
}

// R44: the operator dies, or is told wrongly, at each of its writes, and no step is done twice or left out.
func TestNoStepIsRepeatedOrLeftOutWhereverItDies(t *testing.T) {
	for name, c := range map[string]struct {
		says  map[string]string
		steps []string
		phase string
	}{
		"fixed at once": {map[string]string{"analyze-1": "the pool", "execute-1": "larger", "verify-1": yes}, names("analyze-1", "execute-1", "verify-1"), resolved},
		"fixed at the second attempt": {map[string]string{"analyze-1": "the pool", "execute-1": "larger", "verify-1": no, "execute-2": "larger", "verify-2": yes},
			names("analyze-1", "execute-1", "verify-1", "execute-2", "verify-2"), resolved},
		"not fixed": {map[string]string{"analyze-1": "the pool", "escalate-1": "told"}, names("analyze-1", "execute-1", "verify-1", "execute-2", "verify-2", "escalate-1"), escalated},
		"nobody":    {nil, names("analyze-1", "escalate-1"), failed},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			check := func(t *testing.T, fault func(int, func() error) error) {
				t.Helper()
				w := newWorld(t, c.says)
				w.fault = fault
				got := w.play()
				assert.Equal(t, c.phase, got.Status.Phase)
				assert.Equal(t, c.steps, w.created)
				for i, step := range got.Status.Steps {
					assert.Equal(t, c.steps[i], step.Run)
					assert.NotEmpty(t, step.UID)
				}
				assert.Len(t, got.Status.Steps, len(c.steps))
				writes = w.writes
			}
			check(t, func(_ int, do func() error) error { return do() })
			for at := range writes {
				for kind, fault := range faults {
					t.Run(fmt.Sprint(kind, " write ", at+1), func(t *testing.T) {
						check(t, func(write int, do func() error) error {
							if write == at+1 {
								return fault(do)
							}
							return do()
						})
					})
				}
			}
		})
	}
}

// A record that was removed, by a person or by its time to live, does not make the step undone.
func TestARunThatIsGoneIsNotMadeAgain(t *testing.T) {
	w := newWorld(t, map[string]string{"analyze-1": "the pool", "escalate-1": "told"})
	w.wake()
	w.wake()
	w.end()
	w.wake()
	w.wake() // execute is under way
	require.Equal(t, names("analyze-1", "execute-1"), w.created)
	require.NoError(t, w.api.DeleteAllOf(t.Context(), &hearthv1.AgentRun{}, client.InNamespace(owner.Namespace)))
	got := w.play()
	assert.Equal(t, names("analyze-1", "execute-1", "escalate-1"), w.created)
	assert.Equal(t, escalated, got.Status.Phase)
	assert.Equal(t, recordGone, got.Status.Steps[1].Reason)
}

func TestSomebodyElsesRunIsNotTaken(t *testing.T) {
	w := newWorld(t, map[string]string{"escalate-1": "told"})
	stranger := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: names("analyze-1")[0]}}
	require.NoError(t, w.api.Create(t.Context(), stranger))
	got := w.play()
	assert.Equal(t, names("escalate-1"), w.created)
	assert.Equal(t, nameTaken, got.Status.Steps[0].Reason)
	assert.Equal(t, escalated, got.Status.Phase)
}

func TestNothingIsBegunForWhatIsBeingDeletedOrGone(t *testing.T) {
	w := newWorld(t, nil)
	r := w.remediation()
	r.Finalizers = []string{"foregroundDeletion"} // what --cascade=foreground sets
	require.NoError(t, w.api.Update(t.Context(), r))
	require.NoError(t, w.api.Delete(t.Context(), r))
	w.wake()
	w.wake()
	assert.Empty(t, w.created)
	r = w.remediation()
	assert.Empty(t, r.Status.Steps)
	r.Finalizers = nil
	require.NoError(t, w.api.Update(t.Context(), r))
	_, err := w.operator().Reconcile(t.Context(), ctrl.Request{NamespacedName: owner})
	require.NoError(t, err)
}

// What admission or a quota says stands in the status, and it is tried again.
func TestWhatHindersAStepIsSaid(t *testing.T) {
	w := newWorld(t, map[string]string{"analyze-1": "", "execute-1": "", "verify-1": yes})
	refusing := true
	w.fault = func(write int, do func() error) error {
		if refusing && write == 2 {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "agentruns"}, "x", errors.New("exceeded quota: runs"))
		}
		return do()
	}
	w.wake()
	_, err := w.operator().Reconcile(t.Context(), ctrl.Request{NamespacedName: owner})
	require.Error(t, err, "so that it is tried again")
	assert.Contains(t, w.remediation().Status.Message, "cannot begin analyze-1-"+ownerUID)
	assert.Contains(t, w.remediation().Status.Message, "exceeded quota")
	got := w.play()
	assert.Equal(t, resolved, got.Status.Phase)
	assert.Empty(t, got.Status.Message)
}
