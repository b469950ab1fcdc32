package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	explainLines  = 40
	explainEvents = 40
	explainLimit  = 30 * time.Second
)

// Explain writes what is known about the objects in the namespaces: conditions, Pods, events and the last lines of logs.
// Goals and Secrets are not among it. What cannot be read is said and the rest goes on.
func (c *Cluster) Explain(ctx context.Context, w io.Writer, namespaces ...string) {
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	for _, namespace := range namespaces {
		in := client.InNamespace(namespace)
		_, _ = fmt.Fprintf(w, "---- namespace %s\n", namespace)
		var agents hearthv1.AgentList
		c.explainList(ctx, w, &agents, in)
		for _, agent := range agents.Items {
			_, _ = fmt.Fprintf(w, "Agent %s generation %d%s\n", agent.Name, agent.Generation, conditionLines(agent.Status.Conditions))
		}
		var runs hearthv1.AgentRunList
		c.explainList(ctx, w, &runs, in)
		for _, run := range runs.Items {
			_, _ = fmt.Fprintf(w, "AgentRun %s %s%s%s\n", run.Name, run.Status.Phase, deliveryLine(run.Status.Delivery), conditionLines(run.Status.Conditions))
		}
		c.explainEvents(ctx, w, in)
		var pods corev1.PodList
		c.explainList(ctx, w, &pods, in)
		for _, pod := range pods.Items {
			c.explainPod(ctx, w, &pod)
		}
	}
}

func (c *Cluster) explainList(ctx context.Context, w io.Writer, list client.ObjectList, opts ...client.ListOption) {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		_, _ = fmt.Fprintf(w, "%T: %v\n", list, err)
	}
}

func (c *Cluster) explainEvents(ctx context.Context, w io.Writer, in client.InNamespace) {
	var events corev1.EventList
	c.explainList(ctx, w, &events, in)
	slices.SortFunc(events.Items, func(a, b corev1.Event) int { return cmp.Compare(eventTime(a).UnixNano(), eventTime(b).UnixNano()) })
	for _, event := range events.Items[max(0, len(events.Items)-explainEvents):] {
		about := event.InvolvedObject
		_, _ = fmt.Fprintf(w, "Event %s %s %s %s: %s\n", eventTime(event).Format(time.TimeOnly), about.Kind, about.Name, event.Reason, event.Message)
	}
}

func eventTime(event corev1.Event) time.Time {
	switch {
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return event.CreationTimestamp.Time
	}
}

func (c *Cluster) explainPod(ctx context.Context, w io.Writer, pod *corev1.Pod) {
	_, _ = fmt.Fprintf(w, "Pod %s %s\n", pod.Name, podState(pod))
	for _, status := range pod.Status.ContainerStatuses {
		logs, err := c.Logs(ctx, client.ObjectKeyFromObject(pod), status.Name, explainLines)
		if err != nil {
			_, _ = fmt.Fprintf(w, "  %v\n", err)
			continue
		}
		for line := range strings.Lines(logs) {
			_, _ = fmt.Fprintf(w, "  %s| %s\n", status.Name, strings.TrimRight(line, "\n"))
		}
	}
}

// podState is what kubelet says, in a line.
func podState(pod *corev1.Pod) string {
	words := []string{string(pod.Status.Phase)}
	if pod.DeletionTimestamp != nil {
		words = append(words, "terminating")
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue && condition.Message != "" {
			words = append(words, condition.Reason+": "+condition.Message)
			break
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case status.State.Waiting != nil:
			words = append(words, status.Name+" "+status.State.Waiting.Reason+": "+status.State.Waiting.Message)
		case status.State.Terminated != nil:
			words = append(words, fmt.Sprintf("%s ended with %d", status.Name, status.State.Terminated.ExitCode))
		}
		if status.RestartCount > 0 {
			words = append(words, fmt.Sprintf("%s restarted %d times", status.Name, status.RestartCount))
		}
	}
	return strings.Join(words, "; ")
}

func conditionLines(conditions []metav1.Condition) string {
	var out strings.Builder
	for _, condition := range conditions {
		fmt.Fprintf(&out, "\n  %s=%s/%s %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return out.String()
}

func deliveryLine(d *hearthv1.DeliveryStatus) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf(" attempt %d on %s, losses %d", d.Attempt, d.PodName, d.Losses)
}
