package admission_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/test/apiserver"
)

// task is a Task Agent with a template that has something of everything that an API server writes differently.
func (w *world) task(name string) *v1alpha1.Agent {
	a := w.agent(name)
	a.Spec.Mode, a.Spec.Runtime.Delivery = v1alpha1.AgentModeTask, nil
	a.Spec.Parameters[0].Default = ptr.To("HEAD")
	a.Spec.Budget = &v1alpha1.Budget{Tokens: ptr.To[int64](1000), Cost: &v1alpha1.Cost{Amount: "0.50", Currency: "USD"}}
	a.Spec.Template.Labels = map[string]string{"team": "payments"}
	a.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1024Mi"), corev1.ResourceCPU: resource.MustParse("1000m")}
	a.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "debug", ContainerPort: 6060}}
	a.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LEVEL", Value: "debug"}, {Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}}
	a.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return a
}

func (w *world) scheduled(name string) *v1alpha1.Agent {
	a := w.task(name)
	a.Spec.Mode, a.Spec.Schedule = v1alpha1.AgentModeScheduled, &v1alpha1.Schedule{Cron: "0 6 * * *"}
	return a
}

// R21, R34: a sparse run of a Task Agent is stored with everything that its Pod needs. The Agent was made a moment before.
func TestARunOfATaskAgentIsStoredAsACompleteSnapshot(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.task("digest")
	require.NoError(t, w.user.Create(ctx, agent))
	run := w.run("work", "digest")
	require.NoError(t, w.user.Create(ctx, run))

	var stored v1alpha1.AgentRun
	require.NoError(t, w.user.Get(ctx, client.ObjectKeyFromObject(run), &stored))
	assert.Equal(t, v1alpha1.AgentRunSpec{
		AgentRef:   v1alpha1.AgentRef{Name: "digest", UID: agent.UID, Generation: 1},
		Parameters: map[string]string{"change": "PR 17", "concern": "correctness"},
		Goal:       "Review PR 17 for correctness.",
		Runtime:    &agent.Spec.Runtime, Template: &agent.Spec.Template, Backend: v1alpha1.BackendPod,
		ActiveDeadlineSeconds: ptr.To[int64](1800), StartingDeadlineSeconds: ptr.To[int64](3600), TTLSecondsAfterFinished: ptr.To[int64](604800),
		Budget: agent.Spec.Budget,
	}, stored.Spec)
	assert.Empty(t, stored.OwnerReferences, "its record outlives its Agent")
	assert.True(t, stored.OneShot())
	assert.False(t, stored.Standing())

	// It is immutable like every other, but for its cancel; and its author may hold its record.
	changed := stored.DeepCopy()
	changed.Spec.Template.Spec.Containers[0].Image = "evil"
	refused(t, w.user.Patch(ctx, changed, client.MergeFrom(&stored)), "Forbidden", "spec.template")
	require.ErrorContains(t, w.user.Patch(ctx, changed, client.MergeFrom(&stored)), newRun)
	cancelled := stored.DeepCopy()
	cancelled.Spec.Cancel, cancelled.Finalizers = true, []string{"example.com/archive"}
	require.NoError(t, w.user.Patch(ctx, cancelled, client.MergeFrom(&stored)))
	free := cancelled.DeepCopy()
	free.Finalizers = nil
	require.NoError(t, w.user.Patch(ctx, free, client.MergeFrom(cancelled)))
}

