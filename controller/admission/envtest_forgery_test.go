package admission_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
)

// forgery is one thing that a user tries, and the refusal: its code, its field, and what the message tells to do instead.
type forgery struct {
	name    string
	of      client.Object // what it is tried on; for a creation, the object before the forgery
	try     func(o client.Object)
	code    string
	field   string
	instead string
	// removes: server-side apply cannot remove what another manager wrote, so it may also change nothing.
	removes bool
	// named: the forgery is the name, so generateName does not apply.
	named bool
}

// the three kinds of a try, typed, so that rows read as what they do.
func onRun(change func(*v1alpha1.AgentRun)) func(client.Object) {
	return func(o client.Object) { change(o.(*v1alpha1.AgentRun)) }
}

func onAgent(change func(*v1alpha1.Agent)) func(client.Object) {
	return func(o client.Object) { change(o.(*v1alpha1.Agent)) }
}

func labelled(key string) func(client.Object) {
	return func(o client.Object) {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = "forged"
		o.SetLabels(labels)
	}
}

func annotated(o client.Object) {
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationGeneration: "9"})
}

func ownedBy(apiVersion, kind string, uid types.UID) func(client.Object) {
	return func(o client.Object) {
		first := len(o.GetOwnerReferences()) == 0 // two controllers the API server refuses itself
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "reviewer", UID: uid, Controller: &first}})
	}
}

const (
	onlySparse   = "write spec.agentRef.name and spec.parameters only"
	otherPrefix  = "use keys of another prefix"
	sayWhose     = "a run says whose it is in spec.agentRef.name"
	newRun       = "make a new run"
	changeAgent  = "change the Agent"
	cancelIt     = "set spec.cancel to stop a run, delete it to forget it"
	changeSpec   = "change spec, and it follows"
	generateName = "generateName makes one that is free"
	ownFinalizer = "put yours on the Agent or on a run of your own"
)

// marks are the forgeries of what is not spec, for any of our objects: labels, annotations, owners in every spelling of our group.
func marks(of client.Object, uid types.UID) []forgery {
	rows := []forgery{{name: "annotation", of: of, try: annotated, code: "Forbidden", field: "metadata.annotations", instead: otherPrefix}}
	for _, key := range []string{v1alpha1.LabelAgent, v1alpha1.LabelRun, "hearth.dev/anything"} {
		rows = append(rows, forgery{name: "label " + key, of: of, try: labelled(key), code: "Forbidden", field: "metadata.labels", instead: otherPrefix})
	}
	for _, owner := range [][2]string{{"hearth.dev/v1alpha1", "Agent"}, {"hearth.dev/v1alpha1", "AgentRun"}, {"hearth.dev/v1alpha1", "Anything"},
		{"hearth.dev/v9", "Agent"}, {"Hearth.Dev/v1alpha1", "agent"}, {"hearth.dev", "Agent"}} {
		rows = append(rows, forgery{name: "owner " + owner[0] + " " + owner[1], of: of, try: ownedBy(owner[0], owner[1], uid),
			code: "Forbidden", field: "metadata.ownerReferences", instead: sayWhose})
	}
	return rows
}

