package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Delivered tells whether the run is carried out by a standing run's agent; it never owns a Pod then (R22).
func (r *AgentRun) Delivered() bool { return r.Spec.Delivery != nil }

// Standing tells whether the run keeps a Service Agent's Pod alive: it has a Pod of its own, and an Agent controls it. One whose
// Agent was deleted without it (--cascade=orphan) has the annotation still.
func (r *AgentRun) Standing() bool {
	if r.Delivered() {
		return false
	}
	if _, ok := r.Annotations[AnnotationGeneration]; ok {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(r)
	return owner != nil && owner.Kind == "Agent" && owner.APIVersion == GroupVersion.String()
}

// OneShot tells whether the run has a Pod of its own and ends by itself: of a Task or Scheduled Agent, or ad hoc.
func (r *AgentRun) OneShot() bool { return !r.Delivered() && !r.Standing() }

// AdHoc tells whether the run is complete in itself and of no Agent.
func (r *AgentRun) AdHoc() bool { return r.Spec.AgentRef == AgentRef{} }

// Ended tells whether the run's status is its record.
func (r *AgentRun) Ended() bool { return r.Status.CompletionTime != nil }