// R21, R23: codes and names of runs with a Pod of their own, as a person sees them, by every way to create.
func TestOneShotRunsThroughTheRealAPIServer(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	silent := w.agent("silent")
	silent.Spec.Runtime.Delivery, silent.Spec.GoalTemplate = nil, ""
	needy := w.task("needy")
	needy.Spec.Parameters[0].Default = nil
	for _, agent := range []*v1alpha1.Agent{w.task("digest"), w.scheduled("nightly"), w.agent("reviewer"), silent, needy} {
		require.NoError(t, w.user.Create(ctx, agent), agent.Name)
	}
	trusted := server.ClientAsGroup(t, apiserver.GarbageCollector, "system:masters")
	broken, impossible := w.task("broken"), w.task("impossible") // as they look when they were stored before the webhooks were there
	broken.Spec.GoalTemplate = "${"
	impossible.Spec.Template.Spec.HostNetwork = true
	require.NoError(t, trusted.Create(ctx, broken))
	require.NoError(t, trusted.Create(ctx, impossible))
	w.known(t, "digest", "digest", "nightly")

	named := func(name string) func(*v1alpha1.AgentRun) { return func(r *v1alpha1.AgentRun) { r.Name = name } }
	of := func(agent string) func(*v1alpha1.AgentRun) {
		return func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name = agent }
	}
	generated := func(prefix string) func(*v1alpha1.AgentRun) {
		return func(r *v1alpha1.AgentRun) { r.Name, r.GenerateName = "", prefix }
	}
	kubeconfig, printedFor := apiserver.Kubeconfig(t, server.As(t, user)), map[v1alpha1.RefusalCode]bool{}
	const podNames = "Pod, Service and host are named as the run is"
	for name, c := range map[string]struct {
		change func(*v1alpha1.AgentRun)
		code   v1alpha1.RefusalCode
		field  string
		says   string
	}{
		"a missing Agent":      {of("nobody"), v1alpha1.RefusalMissingAgent, "spec.agentRef.name", `there is no "nobody"`},
		"no Agent":             {of(""), v1alpha1.RefusalMissingAgent, "spec.agentRef.name", "runs without one (ad hoc) are off"},
		"a Scheduled Agent":    {of("nightly"), v1alpha1.RefusalWrongMode, "spec.agentRef.name", "its runs are made by its schedule alone"},
		"no delivery":          {of("silent"), v1alpha1.RefusalDeliveryDisabled, "spec.agentRef.name", "silent has none"},
		"a preset goal":        {func(r *v1alpha1.AgentRun) { r.Spec.Goal = "mine" }, v1alpha1.RefusalConflictingFields, "spec.goal", onlySparse},
		"a preset backend":     {func(r *v1alpha1.AgentRun) { r.Spec.Backend = v1alpha1.BackendPod }, v1alpha1.RefusalConflictingFields, "spec.backend", onlySparse},
		"a preset budget":      {func(r *v1alpha1.AgentRun) { r.Spec.Budget = &v1alpha1.Budget{Tokens: ptr.To[int64](1)} }, v1alpha1.RefusalConflictingFields, "spec.budget", onlySparse},
		"a preset ttl":         {func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = ptr.To[int64](0) }, v1alpha1.RefusalConflictingFields, "spec.ttlSecondsAfterFinished", onlySparse},
		"a broken template":    {of("broken"), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", "the goalTemplate of Agent broken cannot be filled"},
		"a Pod that cannot be": {of("impossible"), v1alpha1.RefusalInvalidTemplate, "spec.agentRef.name", "spec.template.spec.hostNetwork"},
		"missing": {func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.Name, r.Spec.Parameters = "needy", nil },
			v1alpha1.RefusalMissingParameters, "spec.parameters", `"change"`},
		"unused": {func(r *v1alpha1.AgentRun) { r.Spec.Parameters["chnage"] = "x" }, v1alpha1.RefusalUnusedParameters, "spec.parameters", `"chnage"`},
		"delivered, 300 KiB": {func(r *v1alpha1.AgentRun) {
			r.Spec.AgentRef.Name, r.Spec.Parameters["change"] = "reviewer", strings.Repeat("x", 300<<10)
		}, v1alpha1.RefusalInvalidDelivery, "spec.parameters.change", "at most 262144 bytes"},
		"300 KiB":           {func(r *v1alpha1.AgentRun) { r.Spec.Parameters["change"] = strings.Repeat("x", 300<<10) }, "Invalid", "spec.parameters.change", "at most 262144 bytes"},
		"a standing run's":  {named("digest-1"), v1alpha1.RefusalReservedName, "metadata.name", generateName},
		"a scheduled run's": {named("nightly-29812345"), v1alpha1.RefusalReservedName, "metadata.name", generateName},
		"64 letters":        {named(strings.Repeat("a", 64)), "Invalid", "metadata.name", podNames},
		"a dot":             {named("a.b"), "Invalid", "metadata.name", podNames},
		"a digit first":     {named("1a"), "Invalid", "metadata.name", podNames},
		"a generated dot":   {generated("a.b-"), "Invalid", "metadata.name", podNames},
		"a generated digit": {generated("1a-"), "Invalid", "metadata.name", podNames},
		"a label of ours":   {func(r *v1alpha1.AgentRun) { r.Labels = map[string]string{v1alpha1.LabelAgent: "nightly"} }, "Forbidden", "metadata.labels", otherPrefix},
		"a schedule's mark": {func(r *v1alpha1.AgentRun) {
			r.Annotations = map[string]string{v1alpha1.AnnotationScheduledAt: "2026-11-29T06:00:00Z"}
		}, "Forbidden", "metadata.annotations", otherPrefix},
		"an Agent that owns it": {func(r *v1alpha1.AgentRun) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "hearth.dev/v1alpha1", Kind: "Agent", Name: "digest", UID: "u", Controller: ptr.To(true)}}
		}, "Forbidden", "metadata.ownerReferences", sayWhose},
	} {
		t.Run(name, func(t *testing.T) {
			run := w.run("work", "digest")
			c.change(run)
			for _, opts := range [][]client.CreateOption{nil, {client.DryRunAll}} {
				err := w.user.Create(t.Context(), run.DeepCopy(), opts...)
				refused(t, err, string(c.code), c.field)
				assert.Contains(t, err.Error(), c.says)
			}
			if printedFor[c.code] { // once for each code: kubectl takes its time
				return
			}
			printedFor[c.code] = true
			printed := kubectlCreates(t, kubeconfig, run)
			assert.Contains(t, printed, c.field+": ", "a person reads which field it is")
			assert.Contains(t, printed, c.says, "and what to do")
		})
	}
	assert.Len(t, printedFor, 11, "each code but NamespaceNotServed, which is the binary's: see cmd/controller")
	var runs v1alpha1.AgentRunList
	require.NoError(t, w.user.List(ctx, &runs, client.InNamespace(w.namespace)))
	assert.Empty(t, runs.Items, "nothing was stored")

	for _, prefix := range []string{"digest-", "nightly-", strings.Repeat("a", 63), strings.Repeat("b", 200)} {
		run := w.run("", "digest")
		run.GenerateName = prefix
		require.NoError(t, w.user.Create(ctx, run), prefix)
		assert.LessOrEqual(t, len(run.Name), 63, "the API server cuts a long prefix, so that a Pod can have the name")
	}
	require.NoError(t, w.user.Create(ctx, w.run(strings.Repeat("a", 63), "digest")))
	require.NoError(t, w.user.Create(ctx, w.run("digest-29812345", "digest")), "no schedule makes runs of it")
	require.NoError(t, w.user.Create(ctx, w.run("1."+strings.Repeat("a", 200), "reviewer")), "a delivered run has no Pod")
}