// R21, R23, R31: what only admission and the controller may write, at creation, by every way to create.
func TestAUserCannotCreateAForgery(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.agent("reviewer")
	require.NoError(t, w.user.Create(ctx, agent))
	w.known(t, "reviewer", "reviewer")
	real := w.run("real", "reviewer")
	require.NoError(t, w.user.Create(ctx, real))
	sparse := w.run("forged", "reviewer")
	preset := func(field string, set func(*v1alpha1.AgentRunSpec)) forgery {
		return forgery{name: field, of: sparse, try: onRun(func(r *v1alpha1.AgentRun) { set(&r.Spec) }), code: "ConflictingFields", field: field, instead: onlySparse}
	}
	standing := onRun(func(r *v1alpha1.AgentRun) {
		forged := w.standing(agent, "reviewer-7")
		r.Spec, r.Labels, r.OwnerReferences, r.Annotations = forged.Spec, forged.Labels, forged.OwnerReferences, map[string]string{v1alpha1.AnnotationGeneration: "1"}
	})
	rows := []forgery{
		{name: "a complete delivered run", of: sparse, try: onRun(func(r *v1alpha1.AgentRun) { r.Spec = *real.Spec.DeepCopy() }), code: "ConflictingFields", field: "spec.delivery", instead: onlySparse},
		{name: "a standing run", of: sparse, try: standing, code: "ConflictingFields", field: "spec.template", instead: onlySparse},
		preset("spec.agentRef.uid", func(s *v1alpha1.AgentRunSpec) { s.AgentRef.UID = agent.UID }),
		preset("spec.agentRef.generation", func(s *v1alpha1.AgentRunSpec) { s.AgentRef.Generation = 1 }),
		preset("spec.goal", func(s *v1alpha1.AgentRunSpec) { s.Goal = real.Spec.Goal }),
		preset("spec.delivery", func(s *v1alpha1.AgentRunSpec) { s.Delivery = real.Spec.Delivery }),
		preset("spec.runtime", func(s *v1alpha1.AgentRunSpec) { s.Runtime = real.Spec.Runtime }),
		preset("spec.template", func(s *v1alpha1.AgentRunSpec) { s.Template = agent.Spec.Template.DeepCopy() }),
		preset("spec.activeDeadlineSeconds", func(s *v1alpha1.AgentRunSpec) { s.ActiveDeadlineSeconds = real.Spec.ActiveDeadlineSeconds }),
		preset("spec.startingDeadlineSeconds", func(s *v1alpha1.AgentRunSpec) { s.StartingDeadlineSeconds = ptr.To[int64](1) }),
		preset("spec.backoffLimit", func(s *v1alpha1.AgentRunSpec) { s.BackoffLimit = real.Spec.BackoffLimit }),
	}
	for _, name := range []string{"reviewer-1", "reviewer-0", "reviewer-0001", "reviewer-9999"} {
		rows = append(rows, forgery{name: "name " + name, of: sparse, try: func(o client.Object) { o.SetName(name) }, code: "ReservedName", field: "metadata.name", instead: generateName, named: true})
	}
	rows = append(rows, marks(sparse, agent.UID)...)
	rows = append(rows, marks(w.agent("forged"), agent.UID)...)
	for _, f := range rows {
		t.Run(fmt.Sprintf("%T/%s", f.of, f.name), func(t *testing.T) {
			for way, create := range waysToCreate(w.user) {
				if f.named && way == "generateName" {
					continue
				}
				forged := f.of.DeepCopyObject().(client.Object)
				f.try(forged)
				f.refused(t, way, create(t, forged))
			}
		})
	}
	var runs v1alpha1.AgentRunList
	require.NoError(t, w.user.List(ctx, &runs, client.InNamespace(w.namespace)))
	assert.Len(t, runs.Items, 1, "nothing was stored")
	var agents v1alpha1.AgentList
	require.NoError(t, w.user.List(ctx, &agents, client.InNamespace(w.namespace)))
	assert.Len(t, agents.Items, 1, "nothing was stored")

	generated := w.run("", "reviewer")
	generated.GenerateName = "reviewer-"
	require.NoError(t, w.user.Create(ctx, generated), "five characters are appended: never a reserved name")
	born := w.run("born-ended", "reviewer")
	born.Status.Phase, born.Status.CompletionTime = v1alpha1.PhaseSucceeded, ptr.To(metav1.NowMicro())
	require.NoError(t, w.user.Create(ctx, born))
	assert.Equal(t, v1alpha1.AgentRunStatus{}, born.Status, "a status at creation is dropped by the API server")
	require.NoError(t, w.controller.Create(ctx, w.standing(agent, "reviewer-1")), "the controller writes what it likes")
}

