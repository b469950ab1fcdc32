//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	keySecret   = "provider" //nolint:gosec // a name
	keyVariable = "PROVIDER_KEY"
	// expiresAfter is a run's own time and its time to start, where they are to be over soon.
	expiresAfter = 2
)

// canaries are the words that must be found nowhere but at home (I8).
type canaries struct{ goal, role, note, key string }

func newCanaries() canaries {
	word := func(kind string) string { return "canary-" + kind + "-" + rand.Text() }
	return canaries{goal: word("goal"), role: word("role"), note: word("note"), key: word("key")}
}

// TestCanaries is I8. After runs that end in every way a run can end, the goal, a parameter, the agent's role, a key of the provider and the
// controller's own secrets are in no log, event, metric, error message or object but those that are their home.
func TestCanaries(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "canaries")
	c := newCanaries()
	require.NoError(t, suite.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: keySecret}, StringData: map[string]string{"key": c.key},
	}))
	agent := r.readyAgent(reviewer, func(spec *hearthv1.AgentSpec) {
		spec.Goal, spec.GoalTemplate = c.role, "${task} ;; ${note}"
		spec.Runtime.Delivery.Queue = ptr.To[int32](0)
		spec.StartingDeadlineSeconds = expiresAfter
		spec.Template.Spec.Containers[0].Env = append(spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: keyVariable,
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: keySecret}, Key: "key"}}})
	})
	secrets := r.secretsOf(r.pod(reviewer))
	said := r.refusals(c)
	logs := r.everyEnd(agent, c)
	maps.Copy(secrets, suffixed(r.secretsOf(r.pod(reviewer)), " of the second Pod"))
	r.keptAtHome(c, secrets, said, logs)
}

// suffixed keeps two Pods' secrets of one name apart.
func suffixed(words map[string]string, suffix string) map[string]string {
	out := map[string]string{}
	for name, word := range words {
		out[name+suffix] = word
	}
	return out
}

// tell makes a run whose goal and parameter are canaries.
func (c canaries) tell(r *room, name, directives string) {
	r.t.Helper()
	run := r.sparse(name, reviewer, map[string]string{"task": "plan " + c.goal + " ;; " + directives, "note": c.note})
	r.wait("run "+name+" to be made", shortly, func(ctx context.Context) (bool, string, error) {
		err := suite.Client.Create(ctx, run) // an Agent that changed a moment ago is not known everywhere yet
		return err == nil, "made", err
	})
}

// everyEnd has runs end in every way: done, failed, cancelled, expired before and after the start, interrupted, lost.
// It returns the logs of the harnesses that ended with them.
func (r *room) everyEnd(agent *hearthv1.Agent, c canaries) (logs string) {
	r.t.Helper()
	gate := suite.id + "-canaries-"
	ends := func(name, reason string) {
		r.t.Helper()
		run := r.ended(name, patiently)
		assert.Equal(r.t, reason, succeeded(run).Reason, "%s: %s", name, run.Status.Message)
	}
	c.tell(r, "done", "say: fine")
	ends("done", hearthv1.ReasonCompleted)
	c.tell(r, "failed", "fail: 400")
	ends("failed", "AgentError")

	c.tell(r, "cancelled", "gate: "+gate+"cancelled")
	running := r.running("cancelled")
	c.tell(r, "never-started", "say: never")
	ends("never-started", hearthv1.ReasonStartingDeadlineExceeded)
	require.NoError(r.t, suite.Client.Patch(r.t.Context(), running, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))))
	ends("cancelled", hearthv1.ReasonCancelled)

	r.withOwnTime(agent, expiresAfter)
	c.tell(r, "expired", "gate: "+gate+"expired")
	ends("expired", "DeadlineExceeded")
	r.withOwnTime(agent, int64(time.Hour.Seconds()))

	pod := r.pod(reviewer)
	first := r.follow(pod)
	c.tell(r, "interrupted", "shell: kill -SEGV 1; sleep 60")
	ends("interrupted", hearthv1.ReasonInterrupted)
	r.waitReady(reviewer)
	second := r.follow(pod)
	c.tell(r, "lost", "gate: "+gate+"lost")
	r.running("lost")
	require.NoError(r.t, suite.Client.Delete(r.t.Context(), pod, client.GracePeriodSeconds(0)))
	ends("lost", hearthv1.ReasonTargetLost)
	r.wait("the next standing Pod", patiently, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := suite.Client.List(ctx, &pods, client.InNamespace(r.namespace), client.MatchingLabels{hearthv1.LabelAgent: reviewer})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].UID != pod.UID, fmt.Sprintf("%d Pods", len(pods.Items)), err
	})
	r.waitReady(reviewer)
	return first() + second()
}