// The controller makes a schedule's runs past admission, with marks that a user cannot take away; a user may cancel one.
func TestAScheduledRunIsTheControllersAndCanBeCancelled(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.scheduled("nightly")
	require.NoError(t, w.user.Create(ctx, agent))
	spec, refusals := admission.ResolveScheduled(agent)
	require.Empty(t, refusals)
	run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "nightly-29812345", Labels: map[string]string{v1alpha1.LabelAgent: "nightly"},
		Annotations: map[string]string{v1alpha1.AnnotationScheduledAt: "2026-11-29T06:00:00Z"}}, Spec: spec}
	require.NoError(t, w.controller.Create(ctx, run))
	assert.Equal(t, spec, run.Spec, "it is stored as it was resolved")
	for field, change := range map[string]func(*v1alpha1.AgentRun){
		"metadata.labels":      func(r *v1alpha1.AgentRun) { r.Labels = nil },
		"metadata.annotations": func(r *v1alpha1.AgentRun) { r.Annotations = nil },
		"spec.goal":            func(r *v1alpha1.AgentRun) { r.Spec.Goal = "another" },
	} {
		changed := run.DeepCopy()
		change(changed)
		refused(t, w.user.Patch(ctx, changed, client.MergeFrom(run)), "Forbidden", field)
	}
	cancelled := run.DeepCopy()
	cancelled.Spec.Cancel = true
	require.NoError(t, w.user.Patch(ctx, cancelled, client.MergeFrom(run)))

	needy := w.scheduled("needy")
	needy.Spec.Parameters[0].Default = nil
	refused(t, w.user.Create(ctx, needy), "MissingParameters", "spec.parameters")
	restarts := w.task("restarts")
	restarts.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	refused(t, w.user.Create(ctx, restarts), "InvalidTemplate", "spec.template.spec.restartPolicy")
}

// SPEC.md, Admission: nobody but the controller cordons a standing run, and nobody takes a cordon away.
func TestAUserCannotCordon(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.agent("reviewer")
	require.NoError(t, w.user.Create(ctx, agent))
	for name, cordoned := range map[string]bool{"reviewer-1": false, "reviewer-2": true} {
		standing := w.standing(agent, name)
		require.NoError(t, w.controller.Create(ctx, standing))
		at := ptr.To(metav1.NowMicro())
		if cordoned {
			standing.Status.CordonedAt = at
		}
		standing.Status.Phase = v1alpha1.PhaseRunning
		require.NoError(t, w.controller.Status().Update(ctx, standing))
		f := forgery{name: "cordon", of: standing, code: "Forbidden", field: "status", instead: cancelIt, try: onRun(func(r *v1alpha1.AgentRun) {
			if cordoned {
				r.Status.CordonedAt = nil
			} else {
				r.Status.CordonedAt = at
			}
		})}
		for way, write := range waysToWriteStatus(w.user) {
			if err := write(t, f.of, f.try); !cordoned || err != nil || !strings.HasPrefix(way, "server-side apply") {
				f.refused(t, way, err)
			}
		}
		var now v1alpha1.AgentRun
		require.NoError(t, w.admin.Get(ctx, client.ObjectKeyFromObject(standing), &now))
		assert.Equal(t, cordoned, now.Status.CordonedAt != nil)
	}
}

