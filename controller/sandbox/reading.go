package sandbox

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

// The conditions of a Sandbox that are read, and the reasons that tell ends apart.
const (
	conditionReady    = "Ready"
	conditionFinished = "Finished"
	reasonSucceeded   = "PodSucceeded"
	reasonFailed      = "PodFailed"
)

// Build is the Sandbox that makes the given Pod. It has the Pod's name, namespace and owner, and its labels of ours; all labels are
// on the template, because only those reach the Pod.
func Build(p *corev1.Pod) *Sandbox {
	p = p.DeepCopy()
	labels := map[string]string{}
	for _, key := range []string{v1alpha1.LabelRun, v1alpha1.LabelAgent, v1alpha1.LabelShard} {
		if value, ok := p.Labels[key]; ok {
			labels[key] = value
		}
	}
	return &Sandbox{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: labels, OwnerReferences: p.OwnerReferences},
		Spec: Spec{
			PodTemplate: PodTemplate{Metadata: PodMetadata{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec},
			Service:     ptr.To(true),
		},
	}
}

// OwnedBy tells whether the object with this UID controls the Sandbox. A name alone proves nothing. Nobody owns a nil one.
func OwnedBy(s *Sandbox, owner types.UID) bool {
	if s == nil {
		return false
	}
	controller := metav1.GetControllerOfNoCopy(s)
	return controller != nil && controller.UID == owner
}

// Own is p if it is the run's own Pod, else nil. Before one is pinned in the run's status it is the one that the run's own Sandbox
// controls. From then on it is that one alone: a Sandbox's Pod comes back under the same name, and is another Pod.
func Own(run *v1alpha1.AgentRun, s *Sandbox, p *corev1.Pod) *corev1.Pod {
	switch {
	case p == nil:
		return nil
	case run.Status.PodUID != "":
		if run.Status.PodUID == p.UID {
			return p
		}
		return nil
	case OwnedBy(s, run.UID) && pod.OwnedBy(p, s.UID):
		return p
	default:
		return nil
	}
}

// Left tells whether the Pod was made by a Sandbox of the run's name. Of a Sandbox that is gone nobody knows the UID any more; such
// a Pod is the garbage collector's, and until it is gone nothing has ended.
func Left(run *v1alpha1.AgentRun, p *corev1.Pod) bool {
	if p == nil {
		return false
	}
	controller := metav1.GetControllerOfNoCopy(p)
	if controller == nil || controller.Kind != Kind || controller.Name != run.Name {
		return false
	}
	gv, err := schema.ParseGroupVersion(controller.APIVersion)
	return err == nil && gv.Group == GroupVersion.Group
}

// Listening tells whether an ACP client may dial (R4): the Sandbox is Ready, and so is its Pod, which does not terminate (a
// terminating Pod keeps a Sandbox Ready). Otherwise message says why not: in the Pod's own words where it has more to say than the
// Sandbox, and in the Sandbox's. Own is the run's own Pod, nil while there is none.
func Listening(s *Sandbox, own *corev1.Pod) (ok bool, message string) {
	listening, message := pod.Listening(own)
	if listening && ready(s) {
		return true, message
	}
	if listening {
		message = "" // what stands in the way is the Sandbox's own
	}
	return false, both(message, s)
}

// NotRunning says in words why the run's own Pod is not running (R7), nil being none: kubelet's or the scheduler's reason, and what
// the Sandbox says.
func NotRunning(s *Sandbox, own *corev1.Pod) string { return both(pod.NotRunning(own), s) }

// Finished is the terminal phase of the Sandbox's Pod as the Sandbox tells it, and its words; "" while it does not say that it
// ended. It counts only where the Pod itself cannot be read any more, for it does not say which Pod it was.
func Finished(s *Sandbox) (phase corev1.PodPhase, message string) {
	if s == nil {
		return "", ""
	}
	c := meta.FindStatusCondition(s.Status.Conditions, conditionFinished)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "", ""
	}
	switch c.Reason {
	case reasonSucceeded:
		return corev1.PodSucceeded, c.Message
	case reasonFailed:
		return corev1.PodFailed, c.Message
	default:
		return "", ""
	}
}

func ready(s *Sandbox) bool {
	return s != nil && meta.IsStatusConditionTrue(s.Status.Conditions, conditionReady)
}

// both joins what the Pod says with what the Sandbox says, once where they say the same.
func both(podSays string, s *Sandbox) string {
	sandboxSays := says(s)
	switch {
	case podSays == "" || strings.HasPrefix(sandboxSays, podSays):
		return sandboxSays
	case s == nil || sandboxSays == "":
		return podSays
	default:
		return podSays + "; Sandbox: " + sandboxSays
	}
}

// says is why the Sandbox is not Ready, "" when it is. That a reconciler failed for once (ReconcilerError) is said and ends nothing.
func says(s *Sandbox) string {
	if s == nil {
		return "Sandbox does not exist"
	}
	switch c := meta.FindStatusCondition(s.Status.Conditions, conditionReady); {
	case c == nil:
		return fmt.Sprintf("Sandbox %s has no condition yet: is its controller running?", s.Name)
	case c.Status == metav1.ConditionTrue:
		return ""
	case c.Message == "":
		return "Sandbox is not Ready: " + c.Reason
	default:
		return c.Message
	}
}
