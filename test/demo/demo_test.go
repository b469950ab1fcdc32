package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestProviderVariablesCountOnlyWithModelEnv(t *testing.T) {
	set := map[string]string{"GOOSE_PROVIDER": "p", "GOOSE_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_HOST": "https://h.example"}
	p, err := readProvider(env(set))
	require.NoError(t, err)
	assert.True(t, p.scripted)
	assert.Equal(t, "test-model", p.values["GOOSE_MODEL"])
	assert.NotContains(t, p.values, "OPENAI_HOST", "known when the scripted model stands")

	set["MODEL"] = "env"
	p, err = readProvider(env(set))
	require.NoError(t, err)
	delete(set, "MODEL")
	assert.Equal(t, provider{values: set}, p)
}

func TestProviderErrorsNameTheVariable(t *testing.T) {
	whole := map[string]string{"MODEL": "env", "GOOSE_PROVIDER": "p", "GOOSE_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_HOST": "https://h.example"}
	for _, tt := range []struct{ name, value, want string }{
		{"MODEL", "gpt", `MODEL: expected "env" or nothing, got "gpt"`},
		{"GOOSE_PROVIDER", "", "MODEL=env: GOOSE_PROVIDER is empty: expected openai"},
		{"GOOSE_MODEL", "", "MODEL=env: GOOSE_MODEL is empty: expected the model's name"},
		{"OPENAI_API_KEY", "", "MODEL=env: OPENAI_API_KEY is empty: expected the provider's key"},
		{"OPENAI_HOST", "", "MODEL=env: OPENAI_HOST is empty: expected https://api.openai.com"},
		{"OPENAI_HOST", "h.example", `OPENAI_HOST: expected a URL such as https://api.openai.com, got "h.example"`},
		{"OPENAI_HOST", "http://localhost:1", "OPENAI_HOST: localhost is the Pod itself from inside a Pod; let the model listen on an address that Pods reach (hack/cluster's node is 10.77.0.1)"},
		{"OPENAI_HOST", "http://[::1]:1", "OPENAI_HOST: ::1 is the Pod itself from inside a Pod; let the model listen on an address that Pods reach (hack/cluster's node is 10.77.0.1)"},
	} {
		values := map[string]string{}
		for k, v := range whole {
			values[k] = v
		}
		values[tt.name] = tt.value
		_, err := readProvider(env(values))
		assert.EqualError(t, err, tt.want)
	}
}

func TestReviewerIsAnAgentWithARestrictedPod(t *testing.T) {
	var agent hearthv1.Agent
	require.NoError(t, yaml.UnmarshalStrict(reviewer, &agent))
	assert.Equal(t, agentName, agent.Name)
	pod := agent.Spec.Template.Spec
	assert.True(t, *pod.SecurityContext.RunAsNonRoot)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.Len(t, pod.Containers, 1)
	agentContainer := pod.Containers[0]
	assert.Equal(t, hearthv1.AgentContainer, agentContainer.Name)
	assert.True(t, *agentContainer.SecurityContext.ReadOnlyRootFilesystem)
	assert.False(t, *agentContainer.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, []corev1.Capability{"ALL"}, agentContainer.SecurityContext.Capabilities.Drop)
	assert.Equal(t, providerSecret, agentContainer.EnvFrom[0].SecretRef.Name)
	for _, a := range asks(newMarker(), true) {
		for name := range a.parameters {
			assert.Contains(t, agent.Spec.GoalTemplate, "${"+name+"}")
		}
	}
}

// ended is a run as the controller records it.
func ended(a ask, out string) result {
	sent := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) *metav1.MicroTime {
		m := metav1.NewMicroTime(sent.Add(time.Duration(ms) * time.Millisecond))
		return &m
	}
	r := result{ask: a, sent: sent}
	r.run.Name = "review-x"
	r.run.Status = hearthv1.AgentRunStatus{
		Phase: hearthv1.PhaseSucceeded, Reason: hearthv1.ReasonCompleted, PodName: "reviewer-0", PodUID: "u",
		Conditions: []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionTrue, Reason: hearthv1.ReasonCompleted}},
		Delivery:   &hearthv1.DeliveryStatus{ReservedAt: at(10), AcceptedAt: at(25)}, StartTime: at(26), RecordedAt: at(140),
		Output: &hearthv1.Output{Value: out},
	}
	return r
}

