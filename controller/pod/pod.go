// Package pod knows what a run's Pod must look like and how to read one: which counts as ready, what kubelet says about one
// that does not start, and which Pods the controller's cache holds (SPEC.md, Lifecycle). It is pure.
package pod

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// Listening tells whether an ACP client may dial the Pod (R4; SPEC.md, "Which Pod counts as ready"): phase Running, condition
// Ready, an IP, the agent container running, and no deletion timestamp. Otherwise message says, in the Pod's own words where it
// has any, why not. A nil Pod does not listen.
func Listening(p *corev1.Pod) (ok bool, message string) {
	switch {
	case p == nil:
		return false, "Pod does not exist"
	case p.DeletionTimestamp != nil:
		return false, fmt.Sprintf("Pod %s is terminating", p.Name)
	case p.Status.Phase != corev1.PodRunning:
		return false, NotRunning(p)
	}
	if s := AgentStatus(p); s == nil || s.State.Running == nil {
		message = waiting(p)
		if message == "" && s != nil && s.State.Terminated != nil {
			message = exited(s)
		}
		return false, cmp.Or(message, "container "+v1alpha1.AgentContainer+" is not running")
	}
	ready := condition(p, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionTrue {
		if ready != nil && ready.Message != "" {
			return false, ready.Message
		}
		return false, "Pod is Running but not Ready"
	}
	if p.Status.PodIP == "" {
		return false, "Pod is Ready but has no IP yet"
	}
	return true, "listening on " + Address(p)
}

// Address is host:port of the Pod's ACP endpoint, "" while the Pod has no IP.
func Address(p *corev1.Pod) string {
	if p == nil || p.Status.PodIP == "" {
		return ""
	}
	return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(v1alpha1.PortACPNumber))
}

// Ended tells whether the Pod has a terminal phase, deleted or not.
func Ended(p *corev1.Pod) bool {
	return p != nil && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed)
}

// OwnedBy tells whether the object with this UID controls the Pod. A name alone proves nothing: names are used again.
func OwnedBy(p *corev1.Pod, owner types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(p)
	return controller != nil && controller.UID == owner
}

// Of tells whether the Pod is the run's own. One of a Sandbox belongs to the Sandbox, and is the run's by the UID that its status
// pins: it comes back under the same name as another Pod.
func Of(p *corev1.Pod, run *v1alpha1.AgentRun) bool {
	if run.Spec.Backend == v1alpha1.BackendSandbox {
		return run.Status.PodUID != "" && run.Status.PodUID == p.UID
	}
	return OwnedBy(p, run.UID)
}

// AgentStatus is kubelet's status of the agent container, nil before kubelet gave one.
func AgentStatus(p *corev1.Pod) *corev1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Name == v1alpha1.AgentContainer {
			return &p.Status.ContainerStatuses[i]
		}
	}
	return nil
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
