//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/cluster"
)

// home are the fields in which a kind may hold a goal, a role, a parameter or a secret: its own.
var home = map[string][][]string{
	"Agent":    {{"spec", "goal"}, {"spec", "goalTemplate"}},
	"AgentRun": {{"spec", "goal"}, {"spec", "parameters"}, {"status", "output"}},
	"Secret":   {{"data"}},
}

// homeWords begin the lines of `kubectl describe` that show those fields.
var homeWords = []string{"Goal:", "Goal Template:", "Note:", "Task:", "Value:"}

// allLogs are those of all containers here and of the controller, and of those before them.
func (r *room) allLogs() map[string]string {
	r.t.Helper()
	found := map[string]string{}
	for _, namespace := range []string{r.namespace, cluster.SystemNamespace} {
		var pods corev1.PodList
		require.NoError(r.t, suite.Client.List(r.t.Context(), &pods, client.InNamespace(namespace)))
		require.NotEmpty(r.t, pods.Items)
		for _, pod := range pods.Items {
			for _, status := range pod.Status.ContainerStatuses {
				logs, err := suite.AllLogs(r.t.Context(), client.ObjectKeyFromObject(&pod), status.Name, false)
				require.NoError(r.t, err)
				found["the log of "+pod.Name] = logs
				if status.RestartCount == 0 {
					continue
				}
				logs, err = suite.AllLogs(r.t.Context(), client.ObjectKeyFromObject(&pod), status.Name, true)
				if err != nil { // kubelet removes what it will; the harnesses' logs were followed
					r.t.Logf("previous: %v", err)
				}
				found["the previous log of "+pod.Name] = logs
			}
		}
	}
	return found
}

// metrics are the controllers' own.
func (r *room) metrics() string {
	r.t.Helper()
	var all strings.Builder
	for _, pod := range r.controllers(r.t.Context()) {
		port := slices.IndexFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" })
		require.GreaterOrEqual(r.t, port, 0, "the controller declares its metrics port")
		address := fmt.Sprintf("%s:%d", pod.Name, pod.Spec.Containers[0].Ports[port].ContainerPort)
		text, err := suite.Typed.CoreV1().RESTClient().Get().Namespace(pod.Namespace).Resource("pods").Name(address).
			SubResource("proxy").Suffix("metrics").DoRaw(r.t.Context())
		require.NoError(r.t, err)
		all.Write(text)
	}
	require.Contains(r.t, all.String(), "controller_runtime_reconcile_total")
	return all.String()
}

// allObjects is every object of every kind in the room and of the events in the controller's namespace, as kubectl shows them, without
// the fields that may hold the words.
func (r *room) allObjects() map[string]string {
	r.t.Helper()
	resources := strings.Fields(r.kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name"))
	require.Subset(r.t, resources, []string{"events", "events.events.k8s.io", "secrets", "pods", "agents.hearth.dev", "agentruns.hearth.dev"})
	found := map[string]string{}
	for _, args := range [][]string{
		{"get", strings.Join(resources, ","), "--output=wide"},
		{"get", "events", "--namespace", cluster.SystemNamespace, "--output=yaml"},
		{"get", "events.events.k8s.io", "--namespace", cluster.SystemNamespace, "--output=yaml"},
	} {
		found["kubectl "+strings.Join(args, " ")] = r.kubectl(args...)
	}
	for _, resource := range resources {
		found["kubectl describe "+resource] = withoutHome(r.kubectl("describe", resource))
		var list struct{ Items []map[string]any }
		require.NoError(r.t, json.Unmarshal([]byte(r.kubectl("get", resource, "--output=json")), &list), resource)
		for _, item := range list.Items {
			where, text := abroad(item)
			found[where] = text
		}
	}
	require.Contains(r.t, found, "AgentRun done")
	require.Contains(r.t, found, "Secret "+keySecret)
	return found
}

// withoutHome is what `kubectl describe` says, but for the lines of fields that may hold the words.
func withoutHome(described string) string {
	var kept strings.Builder
	for line := range strings.Lines(described) {
		if !slices.ContainsFunc(homeWords, func(word string) bool { return strings.HasPrefix(strings.TrimSpace(line), word) }) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// abroad is an object without the fields in which it may hold the words.
func abroad(item map[string]any) (where, text string) {
	kind, _ := item["kind"].(string)
	metadata, _ := item["metadata"].(map[string]any)
	for _, path := range home[kind] {
		within := item
		for _, name := range path[:len(path)-1] {
			within, _ = within[name].(map[string]any)
		}
		delete(within, path[len(path)-1])
	}
	left, err := json.Marshal(item)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return fmt.Sprintf("%s %v", kind, metadata["name"]), string(left)
}