// withOwnTime changes the time that runs made from now on have.
func (r *room) withOwnTime(agent *hearthv1.Agent, seconds int64) {
	r.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"activeDeadlineSeconds":%d,"startingDeadlineSeconds":%d}}`, seconds, int64(time.Hour.Seconds()))
	require.NoError(r.t, suite.Client.Patch(r.t.Context(), agent, client.RawPatch("application/merge-patch+json", patch)))
	r.wait("the Agent's change to be seen", shortly, func(ctx context.Context) (bool, string, error) { // by admission, too: it looks at the same cache
		var now hearthv1.Agent
		err := suite.Client.Get(ctx, client.ObjectKeyFromObject(agent), &now)
		return err == nil && now.Status.ObservedGeneration >= agent.Generation, fmt.Sprintf("generation %d", now.Status.ObservedGeneration), err
	})
}

// refusals are what kubectl prints about manifests with canaries that are refused.
func (r *room) refusals(c canaries) string {
	r.t.Helper()
	const head = "apiVersion: hearth.dev/v1alpha1\nkind: AgentRun\nmetadata: {name: refused}\nspec:\n  agentRef: {name: reviewer}\n"
	both := "  parameters: {task: " + c.goal + ", note: " + c.note + "}\n"
	var said strings.Builder
	for what, manifest := range map[string]string{
		"unused parameter":  head + "  parameters: {task: " + c.goal + ", note: " + c.note + ", colour: " + c.note + "}\n",
		"missing parameter": head + "  parameters: {task: " + c.goal + "}\n",
		"a goal of its own": head + both + "  goal: " + c.goal + "\n",
		"a huge parameter":  head + "  parameters: {task: " + c.goal + strings.Repeat("x", 300<<10) + ", note: " + c.note + "}\n",
		"another type":      head + "  parameters: {task: {inner: " + c.goal + "}, note: " + c.note + "}\n",
		"an unknown field":  head + both + "  goals: " + c.goal + "\n",
		"no YAML":           head + both + "  goal: [" + c.goal + "\n",
		"a reserved name":   strings.Replace(head, "refused", "reviewer-7", 1) + both,
		"no such Agent":     strings.Replace(head, "name: reviewer", "name: nobody", 1) + both,
		"an incomplete Agent": "apiVersion: hearth.dev/v1alpha1\nkind: Agent\nmetadata: {name: refused}\nspec:\n  mode: Service\n  goal: " + c.role +
			"\n  goalTemplate: \"${task} " + c.goal + "\"\n  runtime: {command: [goose, acp], delivery: {}}\n  template: {spec: {hostNetwork: true, containers: [{name: agent, image: x, env: [{name: K, value: " + c.key + "}]}]}}\n",
	} {
		out, problems, err := suite.Kubectl(r.t.Context(), suite.root, manifest, "--namespace", r.namespace, "create", "-f", "-")
		require.Error(r.t, err, "%s was not refused", what)
		require.NotEmpty(r.t, problems, what)
		said.WriteString(out + problems)
	}
	return said.String()
}

// keptAtHome searches everything there is for the words.
func (r *room) keptAtHome(c canaries, secrets map[string]string, said, logs string) {
	r.t.Helper()
	words := maps.Clone(secrets)
	words["goal"], words["role"], words["note"], words["key"] = c.goal, c.role, c.note, c.key
	everywhere := maps.Clone(words)
	for name, word := range words {
		everywhere[name+" in base64"] = strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(word)), "=")[:len(word)] // without what depends on its end
	}
	tells(r.t, "what kubectl printed", said, everywhere)
	tells(r.t, "the log of a harness that ended", logs, everywhere)
	for where, text := range r.allLogs() {
		tells(r.t, where, text, everywhere)
	}
	tells(r.t, "the controller's metrics", r.metrics(), everywhere)
	for where, text := range r.allObjects() {
		tells(r.t, where, text, everywhere)
	}
	for file, text := range nodeLogs(r.t) {
		tells(r.t, file, text, everywhere)
	}
	r.areAtHome(words)
}

// areAtHome: the words are where they belong, so looking for them finds them.
func (r *room) areAtHome(words map[string]string) {
	r.t.Helper()
	runs, secrets := r.kubectl("get", "agentruns,agents", "-o", "yaml"), r.kubectl("get", "secrets", "-o", "yaml")
	for _, name := range []string{"goal", "role", "note"} {
		assert.True(r.t, strings.Contains(runs, words[name]), "the %s is not in its own object", name) //nolint:testifylint // not shown
	}
	for _, name := range []string{"key", "root-secret of the second Pod"} {
		assert.True(r.t, strings.Contains(secrets, base64.StdEncoding.EncodeToString([]byte(words[name]))), "the %s is not in its own Secret", name) //nolint:testifylint // not shown
	}
}

// kubectl is what kubectl prints about the room, unless the arguments name another namespace.
func (r *room) kubectl(args ...string) string {
	r.t.Helper()
	out, problems, err := suite.Kubectl(r.t.Context(), suite.root, "", append([]string{"--namespace", r.namespace}, args...)...)
	require.NoError(r.t, err, problems)
	return out
}

// nodeLogs are those of the node's components, the audit log among them; none where they are not on this machine.
func nodeLogs(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(suite.NodeLogs())
	if os.Getenv("KUBECONFIG") == "" {
		require.NoError(t, err)
		require.NotEmpty(t, entries)
	}
	found := map[string]string{}
	for _, entry := range entries {
		file := suite.NodeLogs() + "/" + entry.Name()
		text, err := os.ReadFile(file) // #nosec G304 -- the cluster's own
		require.NoError(t, err)
		found[file] = string(text)
	}
	return found
}