// R31 at update: by every way to write, of a delivered run, a cancelled one, a standing one and an Agent, and of their status.
func TestAUserCannotForgeWhatIsStored(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.agent("reviewer")
	require.NoError(t, w.user.Create(ctx, agent))
	run, cancelled := w.run("real", "reviewer"), w.run("cancelled", "reviewer")
	cancelled.Spec.Cancel = true
	require.NoError(t, w.user.Create(ctx, run))
	require.NoError(t, w.user.Create(ctx, cancelled))
	standing := w.standing(agent, "reviewer-1")
	standing.Spec.Goal = "You review."
	standing.Annotations = map[string]string{v1alpha1.AnnotationGeneration: "1"}
	require.NoError(t, w.controller.Create(ctx, standing))
	for _, r := range []*v1alpha1.AgentRun{run, standing} {
		r.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhasePending, Message: "the controller's"}
		require.NoError(t, w.controller.Status().Update(ctx, r))
	}
	agent.Status.Recasts = 1
	require.NoError(t, w.controller.Status().Update(ctx, agent))

	spec := func(of *v1alpha1.AgentRun, field, instead string, set func(*v1alpha1.AgentRunSpec)) forgery {
		return forgery{name: field, of: of, try: onRun(func(r *v1alpha1.AgentRun) { set(&r.Spec) }), code: "Forbidden", field: field, instead: instead}
	}
	gone := func(f forgery) forgery { f.removes, f.name = true, f.name+" removed"; return f }
	var rows []forgery
	for _, of := range []struct {
		run     *v1alpha1.AgentRun
		instead string
	}{{run, newRun}, {standing, changeAgent}} {
		rows = append(rows,
			spec(of.run, "spec.goal", of.instead, func(s *v1alpha1.AgentRunSpec) { s.Goal = "another" }),
			spec(of.run, "spec.parameters", of.instead, func(s *v1alpha1.AgentRunSpec) { s.Parameters = map[string]string{"change": "PR 18"} }),
			spec(of.run, "spec.agentRef", of.instead, func(s *v1alpha1.AgentRunSpec) { s.AgentRef.Name = "another" }),
			spec(of.run, "spec.agentRef", of.instead, func(s *v1alpha1.AgentRunSpec) { s.AgentRef.UID = "another" }),
			spec(of.run, "spec.agentRef", of.instead, func(s *v1alpha1.AgentRunSpec) { s.AgentRef.Generation = 9 }),
			spec(of.run, "spec.runtime", of.instead, func(s *v1alpha1.AgentRunSpec) { s.Runtime.Permissions.Policy = v1alpha1.PermissionAllow }),
			spec(of.run, "spec.runtime", of.instead, func(s *v1alpha1.AgentRunSpec) { s.Runtime.Command = []string{"evil"} }),
			spec(of.run, "spec.template", of.instead, func(s *v1alpha1.AgentRunSpec) {
				s.Template = agent.Spec.Template.DeepCopy()
				s.Template.Spec.Containers[0].Image = "evil"
			}),
			spec(of.run, "spec.activeDeadlineSeconds", of.instead, func(s *v1alpha1.AgentRunSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](1) }),
			spec(of.run, "spec.startingDeadlineSeconds", of.instead, func(s *v1alpha1.AgentRunSpec) { s.StartingDeadlineSeconds = ptr.To[int64](1) }),
			spec(of.run, "spec.backoffLimit", of.instead, func(s *v1alpha1.AgentRunSpec) { s.BackoffLimit = ptr.To[int32](9) }),
		)
	}
	rows = append(rows,
		gone(spec(run, "spec.delivery", newRun, func(s *v1alpha1.AgentRunSpec) { s.Delivery = nil })),
		gone(spec(run, "spec.activeDeadlineSeconds", newRun, func(s *v1alpha1.AgentRunSpec) { s.ActiveDeadlineSeconds = nil })),
		spec(standing, "spec.delivery", changeAgent, func(s *v1alpha1.AgentRunSpec) { s.Delivery = &v1alpha1.DeliverySpec{Port: 4100} }),
		gone(spec(standing, "spec.template", changeAgent, func(s *v1alpha1.AgentRunSpec) { s.Template = nil })),
		gone(spec(cancelled, "spec.cancel", newRun, func(s *v1alpha1.AgentRunSpec) { s.Cancel = false })),
		gone(forgery{name: "label", of: standing, try: func(o client.Object) { o.SetLabels(nil) }, code: "Forbidden", field: "metadata.labels", instead: otherPrefix}),
		gone(forgery{name: "annotation", of: standing, try: func(o client.Object) { o.SetAnnotations(nil) }, code: "Forbidden", field: "metadata.annotations", instead: otherPrefix}),
		gone(forgery{name: "owner", of: standing, try: func(o client.Object) { o.SetOwnerReferences(nil) }, code: "Forbidden", field: "metadata.ownerReferences", instead: sayWhose}),
		gone(forgery{name: "controller flag", of: standing, try: onRun(func(r *v1alpha1.AgentRun) { r.OwnerReferences[0].Controller = nil }), code: "Forbidden", field: "metadata.ownerReferences", instead: sayWhose}),
		forgery{name: "finalizer", of: standing, try: func(o client.Object) { o.SetFinalizers([]string{"example.com/hold"}) }, code: "Forbidden", field: "metadata.finalizers", instead: ownFinalizer},
	)
	rows = append(rows, slices.Concat(marks(run, agent.UID), marks(standing, "another"), marks(agent, run.UID))...)
	status := func(name string, of client.Object, instead string, try func(client.Object)) forgery {
		return forgery{name: name, of: of, try: try, code: "Forbidden", field: "status", instead: instead}
	}
	statuses := []forgery{
		status("a record", run, cancelIt, onRun(func(r *v1alpha1.AgentRun) {
			r.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhaseSucceeded, Outcome: "Succeeded", Reason: v1alpha1.ReasonCompleted, CompletionTime: ptr.To(metav1.NowMicro())}
		})),
		status("a reservation", run, cancelIt, onRun(func(r *v1alpha1.AgentRun) {
			r.Status.Delivery = &v1alpha1.DeliveryStatus{Attempt: 7, PodName: "evil", PodUID: "evil", ReservedAt: ptr.To(metav1.NowMicro())}
		})),
		status("a lost Secret", standing, cancelIt, onRun(func(r *v1alpha1.AgentRun) {
			r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.AgentRunConditionCredentialReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialLost, LastTransitionTime: metav1.Now()}}
		})),
		status("another Pod", standing, cancelIt, onRun(func(r *v1alpha1.AgentRun) { r.Status.PodName, r.Status.PodUID = "evil", "evil" })),
		status("wiped", run, cancelIt, onRun(func(r *v1alpha1.AgentRun) { r.Status = v1alpha1.AgentRunStatus{} })),
		status("nothing changed", run, cancelIt, func(client.Object) {}),
		status("metadata", run, cancelIt, labelled(v1alpha1.LabelAgent)),
		status("metadata of its own", standing, cancelIt, labelled("team")),
		status("ready", agent, changeSpec, onAgent(func(a *v1alpha1.Agent) {
			a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.AgentConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonStanding, LastTransitionTime: metav1.Now()}}
		})),
		status("recasts", agent, changeSpec, onAgent(func(a *v1alpha1.Agent) { a.Status.Recasts = 99 })),
	}
	for _, set := range []struct {
		name string
		rows []forgery
		ways map[string]way
	}{{"", rows, waysToWrite(w.user)}, {"status ", statuses, waysToWriteStatus(w.user)}} {
		for _, f := range set.rows {
			t.Run(set.name+f.of.GetName()+"/"+f.name, func(t *testing.T) {
				before := stored(t, w.admin, f.of)
				for name, write := range set.ways {
					err := write(t, f.of, f.try)
					if !f.removes || err != nil || name != "server-side apply" && name != "server-side apply, dry run" {
						f.refused(t, name, err)
					}
				}
				assert.Equal(t, before.Object["spec"], stored(t, w.admin, f.of).Object["spec"])
				assert.Equal(t, before.Object["status"], stored(t, w.admin, f.of).Object["status"])
				assert.Equal(t, ofMetadata(before), ofMetadata(stored(t, w.admin, f.of)))
			})
		}
	}
}

