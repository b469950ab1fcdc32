package run

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
)

var update = flag.Bool("update", false, "write the golden files")

func standingRun() *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "reviewer-1", UID: "01234567-89ab-cdef", Generation: 1, CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{v1alpha1.LabelAgent: "reviewer"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "hearth.dev/v1alpha1", Kind: "Agent", Name: "reviewer", UID: "agent-uid", Controller: ptr.To(true)}},
		},
		Spec: v1alpha1.AgentRunSpec{
			AgentRef: v1alpha1.AgentRef{Name: "reviewer", UID: "agent-uid", Generation: 4},
			Goal:     "You review changes.",
			Runtime: &v1alpha1.AgentRuntime{Command: []string{"goose", "acp"}, Permissions: v1alpha1.Permissions{Policy: v1alpha1.PermissionDeny},
				Delivery: &v1alpha1.DeliveryRuntime{Port: 4100, Concurrency: 2, Queue: ptr.To[int32](3)}},
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "payments"}, Annotations: map[string]string{"note": "x"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "agent", Image: "registry/agent:1", Env: []corev1.EnvVar{{Name: "GOOSE_MODEL", Value: "m"}}},
					{Name: "sidecar", Image: "registry/sidecar:1"},
				}},
			},
		},
	}
}

// oneShotRun is a run of a Task Agent as admission stores it.
func oneShotRun() *v1alpha1.AgentRun {
	run := standingRun()
	run.Name, run.OwnerReferences, run.Labels = "review-17", nil, nil
	run.Spec.Goal = "Review PR 17."
	run.Spec.Runtime.Delivery = nil
	run.Spec.ActiveDeadlineSeconds, run.Spec.StartingDeadlineSeconds = ptr.To[int64](1800), ptr.To[int64](600)
	run.Spec.Template.Spec.Containers = run.Spec.Template.Spec.Containers[:1]
	return run
}