func TestCheckAcceptsOnlyWhatTheDemoPromises(t *testing.T) {
	m := newMarker()
	good := func() []result {
		var out []result
		for _, a := range asks(m, true) {
			out = append(out, ended(a, "well: "+a.want))
		}
		return out
	}
	require.NoError(t, check(good(), m, m.token+"\n", nil))
	for _, tt := range []struct {
		name, want string
		change     func(rs []result, marked *string)
	}{
		{"a failed run", "expected Succeeded, is Failed/AgentError: why", func(rs []result, _ *string) {
			rs[0].run.Status.Phase, rs[0].run.Status.Message = hearthv1.PhaseFailed, "why"
			rs[0].run.Status.Conditions[0] = metav1.Condition{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionFalse, Reason: "AgentError"}
		}},
		{"no record of times", "lacks times", func(rs []result, _ *string) { rs[1].run.Status.Delivery.AcceptedAt = nil }},
		{"other output", `expected "PR 19 reviewed for races" in its output, is "x"`, func(rs []result, _ *string) { rs[2].run.Status.Output.Value = "x" }},
		{"no output", "in its output, is \"\"", func(rs []result, _ *string) { rs[2].run.Status.Output = nil }},
		{"two Pods", "one standing Pod", func(rs []result, _ *string) { rs[2].run.Status.PodUID = "other" }},
		{"no marker", "expected one line", func(_ []result, marked *string) { *marked = "" }},
		{"the side effect twice", "expected one line", func(_ []result, marked *string) { *marked += *marked }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rs, marked := good(), m.token+"\n"
			tt.change(rs, &marked)
			var wrong failedChecks
			require.ErrorAs(t, check(rs, m, marked, nil), &wrong)
			require.Len(t, wrong, 1)
			assert.Contains(t, wrong[0], tt.want)
		})
	}
}

func TestAMarkerThatCannotBeReadIsNoMarker(t *testing.T) {
	m := newMarker()
	var rs []result
	for _, a := range asks(m, true) {
		rs = append(rs, ended(a, a.want))
	}
	require.ErrorContains(t, check(rs, m, m.token+"\n", errors.New("no such file")), "no such file")
}

func TestARealModelMayChooseItsWordsButMustReportTheMarker(t *testing.T) {
	m := newMarker()
	a := asks(m, false)
	rs := []result{ended(a[0], "looks fine"), ended(a[1], "it printed "+m.token), ended(a[2], "no races")}
	require.NoError(t, check(rs, m, m.token+"\n", nil))
	rs[0].run.Status.Output.Value = "  "
	require.Error(t, check(rs, m, m.token+"\n", nil))
	rs[0].run.Status.Output.Value = "x"
	rs[1].run.Status.Output.Value = "done"
	require.Error(t, check(rs, m, m.token+"\n", nil))
}

func TestTimelineCountsFromTheSendAndFromTheMomentBefore(t *testing.T) {
	var out strings.Builder
	r := ended(asks(newMarker(), true)[0], "two\nlines\n")
	printTimeline(&out, r)
	assert.Equal(t, `
review-x  Succeeded/Completed on reviewer-0
  created   03:04:05.000000     0.0 ms     +0.0 ms  (this client's clock, at send)
  reserved  03:04:05.010000    10.0 ms    +10.0 ms  (controller)
  accepted  03:04:05.025000    25.0 ms    +15.0 ms  (harness)
  started   03:04:05.026000    26.0 ms     +1.0 ms  (harness)
  recorded  03:04:05.140000   140.0 ms   +114.0 ms  (controller)
  output    two
            lines
`, out.String())

	out.Reset()
	r.run.Status.StartTime, r.run.Status.Message = nil, strings.Repeat("ä", maxLine+1)
	printTimeline(&out, r)
	r.run.Status.Output = nil
	printTimeline(&out, r)
	assert.Contains(t, out.String(), "  started   not recorded\n")
	assert.Contains(t, out.String(), "  output    (none)\n")
	assert.Contains(t, out.String(), "  message   "+strings.Repeat("ä", maxLine)+"…\n")
}

func TestTwinIsNoPodOfTheControllers(t *testing.T) {
	warm := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: demoNamespace, Name: "reviewer-0", UID: "u", Labels: map[string]string{hearthv1.LabelRun: "reviewer-0"},
		OwnerReferences: []metav1.OwnerReference{{Name: "reviewer-0"}},
	}}
	warm.Spec = corev1.PodSpec{NodeName: "node1", Hostname: "reviewer-0", Containers: []corev1.Container{{Name: "agent", Image: "i"}}}
	cold := twin(warm)
	assert.Equal(t, metav1.ObjectMeta{Namespace: demoNamespace, Name: coldName}, cold.ObjectMeta)
	assert.Equal(t, corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "i"}}}, cold.Spec)
	assert.Equal(t, "node1", warm.Spec.NodeName, "the standing Pod is not touched")
}
