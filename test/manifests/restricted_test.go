package manifests_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/run"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/cluster"
)

// read gives the objects of files of this repository.
func read(t *testing.T, files ...string) []*unstructured.Unstructured {
	t.Helper()
	root, err := apiserver.Root()
	require.NoError(t, err)
	for i, file := range files {
		files[i] = filepath.Join(root, file)
	}
	objects, err := cluster.Read(files...)
	require.NoError(t, err)
	return objects
}

func as[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	var out T
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &out, true))
	return &out
}

// standingPod is the Pod that the controller makes for an Agent.
func standingPod(agent *hearthv1.Agent) *corev1.Pod {
	return run.BuildPod(&hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: agent.Name + "-1", UID: "01234567-89ab-cdef", Annotations: map[string]string{hearthv1.AnnotationGeneration: "1"}},
		Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent.Name}, Goal: agent.Spec.Goal, Runtime: &agent.Spec.Runtime, Template: &agent.Spec.Template},
	})
}

func plainAgent() *hearthv1.Agent {
	return &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Name: "plain"},
		Spec: hearthv1.AgentSpec{
			Goal:    "You review.",
			Runtime: hearthv1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &hearthv1.DeliveryRuntime{Port: 4100, Concurrency: 1}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "fetch", Image: "i"}},
				Containers:     []corev1.Container{{Name: hearthv1.AgentContainer, Image: "i"}},
			}},
		},
	}
}

// violations of the restricted Pod security standard, newest version, by the code that Kubernetes itself enforces it with.
func violations(t *testing.T, p *corev1.Pod) []string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	var found []string
	for _, result := range evaluator.EvaluatePod(restricted, &p.ObjectMeta, &p.Spec) {
		if !result.Allowed {
			found = append(found, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	return found
}

// soft is what of our own hardening, beyond the standard, a Pod lacks.
func soft(p *corev1.Pod, token bool) []string {
	var found []string
	if ptr.Deref(p.Spec.EnableServiceLinks, true) {
		found = append(found, "enableServiceLinks")
	}
	if ptr.Deref(p.Spec.AutomountServiceAccountToken, true) && !token {
		found = append(found, "automountServiceAccountToken")
	}
	for _, c := range p.Spec.Containers {
		if c.SecurityContext == nil || !ptr.Deref(c.SecurityContext.ReadOnlyRootFilesystem, false) {
			found = append(found, "readOnlyRootFilesystem of "+c.Name)
		}
		seccomp := ptr.Deref(p.Spec.SecurityContext, corev1.PodSecurityContext{}).SeccompProfile
		if c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
			seccomp = c.SecurityContext.SeccompProfile
		}
		if seccomp == nil || seccomp.Type != corev1.SeccompProfileTypeRuntimeDefault {
			found = append(found, "seccompProfile of "+c.Name)
		}
	}
	return found
}

// Everything that we make or install runs under the restricted Pod security standard, on a read-only root (but a template's init
// containers, which are there to write), and but for the controller without a service-account token.
func TestWhatWeInstallIsRestricted(t *testing.T) {
	pods, tokens := map[string]*corev1.Pod{"a plain template": standingPod(plainAgent())}, map[string]bool{}
	for _, object := range read(t, "config/manager/controller.yaml", "config/samples/agent.yaml", "test/demo/reviewer.yaml", "test/cluster/model.yaml",
		"examples/runtime-python/agent.yaml", "examples/steps/config/agents.yaml") {
		name := object.GetKind() + " " + object.GetName()
		switch object.GetKind() {
		case "Deployment":
			template := as[appsv1.Deployment](t, object).Spec.Template
			pods[name], tokens[name] = &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, true
		case "Pod":
			pods[name] = as[corev1.Pod](t, object)
		case "Agent":
			for pods[name] != nil {
				name += ", another"
			}
			pods[name] = standingPod(as[hearthv1.Agent](t, object))
		}
	}
	require.Len(t, pods, 10, "every manifest has its Pod")
	for name, p := range pods {
		assert.Empty(t, violations(t, p), name)
		assert.Empty(t, soft(p, tokens[name]), name)
	}
}

// The test above sees: each measure taken away shows.
func TestEachMeasureOfHardeningIsSeen(t *testing.T) {
	for measure, weaken := range map[string]func(*corev1.PodSpec){
		"runAsNonRoot":                 func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
		"seccompProfile":               func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
		"allowPrivilegeEscalation":     func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"capabilities":                 func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil },
		"an init container's":          func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext.Capabilities = nil },
		"readOnlyRootFilesystem":       func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil },
		"automountServiceAccountToken": func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil },
		"enableServiceLinks":           func(s *corev1.PodSpec) { s.EnableServiceLinks = nil },
	} {
		p := standingPod(plainAgent())
		weaken(&p.Spec)
		assert.NotEmpty(t, append(violations(t, p), soft(p, false)...), measure)
	}
}

// A template that asks for more is its author's decision, and the namespace's standard then decides.
func TestATemplateThatAsksForMoreGetsIt(t *testing.T) {
	agent := plainAgent()
	s := &agent.Spec.Template.Spec
	s.AutomountServiceAccountToken = ptr.To(true)
	s.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0), ReadOnlyRootFilesystem: ptr.To(false)}
	p := standingPod(agent)
	assert.NotEmpty(t, violations(t, p))
	assert.Equal(t, []string{"automountServiceAccountToken", "readOnlyRootFilesystem of agent"}, soft(p, false))
}
