//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

const (
	// shortly bounds what takes a moment on an idle machine; the machine may be busy.
	shortly = time.Minute
	// patiently bounds what waits for leases and kubelet's backoff.
	patiently = 2 * time.Minute

	cleanupLimit = 45 * time.Second
	workDir      = "/shared"
)

// room is a namespace of a case's own, under the restricted Pod security standard, with all its runs watched from the start.
type room struct {
	t         *testing.T
	namespace string
	watched   *watched
}

func newRoom(t *testing.T, name string) *room {
	t.Helper()
	r := &room{t: t, namespace: "e2e-" + suite.id + "-" + name}
	require.NoError(t, suite.Namespace(t.Context(), r.namespace))
	r.watched = watchRuns(t, r.namespace)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cleanupLimit)
		defer cancel()
		r.watched.verify(t)
		if t.Failed() {
			suite.Explain(ctx, os.Stderr, r.namespace, cluster.SystemNamespace)
		}
		if os.Getenv(envKeep) == "" {
			deleteNamespace(ctx, r.namespace)
		}
	})
	return r
}

// deleteNamespace does not wait: names are not used again.
func deleteNamespace(ctx context.Context, name string) {
	err := suite.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreNotFound(err) != nil {
		fmt.Fprintf(os.Stderr, "e2e: delete namespace %s: %v\n", name, err)
	}
}

// agent makes an Agent of real goose: its goal is the parameter task, permissions are granted, and /shared is a volume of its Pod.
func (r *room) agent(name string, change func(*hearthv1.AgentSpec)) *hearthv1.Agent {
	r.t.Helper()
	agent := &hearthv1.Agent{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace},
		Spec: hearthv1.AgentSpec{
			Mode:         hearthv1.AgentModeService,
			Goal:         "You carry out what you are told.",
			GoalTemplate: "${task}",
			Runtime: hearthv1.AgentRuntime{
				Command:     []string{"goose", "acp"},
				Delivery:    &hearthv1.DeliveryRuntime{},
				Permissions: hearthv1.Permissions{Policy: hearthv1.PermissionAllow},
			},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: hearthv1.AgentContainer, Image: agentImage, ImagePullPolicy: corev1.PullIfNotPresent,
					Env: []corev1.EnvVar{
						{Name: "GOOSE_PROVIDER", Value: "openai"}, {Name: "GOOSE_MODEL", Value: "test-model"},
						{Name: "OPENAI_API_KEY", Value: "x"}, {Name: "OPENAI_HOST", Value: suite.model},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "work", MountPath: workDir}},
				}},
				Volumes: []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			}},
		},
	}
	if change != nil {
		change(&agent.Spec)
	}
	require.NoError(r.t, suite.Client.Create(r.t.Context(), agent))
	return agent
}

// readyAgent makes an Agent and waits until it can take work.
func (r *room) readyAgent(name string, change func(*hearthv1.AgentSpec)) *hearthv1.Agent {
	r.t.Helper()
	agent := r.agent(name, change)
	r.waitReady(name)
	return agent
}

func (r *room) waitReady(name string) {
	r.t.Helper()
	r.wait("Agent "+name, shortly, func(ctx context.Context) (bool, string, error) {
		var agent hearthv1.Agent
		if err := suite.Client.Get(ctx, r.key(name), &agent); err != nil {
			return false, "", err
		}
		ready := cluster.Condition(agent.Status.Conditions, hearthv1.AgentConditionReady)
		return ready.Status == metav1.ConditionTrue, stateOf(ready), nil
	})
}

func (r *room) readAgent(name string) *hearthv1.Agent {
	r.t.Helper()
	var agent hearthv1.Agent
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(name), &agent))
	return &agent
}

// sparse is a run as a user writes it.
func (r *room) sparse(name, agent string, parameters map[string]string) *hearthv1.AgentRun {
	return &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace},
		Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent}, Parameters: parameters},
	}
}

// ask makes a run with the directives as its task.
func (r *room) ask(name, agent string, directives ...string) *hearthv1.AgentRun {
	r.t.Helper()
	run := r.sparse(name, agent, map[string]string{"task": strings.Join(directives, " ;; ")})
	require.NoError(r.t, suite.Client.Create(r.t.Context(), run))
	return run
}