// R1 and SPEC.md, Resources: the whole Pod, read by people when it changes (go test ./controller/run -run Golden -update).
func TestPodMatchesItsGolden(t *testing.T) {
	for golden, run := range map[string]*v1alpha1.AgentRun{"testdata/pod.yaml": standingRun(), "testdata/oneshot.yaml": oneShotRun()} {
		before := run.DeepCopy()
		got, err := yaml.Marshal(BuildPod(run))
		require.NoError(t, err)
		assert.Equal(t, before, run, "the run is not touched")
		if *update {
			require.NoError(t, os.WriteFile(golden, got, 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
}

// SPEC.md, Shards: whatever is made for a run has its shard, by which its controller sees it.
func TestWhatIsMadeForARunHasItsShard(t *testing.T) {
	run := standingRun()
	run.Labels[v1alpha1.LabelShard] = "blue"
	p := BuildPod(run)
	for _, made := range []metav1.Object{p, BuildService(run), BuildSecret(run, "token"), sandbox.Build(p)} {
		assert.Equal(t, "blue", made.GetLabels()[v1alpha1.LabelShard], "%T", made)
		assert.Equal(t, "reviewer-1", made.GetLabels()[v1alpha1.LabelRun], "%T", made)
	}
	assert.NotContains(t, stamped(nil, standingRun()), v1alpha1.LabelShard)
}

func env(c corev1.Container) map[string]string {
	set := map[string]string{}
	for _, e := range c.Env {
		set[e.Name] = e.Value
	}
	return set
}

// R11, R30: what the template and the run's limits add to a one-shot run's Pod.
func TestAOneShotPodHasItsLimits(t *testing.T) {
	run := oneShotRun()
	run.Spec.Budget = &v1alpha1.Budget{Tokens: ptr.To[int64](200000), Cost: &v1alpha1.Cost{Amount: "5", Currency: "USD"}}
	run.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	run.Spec.Template.Spec.Containers[0].TerminationMessagePath = "/tmp/end"
	p := BuildPod(run)
	set := env(container(t, p, "agent"))
	for name, want := range map[string]string{"HEARTH_ACTIVE_DEADLINE": "1800s", "HEARTH_BUDGET_TOKENS": "200000", "HEARTH_BUDGET_COST": "5 USD", "HEARTH_TERMINATION_LOG": "/tmp/end", "HEARTH_DRAIN": "0s"} {
		assert.Equal(t, want, set[name], name)
	}
	assert.Equal(t, corev1.RestartPolicyNever, p.Spec.RestartPolicy)
	assert.Equal(t, int64(600), *p.Spec.TerminationGracePeriodSeconds, "the template's own")
}

// What an Agent says of its use is its harness's configuration; what is the harness's own default is not said.
func TestTheTermsOfUseAreTheHarnesssConfiguration(t *testing.T) {
	run := standingRun()
	r := run.Spec.Runtime
	r.Output.MediaType, r.Steering, r.Session = v1alpha1.MediaTypeText, v1alpha1.SteeringWatchOnly, v1alpha1.SessionFresh
	r.Permissions.AskTimeoutSeconds = ptr.To[int32](60)
	names := []string{"HEARTH_ASK_TIMEOUT", "HEARTH_STEERING", "HEARTH_OUTPUT", "HEARTH_ENDPOINT", "HEARTH_SESSION"}
	for _, name := range names {
		assert.NotContains(t, env(container(t, BuildPod(run), "agent")), name)
	}
	r.Output.MediaType, r.Steering, r.Session, r.Endpoint = v1alpha1.MediaTypeJSON, v1alpha1.SteeringSteer, v1alpha1.SessionStanding, "ws://127.0.0.1:4001/acp"
	r.Permissions.Policy = v1alpha1.PermissionAsk
	agent := container(t, BuildPod(run), "agent")
	assert.Equal(t, []string{"serve", "--", "goose", "acp"}, agent.Args)
	want := map[string]string{"HEARTH_PERMISSIONS": "Ask", "HEARTH_ASK_TIMEOUT": "60s", "HEARTH_STEERING": "Steer", "HEARTH_OUTPUT": "application/json",
		"HEARTH_ENDPOINT": "ws://127.0.0.1:4001/acp", "HEARTH_SESSION": "Standing"}
	for name, value := range want {
		assert.Equal(t, value, env(agent)[name], name)
	}
	r.Command = nil
	assert.Equal(t, []string{"serve"}, container(t, BuildPod(run), "agent").Args, "a server beside the harness")

	once := oneShotRun()
	once.Spec.Runtime.Steering, once.Spec.Runtime.Endpoint, once.Spec.Runtime.Session = v1alpha1.SteeringSteer, "ws://127.0.0.1:4001/acp", v1alpha1.SessionStanding
	once.Spec.Runtime.Command = nil
	agent = container(t, BuildPod(once), "agent")
	assert.Equal(t, []string{"run"}, agent.Args)
	assert.Equal(t, "Steer", env(agent)["HEARTH_STEERING"])
	assert.Equal(t, string(once.UID), env(agent)["HEARTH_RUN_UID"])
	assert.NotContains(t, env(agent), "HEARTH_SESSION", "it has one, and ends with it")
	assert.NotContains(t, env(container(t, BuildPod(run), "agent")), "HEARTH_RUN_UID", "a standing run's goals are of other runs")
}

// R11: kubelet shares 12 KiB among the termination messages of a Pod, and cuts what is longer in the middle of its JSON.
func TestAHarnessAmongManyContainersLeavesAShorterEnvelope(t *testing.T) {
	for containers, want := range map[int]string{1: "", 3: "", 4: "3072", 5: "2457", 12: "1024", 40: "1024"} {
		run := oneShotRun()
		for n := range containers - 1 {
			c := corev1.Container{Name: fmt.Sprintf("c%d", n), Image: "i"}
			if n%2 == 0 {
				run.Spec.Template.Spec.InitContainers = append(run.Spec.Template.Spec.InitContainers, c)
			} else {
				run.Spec.Template.Spec.Containers = append(run.Spec.Template.Spec.Containers, c)
			}
		}
		assert.Equal(t, want, env(container(t, BuildPod(run), "agent"))["HEARTH_TERMINATION_BYTES"], "%d containers", containers)
	}
}

// Nobody delivers to a one-shot run, whatever its runtime says: it has neither token nor port, in the Pod as in the Secret.
func TestAOneShotPodTakesNoDeliveries(t *testing.T) {
	run := oneShotRun()
	run.Spec.Runtime.Delivery = &v1alpha1.DeliveryRuntime{Port: 4100, Concurrency: 1}
	agent := container(t, BuildPod(run), "agent")
	for _, name := range []string{"HEARTH_DELIVERY_TOKEN", "HEARTH_DELIVERY_LISTEN", "HEARTH_QUEUE", "HEARTH_CONCURRENCY"} {
		assert.NotContains(t, env(agent), name)
	}
	assert.Len(t, agent.Ports, 1)
	assert.Equal(t, map[string][]byte{"goal": []byte("Review PR 17.")}, BuildSecret(run, "token").Data)
}

// An ad-hoc run is of no Agent: there are no keys for people, and no label of one.
func TestAnAdHocRunHasNoAgentsKeys(t *testing.T) {
	run := oneShotRun()
	run.Spec.AgentRef = v1alpha1.AgentRef{}
	p := BuildPod(run)
	assert.NotContains(t, env(container(t, p, "agent")), "HEARTH_ACP_VIEW_KEY")
	assert.NotContains(t, env(container(t, p, "agent")), "HEARTH_ACP_STEER_KEY")
	assert.Equal(t, map[string]string{"team": "payments", v1alpha1.LabelRun: "review-17"}, p.Labels)
	assert.NotContains(t, BuildSecret(run, "").Labels, v1alpha1.LabelAgent)
}

// SPEC.md, Admission: what is not complete was not admitted, and gets no Pod.
func TestOnlyACompleteRunIsAdmitted(t *testing.T) {
	change := func(run *v1alpha1.AgentRun, f func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun { f(run); return run }
	for name, c := range map[string]struct {
		run  *v1alpha1.AgentRun
		want bool
	}{
		"standing": {standingRun(), true},
		"standing, orphaned": {change(standingRun(), func(r *v1alpha1.AgentRun) {
			r.OwnerReferences = nil
			r.Annotations = map[string]string{v1alpha1.AnnotationGeneration: "4"}
		}), false},
		"standing, other Agent": {change(standingRun(), func(r *v1alpha1.AgentRun) { r.OwnerReferences[0].UID = "other" }), false},
		"standing, no template": {change(standingRun(), func(r *v1alpha1.AgentRun) { r.Spec.Template = nil }), false},
		"one-shot":              {oneShotRun(), true},
		"ad hoc":                {change(oneShotRun(), func(r *v1alpha1.AgentRun) { r.Spec.AgentRef = v1alpha1.AgentRef{} }), true},
		"unresolved Agent":      {change(oneShotRun(), func(r *v1alpha1.AgentRun) { r.Spec.AgentRef.UID = "" }), false},
		"no runtime":            {change(oneShotRun(), func(r *v1alpha1.AgentRun) { r.Spec.Runtime = nil }), false},
		"no template":           {change(oneShotRun(), func(r *v1alpha1.AgentRun) { r.Spec.Template = nil }), false},
		"no goal":               {change(oneShotRun(), func(r *v1alpha1.AgentRun) { r.Spec.Goal = "" }), false},
		"no time of its own":    {change(oneShotRun(), func(r *v1alpha1.AgentRun) { r.Spec.ActiveDeadlineSeconds = nil }), false},
		"no time to start":      {change(oneShotRun(), func(r *v1alpha1.AgentRun) { r.Spec.StartingDeadlineSeconds = nil }), false},
	} {
		assert.Equal(t, c.want, admitted(c.run), name)
	}
}

func container(t *testing.T, p *corev1.Pod, name string) corev1.Container {
	t.Helper()
	for _, c := range p.Spec.Containers {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s", name)
	return corev1.Container{}
}

func TestWithoutDeliveryThereIsNoTokenAndNoPort(t *testing.T) {
	run := standingRun()
	run.Spec.Runtime.Delivery, run.Spec.Goal = nil, ""
	p := BuildPod(run)
	agent := container(t, p, "agent")
	for _, e := range agent.Env {
		assert.NotContains(t, []string{"HEARTH_DELIVERY_TOKEN", "HEARTH_DELIVERY_LISTEN", "HEARTH_GOAL_FILE", "HEARTH_QUEUE"}, e.Name)
	}
	assert.Len(t, agent.Ports, 1)
	for _, v := range p.Spec.Volumes {
		assert.Nil(t, v.Secret, "nothing of the Secret is mounted without a goal")
	}
	secret := BuildSecret(run, "token")
	assert.NotContains(t, secret.Data, "token")
}

// The token reaches the harness as environment only: a file beside the agent could be read by it.
func TestOnlyTheGoalIsMountedFromTheSecret(t *testing.T) {
	run := standingRun()
	secret := BuildSecret(run, "0123456789")
	assert.Equal(t, map[string][]byte{"token": []byte("0123456789"), "goal": []byte("You review changes.")}, secret.Data)
	assert.Equal(t, "reviewer-1-01234567-harness", secret.Name)
	assert.True(t, *secret.Immutable)
	assert.Equal(t, run.UID, secret.OwnerReferences[0].UID)
	p := BuildPod(run)
	for _, v := range p.Spec.Volumes {
		if v.Secret != nil {
			assert.Equal(t, []corev1.KeyToPath{{Key: "goal", Path: "goal"}}, v.Secret.Items)
			assert.Equal(t, secret.Name, v.Secret.SecretName)
		}
	}
	text, err := yaml.Marshal(p)
	require.NoError(t, err)
	assert.NotContains(t, string(text), run.Spec.Goal, "a goal is no part of the Pod")
}

func TestWhatTheTemplateAsksForIsKept(t *testing.T) {
	run := standingRun()
	s := &run.Spec.Template.Spec
	s.TerminationGracePeriodSeconds, s.AutomountServiceAccountToken = ptr.To[int64](600), ptr.To(true)
	s.Volumes = []corev1.Volume{{Name: "scratch"}}
	s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/tmp/"}}
	s.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0), ReadOnlyRootFilesystem: ptr.To(false), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
	s.Containers[1].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	s.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageReadFile
	s.Containers[0].Ports = []corev1.ContainerPort{{Name: "acp", ContainerPort: 4000}, {Name: "debug", ContainerPort: 6060}}
	p := BuildPod(run)
	assert.Equal(t, int64(600), *p.Spec.TerminationGracePeriodSeconds)
	assert.True(t, *p.Spec.AutomountServiceAccountToken)
	assert.Len(t, p.Spec.Volumes, 3, "its own /tmp is used")
	assert.Nil(t, p.Spec.SecurityContext.RunAsNonRoot, "root was asked for")
	agent := container(t, p, "agent")
	assert.False(t, *agent.SecurityContext.ReadOnlyRootFilesystem)
	assert.Equal(t, &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}}, agent.SecurityContext.Capabilities)
	assert.Len(t, agent.Ports, 3)
	assert.Contains(t, agent.Env, corev1.EnvVar{Name: "HEARTH_DRAIN", Value: "565s"}, "the drain follows the grace period")
	assert.Nil(t, container(t, p, "sidecar").SecurityContext.AllowPrivilegeEscalation, "privileged and no escalation is an invalid Pod")
	assert.Nil(t, container(t, p, "sidecar").SecurityContext.Capabilities, "privileged has all of them")
	assert.Equal(t, corev1.TerminationMessageReadFile, agent.TerminationMessagePolicy)
	assert.Equal(t, "reviewer-1", p.Labels[v1alpha1.LabelRun])
}

// The restricted Pod security standard wants ALL dropped, whatever is added again and however that is written.
func TestCapabilitiesAreDroppedUnlessTheTemplateDropsItsOwn(t *testing.T) {
	all, bind := []corev1.Capability{"ALL"}, []corev1.Capability{"NET_BIND_SERVICE"}
	for _, c := range []struct{ asked, want *corev1.Capabilities }{
		{nil, &corev1.Capabilities{Drop: all}},
		{&corev1.Capabilities{}, &corev1.Capabilities{Drop: all}},
		{&corev1.Capabilities{Add: bind}, &corev1.Capabilities{Add: bind, Drop: all}},
		{&corev1.Capabilities{Drop: bind}, &corev1.Capabilities{Drop: bind}},
	} {
		run := standingRun()
		run.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: c.asked}
		assert.Equal(t, c.want, container(t, BuildPod(run), "agent").SecurityContext.Capabilities)
	}
}
