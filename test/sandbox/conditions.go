package sandbox

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The words of the real controller.
const (
	Ready                = "Ready"
	Finished             = "Finished"
	DependenciesReady    = "DependenciesReady"
	DependenciesNotReady = "DependenciesNotReady"
	ReconcilerError      = "ReconcilerError"
	PodSucceeded         = "PodSucceeded"
	PodFailed            = "PodFailed"
)

// Conditions are those of a Sandbox that asks for a Service, from what it has. Pod and Service are nil where they are not there; a
// failed pass is told, and changes the next time. Whether the Pod terminates does not matter: it stays Ready.
func Conditions(pod *corev1.Pod, service *corev1.Service, failed error) []metav1.Condition {
	all := []metav1.Condition{ready(pod, service, failed)}
	if pod == nil {
		return all
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return append(all, metav1.Condition{Type: Finished, Status: metav1.ConditionTrue, Reason: PodSucceeded, Message: "Pod completed successfully"})
	case corev1.PodFailed:
		return append(all, metav1.Condition{Type: Finished, Status: metav1.ConditionTrue, Reason: PodFailed, Message: "Pod failed"})
	default:
		return all
	}
}

func ready(pod *corev1.Pod, service *corev1.Service, failed error) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: Ready, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	if failed != nil {
		return no(ReconcilerError, "Error seen: "+failed.Error())
	}
	if pod != nil && pod.Status.Phase == corev1.PodSucceeded {
		return no(PodSucceeded, "Pod completed successfully")
	}
	if pod != nil && pod.Status.Phase == corev1.PodFailed {
		return no(PodFailed, "Pod failed")
	}
	is, says := podReady(pod)
	if service == nil {
		return no(DependenciesNotReady, says+"; Service does not exist")
	}
	if !is {
		return no(DependenciesNotReady, says+"; Service Exists")
	}
	return metav1.Condition{Type: Ready, Status: metav1.ConditionTrue, Reason: DependenciesReady, Message: says + "; Service Exists"}
}

func podReady(pod *corev1.Pod) (is bool, says string) {
	switch {
	case pod == nil:
		return false, "Pod does not exist"
	case pod.Status.Phase != corev1.PodRunning:
		return false, "Pod exists with phase: " + string(pod.Status.Phase)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			if len(pod.Status.PodIPs) == 0 {
				return false, "Pod is Ready but has no podIPs yet"
			}
			return true, "Pod is Ready"
		}
	}
	return false, "Pod is Running but not Ready"
}
