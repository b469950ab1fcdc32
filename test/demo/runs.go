package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

// endLimit bounds one run; its own deadline is shorter.
const endLimit = 11 * time.Minute

// ask is one sparse run: what its writer gives, and what must be in its output. Anything must, with a real
// model that chooses its own words.
type ask struct {
	parameters map[string]string
	want       string
	anyWords   bool
}

// result is a run that ended, and when its writer sent it.
type result struct {
	ask
	run  hearthv1.AgentRun
	sent time.Time
}

// marker is the file that one of the runs must leave in the agent's Pod.
type marker struct{ token string }

func newMarker() marker { return marker{token: "mark-" + strings.ToLower(rand.Text())} }

func (m marker) file() string { return "/marks/" + m.token }

// asks are the demo's three runs. The second makes the agent use its shell; it appends, so that doing it
// twice would show.
func asks(m marker, scripted bool) []ask {
	return []ask{
		{parameters: map[string]string{"change": "PR 17"}, want: "PR 17 reviewed for correctness", anyWords: !scripted},
		{
			parameters: map[string]string{
				"change": "PR 18",
				"instruction": "First run this command with your shell tool, exactly once, and report what it prints. shell: " +
					"echo " + m.token + " >> " + m.file() + " && cat " + m.file(),
			},
			want: m.token,
		},
		{parameters: map[string]string{"change": "PR 19", "concern": "races"}, want: "PR 19 reviewed for races", anyWords: !scripted},
	}
}

// deliver creates one run and waits for its record.
func deliver(ctx context.Context, c *cluster.Cluster, a ask) (result, error) {
	r := result{ask: a}
	r.run.Namespace, r.run.GenerateName, r.run.Labels = demoNamespace, "review-", ofDemo
	r.run.Spec = hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agentName}, Parameters: a.parameters}
	r.sent = time.Now()
	if err := c.Client.Create(ctx, &r.run); err != nil {
		return r, fmt.Errorf("create a run: %w", err)
	}
	err := c.Wait(ctx, "run "+r.run.Name, endLimit, func(ctx context.Context) (bool, string, error) {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(&r.run), &r.run); err != nil {
			return false, "", err
		}
		succeeded := cluster.Condition(r.run.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
		return r.run.Status.CompletionTime != nil, reasonOf(succeeded.Reason), nil
	})
	return r, err
}

// readMarker reads the marker in the Pod that carried the run out, not in what the run says about it.
func readMarker(ctx context.Context, c *cluster.Cluster, r result, m marker) (string, error) {
	pod := types.NamespacedName{Namespace: demoNamespace, Name: r.run.Status.PodName}
	content, err := c.Exec(ctx, pod, hearthv1.AgentContainer, "cat", m.file())
	if err != nil {
		return "", fmt.Errorf("read the marker in Pod %s: %w", pod.Name, err)
	}
	return content, nil
}
