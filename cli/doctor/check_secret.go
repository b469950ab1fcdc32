package doctor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// secret is the run's own, from which every proof is made. One that was lost breaks nothing once another standing run does the work.
func (o Observed) secret(a AgentSeen, p PodSeen) []Finding {
	name, again := hearthv1.RunSecretName(p.Run.Name, p.Run.UID), "kubectl -n "+o.Namespace+" delete agentrun "+p.Run.Name
	if !lostSecret(p) {
		switch {
		case p.Secret.Why != "":
			return []Finding{notChecked(p.Secret.Why)}
		case p.Secret.Absent:
			return []Finding{ok("its Secret is made with its Pod")}
		}
		return []Finding{ok("Secret %s is there", name)}
	}
	code, says, saw := SecretReplaced, "", ""
	c := condition(p.Run.Status.Conditions, hearthv1.AgentRunConditionCredentialReady)
	switch {
	case c.Status == metav1.ConditionFalse:
		says, saw = fmt.Sprintf("the Secret of run %s is not the one its Pod started with", p.Run.Name), told(c.Reason, c.Message)
	case p.Secret.Absent:
		says = fmt.Sprintf("Secret %s is gone", name)
	default:
		says = fmt.Sprintf("Secret %s has no %s", name, hearthv1.SecretToken)
	}
	if p.Secret.Absent {
		code = SecretMissing
	}
	f := fail(code, "%s", says).do("%s   # another standing run takes its place", again)
	if replaced(a, p) {
		f = hint(code, "%s. Another standing run does the work, and this one is being replaced: it gets no more work, and is deleted as soon as it is known that nothing is in it, at the latest %s",
			says, drainedBy(a, p)).do("%s   # ends it, and what it is at work on, now", again)
	}
	if saw != "" {
		f = f.saw("%s", saw)
	}
	return []Finding{f}
}

// lostSecret: the controller says so, or it is seen not to be there while the Pod is.
func lostSecret(p PodSeen) bool {
	if condition(p.Run.Status.Conditions, hearthv1.AgentRunConditionCredentialReady).Status == metav1.ConditionFalse {
		return true
	}
	return p.Secret.Absent && p.Pod.There() || p.Secret.There() && p.Secret.Value == 0
}

// replaced: the Agent is ready, and by another standing run than this one.
func replaced(a AgentSeen, p PodSeen) bool {
	if condition(a.Agent.Value.Status.Conditions, hearthv1.AgentConditionReady).Status != metav1.ConditionTrue || !p.Run.Standing() {
		return false
	}
	for _, other := range a.Pods {
		if other.Run.Name != p.Run.Name && other.Run.Standing() && other.Run.Status.CordonedAt == nil && !lostSecret(other) &&
			other.Pod.There() && podCondition(&other.Pod.Value, corev1.PodReady).Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// drainedBy is when a standing run that gets no more work is deleted whatever is in it.
func drainedBy(a AgentSeen, p PodSeen) string {
	drain := ptr.Deref(a.Agent.Value.Spec.DrainTimeoutSeconds, hearthv1.DefaultDrainTimeoutSeconds)
	if at := p.Run.Status.CordonedAt; at != nil {
		return at.Add(time.Duration(drain)*time.Second).UTC().Format(time.RFC3339) + " (drainTimeoutSeconds)"
	}
	return fmt.Sprintf("after drainTimeoutSeconds (%d)", drain)
}