// standing waits for the one standing run of an Agent that has not ended.
func (r *room) standing(agent string) *hearthv1.AgentRun {
	r.t.Helper()
	var found *hearthv1.AgentRun
	r.wait("the standing run of "+agent, shortly, func(ctx context.Context) (bool, string, error) {
		var runs hearthv1.AgentRunList
		if err := suite.Client.List(ctx, &runs, client.InNamespace(r.namespace), client.MatchingLabels{hearthv1.LabelAgent: agent}); err != nil {
			return false, "", err
		}
		living := slices.DeleteFunc(runs.Items, func(run hearthv1.AgentRun) bool { return run.Status.CompletionTime != nil })
		if len(living) != 1 {
			return false, fmt.Sprintf("%d standing runs", len(living)), nil
		}
		found = &living[0]
		return true, found.Name, nil
	})
	return found
}

// pod is the Pod of an Agent's standing run; it has the run's name.
func (r *room) pod(agent string) *corev1.Pod {
	r.t.Helper()
	name := r.standing(agent).Name
	var pod corev1.Pod
	r.wait("Pod "+name, shortly, func(ctx context.Context) (bool, string, error) {
		err := suite.Client.Get(ctx, r.key(name), &pod)
		return err == nil, "made", err
	})
	return &pod
}

// await waits until the run looks as wanted.
func (r *room) await(name, what string, limit time.Duration, wanted func(*hearthv1.AgentRun) bool) *hearthv1.AgentRun {
	r.t.Helper()
	var run hearthv1.AgentRun
	r.wait("run "+name+" "+what, limit, func(ctx context.Context) (bool, string, error) {
		if err := suite.Client.Get(ctx, r.key(name), &run); err != nil {
			return false, "", err
		}
		return wanted(&run), stateOf(succeeded(&run)), nil
	})
	return &run
}

// ended waits for the run's record.
func (r *room) ended(name string, limit time.Duration) *hearthv1.AgentRun {
	r.t.Helper()
	return r.await(name, "to end", limit, func(run *hearthv1.AgentRun) bool { return run.Status.CompletionTime != nil })
}

// running waits until the run runs.
func (r *room) running(name string) *hearthv1.AgentRun {
	r.t.Helper()
	return r.await(name, "to run", shortly, func(run *hearthv1.AgentRun) bool {
		require.Nil(r.t, run.Status.CompletionTime, "it ended instead: %s", run.Status.Message)
		return succeeded(run).Reason == hearthv1.ReasonRunning
	})
}

func (r *room) wait(what string, limit time.Duration, look cluster.Look) {
	r.t.Helper()
	if _, room, ok := strings.Cut(strings.TrimPrefix(r.namespace, "e2e-"), "-"); ok {
		what = room + ": " + what // cases run side by side
	}
	require.NoError(r.t, suite.Wait(r.t.Context(), what, limit, look))
}

// sh runs a shell script in the agent container and returns what it printed.
func (r *room) sh(ctx context.Context, pod *corev1.Pod, script string) string {
	r.t.Helper()
	out, err := suite.Exec(ctx, client.ObjectKeyFromObject(pod), hearthv1.AgentContainer, "sh", "-c", script)
	require.NoError(r.t, err)
	return out
}

// lines are those of a file in the Pod; a file that is not there has none.
func (r *room) lines(ctx context.Context, pod *corev1.Pod, file string) []string {
	r.t.Helper()
	return strings.Fields(r.sh(ctx, pod, "cat "+file+" 2>/dev/null || true"))
}

func (r *room) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.namespace, Name: name}
}

func succeeded(run *hearthv1.AgentRun) metav1.Condition {
	return cluster.Condition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
}

func acpReady(run *hearthv1.AgentRun) metav1.Condition {
	return cluster.Condition(run.Status.Conditions, hearthv1.AgentRunConditionACPReady)
}

func stateOf(c metav1.Condition) string {
	if c.Type == "" {
		return "no condition yet"
	}
	return strings.TrimSpace(fmt.Sprintf("%s=%s/%s %s", c.Type, c.Status, c.Reason, c.Message))
}