// What people, tools and the garbage collector do with our objects goes on.
func TestWhatIsNoForgeryPasses(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.agent("reviewer")
	require.NoError(t, w.user.Create(ctx, agent))
	run := w.run("real", "reviewer")
	require.NoError(t, w.user.Create(ctx, run))
	run.Status.Phase = v1alpha1.PhasePending
	require.NoError(t, w.controller.Status().Update(ctx, run))
	standing := w.standing(agent, "reviewer-1")
	require.NoError(t, w.controller.Create(ctx, standing))

	replaced := run.DeepCopy() // kubectl get -o yaml | kubectl replace
	replaced.Status.Phase = v1alpha1.PhaseSucceeded
	require.NoError(t, w.user.Update(ctx, replaced))
	assert.Equal(t, v1alpha1.PhasePending, replaced.Status.Phase, "a status in an update of the object is dropped by the API server")
	for _, o := range []client.Object{replaced, standing, agent} {
		labelled := o.DeepCopyObject().(client.Object)
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels["team"] = "payments"
		labelled.SetLabels(labels)
		require.NoError(t, w.user.Patch(ctx, labelled, client.MergeFrom(o)), "labels of one's own")
	}
	held := replaced.DeepCopy()
	held.Finalizers = []string{"example.com/archive"}
	held.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "flow", UID: "1"}}
	require.NoError(t, w.user.Patch(ctx, held, client.MergeFrom(replaced)), "an owner of another kind is nobody's business (R44), and a run of one's own may be held")
	free := held.DeepCopy()
	free.Finalizers, free.Spec.Cancel = nil, true
	require.NoError(t, w.user.Patch(ctx, free, client.MergeFrom(held)))
	assert.True(t, free.Spec.Cancel)

	applied := asUnstructured(t, w.run("applied", "reviewer")) // kubectl apply --server-side, twice
	for range 2 {
		require.NoError(t, w.user.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied.DeepCopy()), client.FieldOwner("kubectl")))
	}
	var twice v1alpha1.AgentRun
	require.NoError(t, w.user.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "applied"}, &twice))
	assert.Equal(t, "Review PR 17 for correctness.", twice.Spec.Goal, "it is still complete")
	require.NotEmpty(t, twice.ManagedFields, "who applies needs to be known")

	// A run of somebody's own that claims the Agent's UID under another kind: it has no mark of ours, so it stands for nobody.
	claimed := w.run("claimed", "reviewer")
	claimed.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "reviewer", UID: agent.UID, Controller: ptr.To(true)}}
	require.NoError(t, w.user.Create(ctx, claimed))
	assert.NotNil(t, claimed.Spec.Delivery, "it is a delivered run like every other")
	var stands v1alpha1.AgentRunList
	require.NoError(t, w.user.List(ctx, &stands, client.InNamespace(w.namespace), client.MatchingLabels{v1alpha1.LabelAgent: "reviewer"}))
	assert.Len(t, stands.Items, 1)

	// The garbage collector: kubectl delete --cascade=orphan and --cascade=foreground, under each of its names.
	for _, name := range []string{apiserver.GarbageCollector, "system:kube-controller-manager"} {
		collector := server.ClientAsGroup(t, name, "system:masters")
		child := w.standing(agent, "reviewer-2")
		require.NoError(t, w.controller.Create(ctx, child))
		orphaned := child.DeepCopy()
		orphaned.OwnerReferences = nil
		require.NoError(t, collector.Patch(ctx, orphaned, client.MergeFrom(child)), name)
		require.NoError(t, w.user.Delete(ctx, child, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		require.NoError(t, w.user.Get(ctx, client.ObjectKeyFromObject(child), child))
		require.Equal(t, []string{metav1.FinalizerDeleteDependents}, child.Finalizers)
		touched := child.DeepCopy()
		touched.Labels["team"] = "payments"
		require.NoError(t, w.user.Patch(ctx, touched, client.MergeFrom(child)), "what the API server put there is no news")
		released := touched.DeepCopy()
		released.Finalizers = nil
		require.NoError(t, collector.Patch(ctx, released, client.MergeFrom(touched)), name)
		require.True(t, isGone(ctx, t, w.user, child), name)
	}
	require.NoError(t, w.user.Delete(ctx, agent))
}

// refused asserts the row's refusal.
func (f forgery) refused(t *testing.T, way string, err error) {
	t.Helper()
	require.Error(t, err, way)
	refused(t, err, f.code, f.field)
	assert.Contains(t, err.Error(), f.instead, way)
}

func asUnstructured(t *testing.T, o client.Object) *unstructured.Unstructured {
	t.Helper()
	kind := "AgentRun"
	if _, ok := o.(*v1alpha1.Agent); ok {
		kind = "Agent"
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u
}

func stored(t *testing.T, c client.Client, o client.Object) *unstructured.Unstructured {
	t.Helper()
	u := asUnstructured(t, o)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), u))
	return u
}

// ofMetadata is what a forger would change.
func ofMetadata(u *unstructured.Unstructured) []any {
	return []any{u.GetLabels(), u.GetAnnotations(), u.GetOwnerReferences(), u.GetFinalizers()}
}

func patchBetween(t *testing.T, before, after *unstructured.Unstructured) []byte {
	t.Helper()
	a, err := before.MarshalJSON()
	require.NoError(t, err)
	b, err := after.MarshalJSON()
	require.NoError(t, err)
	operations, err := jsonpatch.CreatePatch(a, b)
	require.NoError(t, err)
	if len(operations) == 0 {
		operations = []jsonpatch.Operation{jsonpatch.NewOperation("test", "/kind", before.GetKind())}
	}
	text, err := json.Marshal(operations)
	require.NoError(t, err)
	return text
}
