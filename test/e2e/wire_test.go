//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// TestTheGoalIsNotOnTheWire: all that goes over the delivery port during a run, as the Pod's network carries it, has neither the goal nor
// what the agent answered (SPEC.md, Confidentiality). With the scheme HTTP both are there, so the wiretap hears what there is.
func TestTheGoalIsNotOnTheWire(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "wire")
	schemes := map[string]hearthv1.DeliveryScheme{reviewer: hearthv1.DeliveryHTTPS, "clear": hearthv1.DeliveryHTTP}
	for agent, scheme := range schemes {
		r.agent(agent, func(spec *hearthv1.AgentSpec) { spec.Runtime.Delivery.Scheme = scheme })
	}
	for agent, scheme := range schemes {
		t.Run(string(scheme), func(t *testing.T) {
			r := &room{t: t, namespace: r.namespace, watched: r.watched}
			r.waitReady(agent)
			pod := r.pod(agent)
			sandbox := sandboxProcess(pod)
			if sandbox == 0 {
				t.Skip("SKIPPED, NOT PASSED: the Pod is not on this machine, so nobody can listen in its network")
			}
			recorded := r.wiretap(sandbox)
			goal, answer := "goal"+rand.Text(), "answer"+rand.Text()
			run := "run-" + agent
			r.ask(run, agent, "shell: echo "+goal+" > "+effects, "say: "+answer)
			ended := r.ended(run, shortly)
			require.Equal(t, metav1.ConditionTrue, succeeded(ended).Status, ended.Status.Message)
			require.Contains(t, ended.Status.Output.Value, answer)

			heard := recorded()
			words := map[string]string{"root secret": r.token(pod)}
			if scheme == hearthv1.DeliveryHTTP {
				for _, word := range []string{goal, answer, challengePath} {
					assert.True(t, strings.Contains(heard, word), "the wiretap did not hear what is in the clear") //nolint:testifylint // not shown
				}
			} else {
				require.True(t, strings.Contains(heard, applicationData), "the wiretap heard no TLS") //nolint:testifylint // not shown
				words["goal"], words["answer"], words["Pod's name"] = goal, answer, pod.Name
				words["contract's paths"], words["contract's headers"] = "hearth.dev", "Hearth-"
			}
			tells(t, "the wire", heard, words)
		})
	}
}

// wiretap records the delivery port's traffic from now on; the returned function ends it and tells what was recorded.
func (r *room) wiretap(sandbox int) func() string {
	r.t.Helper()
	self, err := os.Executable()
	require.NoError(r.t, err)
	file := filepath.Join(r.t.TempDir(), "recorded")
	command := exec.CommandContext(r.t.Context(), "nsenter", "--target", strconv.Itoa(sandbox), "--net", "--", self)
	command.Env = []string{envWiretap + "=" + file}
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	require.NoError(r.t, command.Start())
	r.wait("the wiretap", shortly, func(context.Context) (bool, string, error) {
		_, err := os.Stat(file + ".listening")
		return err == nil, "listens", nil
	})
	return func() string {
		_ = command.Process.Kill()
		_ = command.Wait()
		heard, err := os.ReadFile(file)
		require.NoError(r.t, err)
		return string(heard)
	}
}
