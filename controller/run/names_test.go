package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const uuid = types.UID("01234567-89ab-4def-8123-456789abcdef")

// longest are runs with a Pod whose names are the longest of their kind (SPEC.md, Names).
func longest() map[string]*v1alpha1.AgentRun {
	agent := strings.Repeat("a", v1alpha1.MaxAgentName)
	standing, scheduled, task := standingRun(), oneShotRun(), oneShotRun()
	standing.Name, scheduled.Name, task.Name = agent+"-9999", agent+"-4223370240", strings.Repeat("r", validation.DNS1035LabelMaxLength)
	runs := map[string]*v1alpha1.AgentRun{"standing": standing, "scheduled": scheduled, "of a Task Agent": task}
	for _, r := range runs {
		r.UID, r.Spec.AgentRef.Name = uuid, agent
	}
	adHoc := task.DeepCopy()
	adHoc.Spec.AgentRef = v1alpha1.AgentRef{}
	runs["ad hoc"] = adHoc
	return runs
}

// SPEC.md, Names; R1, R10, R13, R25: whatever is named or labelled after a run with a Pod can be, by the API's own rules, up to the
// longest names, and the Pod's host is named as it is, so that the harness starts.
func TestAllThatIsNamedAfterARunCanBe(t *testing.T) {
	for kind, r := range longest() {
		p, service, secret := BuildPod(r), BuildService(r), BuildSecret(r, "token")
		box := sandbox.Build(p)
		for of, name := range map[string]string{"Pod": p.Name, "Service": service.Name, "Sandbox": box.Name} {
			assert.Equal(t, r.Name, name, "%s: %s", kind, of)
			assert.Empty(t, validation.IsDNS1035Label(name), "%s: %s", kind, of)
			assert.Equal(t, name, wire.Hostname(name), "%s: host", kind)
		}
		objects := []metav1.Object{p, service, secret, box}
		if view, steer := v1alpha1.KeySecretNames(r.Spec.AgentRef.Name); !r.AdHoc() {
			objects = append(objects, BuildKey(r, view, "k"), BuildKey(r, steer, "k"))
			assert.Subset(t, secretsOf(p), []string{view, steer}, kind)
		}
		for _, o := range objects {
			assert.Empty(t, validation.IsDNS1123Subdomain(o.GetName()), "%s: %s", kind, o.GetName())
			labelsCanBe(t, kind, o.GetLabels())
		}
		labelsCanBe(t, kind, box.Spec.PodTemplate.Metadata.Labels)
		labelsCanBe(t, kind, service.Spec.Selector)
		assert.Contains(t, secretsOf(p), secret.Name, kind)
		for _, name := range secretsOf(p) {
			assert.Empty(t, validation.IsDNS1123Subdomain(name), "%s: %s", kind, name)
		}
	}
}

func labelsCanBe(t *testing.T, kind string, labels map[string]string) {
	t.Helper()
	require.NotEmpty(t, labels, kind)
	for key, value := range labels {
		assert.Empty(t, validation.IsValidLabelValue(value), "%s: %s", kind, key)
	}
}

// secretsOf are the names of the Secrets that a Pod reads.
func secretsOf(p *corev1.Pod) []string {
	var names []string
	for _, v := range p.Spec.Volumes {
		if v.Secret != nil {
			names = append(names, v.Secret.SecretName)
		}
	}
	for _, e := range p.Spec.Containers[0].Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			names = append(names, e.ValueFrom.SecretKeyRef.Name)
		}
	}
	return names
}

// No two objects of one kind share a name, however Agents and runs are named after each other.
func TestNoTwoSecretsShareAName(t *testing.T) {
	var names []string
	uid := string(uuid[:8])
	for _, name := range []string{"a", "a-1", "a-acp", "a-acp-view", "a-acp-steer", "a-" + uid, "a-" + uid + "-harness", "a-" + uid + "-acp-view",
		strings.Repeat("r", 62), strings.Repeat("r", 62) + "x", strings.Repeat("r", 62) + "y"} {
		view, steer := v1alpha1.KeySecretNames(name)
		names = append(names, view, steer, v1alpha1.RunSecretName(name, uuid), v1alpha1.RunSecretName(name, "fedcba98-89ab-4def-8123-456789abcdef"))
	}
	all := len(names)
	slices.Sort(names)
	assert.Len(t, slices.Compact(names), all)
}