func (w *world) adHoc(name string) *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.AgentRunSpec{
		Goal: "Tidy ${up}.", Runtime: &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}}, Template: &w.task("x").Spec.Template,
	}}
}

// Ad-hoc runs, with the rights of config/ad-hoc and without them: off by default, refused while nobody can be asked about, and then
// for those who may create Pods in the namespace.
func TestAdHocRunsNeedTheRightToCreatePods(t *testing.T) {
	ctx := t.Context()
	serve(t, admission.Options{AllowAdHocRuns: true})
	w := newNamespace(t)
	err := w.user.Create(ctx, w.adHoc("work"))
	require.ErrorContains(t, err, "ask whether the author of an ad-hoc run may create Pods in "+w.namespace, "without config/ad-hoc the controller may not ask: nobody passes")
	require.ErrorContains(t, err, "subjectaccessreviews.authorization.k8s.io is forbidden")

	root, err := apiserver.Root()
	require.NoError(t, err)
	require.NoError(t, apiserver.Apply(ctx, server.Admin(t), filepath.Join(root, "config", "ad-hoc", "rights.yaml")))
	t.Cleanup(func() {
		for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
			o.SetName("hearth-controller-ad-hoc")
			assert.NoError(t, w.admin.Delete(context.WithoutCancel(ctx), o))
		}
	})
	says := ""
	require.Eventually(t, func() bool { // the authorizer takes a moment to see a new binding
		says = w.user.Create(ctx, w.adHoc("work")).Error()
		return strings.Contains(says, "[Forbidden] spec.template")
	}, patience, 50*time.Millisecond, says)
	require.ErrorContains(t, w.user.Create(ctx, w.adHoc("work"), client.DryRunAll), "expected an author who may create Pods in this namespace", "a dry run says the same")

	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pods"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}}}}
	require.NoError(t, w.admin.Create(ctx, role))
	require.NoError(t, w.admin.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pods"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pods"}}))
	run := w.adHoc("work")
	require.Eventually(t, func() bool { return w.user.Create(ctx, run.DeepCopy(), client.DryRunAll) == nil }, patience, 50*time.Millisecond)
	require.NoError(t, w.user.Create(ctx, run))
	var stored v1alpha1.AgentRun
	require.NoError(t, w.user.Get(ctx, client.ObjectKeyFromObject(run), &stored))
	assert.Equal(t, v1alpha1.AgentRunSpec{
		Goal: "Tidy ${up}.", Runtime: &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Permissions: v1alpha1.Permissions{Policy: v1alpha1.PermissionDeny},
			Output: v1alpha1.OutputRuntime{MediaType: v1alpha1.MediaTypeText}, Steering: v1alpha1.SteeringWatchOnly, Session: v1alpha1.SessionFresh},
		Template: stored.Spec.Template, Backend: v1alpha1.BackendPod,
		ActiveDeadlineSeconds: ptr.To[int64](1800), StartingDeadlineSeconds: ptr.To[int64](3600), TTLSecondsAfterFinished: ptr.To[int64](604800),
	}, stored.Spec)
	assert.Equal(t, "registry/agent:1", stored.Spec.Template.Spec.Containers[0].Image)
	assert.True(t, stored.AdHoc())

	bad := w.adHoc("bad")
	bad.Spec.Template.Spec.HostNetwork = true
	refused(t, w.user.Create(ctx, bad), "InvalidTemplate", "spec.template.spec.hostNetwork")
	refused(t, w.user.Create(ctx, w.adHoc("a.b")), "Invalid", "metadata.name")
	sharded, nameless := w.adHoc("sharded"), w.adHoc("nameless")
	sharded.Labels, nameless.Labels = in("blue"), in("")
	require.NoError(t, w.user.Create(ctx, sharded), "who makes a run without an Agent says whose it is, as the author of an Agent does")
	assert.Equal(t, in("blue"), sharded.Labels)
	refused(t, w.user.Create(ctx, nameless), "Invalid", shardLabel)
	changed := stored.DeepCopy()
	changed.Spec.Goal = "another"
	refused(t, w.user.Patch(ctx, changed, client.MergeFrom(&stored)), "Forbidden", "spec.goal")
	cancelled := stored.DeepCopy()
	cancelled.Spec.Cancel = true
	require.NoError(t, w.user.Patch(ctx, cancelled, client.MergeFrom(&stored)))
}
