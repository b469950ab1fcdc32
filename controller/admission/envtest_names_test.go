package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	agentNames = "expected at most 50 lower-case letters, digits and -, beginning with a letter"
	runNames   = "expected at most 63 lower-case letters, digits and -, beginning with a letter"
	anyName    = "a lowercase RFC 1123 subdomain" // Kubernetes' own words
	anyLength  = "must be no more than 253"
)

func a(n int) string { return strings.Repeat("a", n) }

// misnamed asserts that a creation is refused for its name, and that a person reads why.
func misnamed(t *testing.T, err error, says string) {
	t.Helper()
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, says)
	status := apierrors.APIStatus(nil)
	require.ErrorAs(t, err, &status)
	require.NotNil(t, status.Status().Details)
	for _, cause := range status.Status().Details.Causes {
		assert.Equal(t, "metadata.name", cause.Field)
	}
	assert.NotEmpty(t, status.Status().Details.Causes, "kubectl prints only these")
}

// SPEC.md, Names: what an Agent of each mode can be called, through the real API server and webhooks.
func TestNamesOfAgents(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, agent := range []func(string) *v1alpha1.Agent{w.agent, w.task, w.scheduled} {
		for name, says := range map[string]string{
			a(50): "", "a": "", "a-1-b": "",
			a(51): agentNames, a(63): agentNames, a(253): agentNames, "a.b": agentNames, "1a": agentNames,
			a(254): anyLength, "Aa": anyName, "a_b": anyName, "ä": anyName, "名": anyName, "a-": anyName, "-a": anyName, "a b": anyName,
		} {
			err := w.user.Create(ctx, agent(name), client.DryRunAll)
			if says == "" {
				require.NoError(t, err, name)
				continue
			}
			misnamed(t, err, says)
		}
		generated := agent("")
		generated.GenerateName = a(44) + "-"
		require.NoError(t, w.user.Create(ctx, generated), "45 and five more")
		tooLong := agent("")
		tooLong.GenerateName = a(45) + "-"
		misnamed(t, w.user.Create(ctx, tooLong), agentNames)
	}
}

// SPEC.md, Names; R23: what a run can be called. One with a Pod is named as its Pod, Service and host can be; a delivered one as Kubernetes allows.
func TestNamesOfRuns(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	service, task := w.agent(a(50)), w.task("t"+a(49))
	require.NoError(t, w.user.Create(ctx, service))
	require.NoError(t, w.user.Create(ctx, task))
	for name, c := range map[string]struct{ oneShot, delivered string }{
		a(63): {}, "a": {}, a(62) + "x": {}, a(62) + "y": {},
		a(64): {runNames, ""}, a(253): {runNames, ""}, "a.b": {runNames, ""}, "1a": {runNames, ""}, "1.2": {runNames, ""},
		a(254): {anyLength, anyLength}, a(300): {anyLength, anyLength}, "Aa": {anyName, anyName}, "a_b": {anyName, anyName}, "ä": {anyName, anyName},
		"a-": {anyName, anyName}, "a..b": {anyName, anyName}, "a.-b": {anyName, anyName}, ".a": {anyName, anyName},
	} {
		for agent, says := range map[string]string{task.Name: c.oneShot, service.Name: c.delivered} {
			err := w.user.Create(ctx, w.run(name, agent), client.DryRunAll)
			if says == "" {
				require.NoError(t, err, "%s of %.1s", name, agent)
				continue
			}
			misnamed(t, err, says)
		}
	}
	for agent, prefixes := range map[string]map[string]string{
		task.Name:    {a(58): "", a(200): "", "a-": "", "1a-": runNames, "a.b-": runNames, "A-": anyName},
		service.Name: {a(58): "", a(200): "", "a-": "", "1a-": "", "a.b-": "", "A-": anyName},
	} {
		for prefix, says := range prefixes {
			run := w.run("", agent)
			run.GenerateName = prefix
			if err := w.user.Create(ctx, run); says == "" {
				require.NoError(t, err, prefix)
				assert.LessOrEqual(t, len(run.Name), 63)
			} else {
				require.ErrorContains(t, err, says)
			}
		}
	}
	w.known(t, service.Name, service.Name, task.Name)
	for name, agent := range map[string]string{service.Name + "-9999": service.Name, task.Name + "-1": task.Name} {
		refused(t, w.user.Create(ctx, w.run(name, agent)), string(v1alpha1.RefusalReservedName), "metadata.name")
	}
}

// SPEC.md, Names: a name is a run's own, however long it is the same as another's, and nothing that exists besides runs takes it away.
func TestRunsThatAreNamedAlikeAreDifferentRuns(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	service, task := w.agent(a(50)), w.task("t"+a(49))
	require.NoError(t, w.user.Create(ctx, service))
	require.NoError(t, w.user.Create(ctx, task))
	long := "1." + a(61) + strings.Repeat("."+a(30), 6) + ".b"
	require.LessOrEqual(t, len(long), 252)
	long += strings.Repeat("b", 252-len(long))
	require.NoError(t, w.admin.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: a(62) + "x"}}))
	require.NoError(t, w.admin.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: a(62) + "x"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))

	at := metav1.NewMicroTime(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
	for _, c := range []struct{ agent, ends, goesOn string }{{service.Name, long + "x", long + "y"}, {task.Name, a(62) + "x", a(62) + "y"}} {
		ends, goesOn := w.run(c.ends, c.agent), w.run(c.goesOn, c.agent)
		require.NoError(t, w.user.Create(ctx, ends))
		require.NoError(t, w.user.Create(ctx, goesOn))
		require.True(t, apierrors.IsAlreadyExists(w.user.Create(ctx, w.run(c.ends, c.agent))))
		assert.Empty(t, ends.Labels, "no label is made of a name that need not be one")
		assert.NotEqual(t, ends.UID, goesOn.UID)
		ends.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhaseSucceeded, Outcome: "Succeeded", Reason: v1alpha1.ReasonCompleted, StartTime: &at, CompletionTime: &at, RecordedAt: &at}
		require.NoError(t, w.controller.Status().Update(ctx, ends))
		var now v1alpha1.AgentRun
		require.NoError(t, w.user.Get(ctx, client.ObjectKeyFromObject(goesOn), &now))
		assert.Empty(t, now.Status.Phase)
	}
	assert.Empty(t, validation.IsDNS1123Subdomain(long+"x"))
	assert.Len(t, long+"x", validation.DNS1123SubdomainMaxLength)
}
