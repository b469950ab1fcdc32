package run

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

func standingRun() *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "reviewer-1", UID: "01234567-89ab-cdef", Generation: 1, Labels: map[string]string{v1alpha1.LabelAgent: "reviewer"},
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

// R1 and SPEC.md, Resources: the whole Pod, read by people when it changes (go test ./controller/run -run Golden -update).
func TestPodMatchesItsGolden(t *testing.T) {
	run := standingRun()
	before := run.DeepCopy()
	got, err := yaml.Marshal(BuildPod(run))
	require.NoError(t, err)
	assert.Equal(t, before, run, "the run is not touched")
	const golden = "testdata/pod.yaml"
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
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
