package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// probeLimit is how long a probe may take, as kubelet's default.
const probeLimit = time.Second

// stand keeps the container running, and tells of it.
func (p *Pod) stand(ctx context.Context, object *corev1.Pod) error {
	p.mu.Lock()
	x, down := p.process, p.stayDown
	if x != nil && x.over() && !p.counted {
		p.counted, p.again = true, time.Now().Add(backoff)
	}
	due := !down && (x == nil || x.over()) && !time.Now().Before(p.again)
	p.mu.Unlock()
	if x != nil && x.over() && object.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return p.tell(ctx, p.finished(x))
	}
	if !due {
		return p.tell(ctx, p.status(object, p.probe(ctx)))
	}
	if err := p.boot(ctx, object); err != nil {
		p.mu.Lock()
		p.again = time.Now().Add(backoff)
		p.mu.Unlock()
		return errors.Join(err, p.tell(ctx, p.waiting("CreateContainerConfigError", err.Error())))
	}
	return p.tell(ctx, p.status(object, false))
}

// probe is the readiness probe of the contract.
func (p *Pod) probe(ctx context.Context) bool {
	if p.running() == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(p.IP, strconv.Itoa(hearthv1.PortACPNumber)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (p *Pod) container(state corev1.ContainerState, ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: hearthv1.AgentContainer, Image: "scripted", ImageID: "scripted", Ready: ready, RestartCount: p.restarts, State: state}
}

// status is what kubelet would say now of a Pod whose containers are to run.
func (p *Pod) status(object *corev1.Pod, ready bool) *corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return &corev1.PodStatus{Phase: corev1.PodPending}
	}
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.since)}}
	if p.process.over() {
		ready = false
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off restarting failed container"}}
	}
	return &corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: p.IP, PodIPs: []corev1.PodIP{{IP: p.IP}}, HostIP: "127.0.0.1",
		StartTime: &object.CreationTimestamp, Conditions: conditions(ready),
		ContainerStatuses: []corev1.ContainerStatus{p.container(state, ready)},
	}
}

func conditions(ready bool) []corev1.PodCondition {
	word, message := corev1.ConditionTrue, ""
	if !ready {
		word, message = corev1.ConditionFalse, "containers with unready status: ["+hearthv1.AgentContainer+"]"
	}
	return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: word, Message: message}, {Type: corev1.PodReady, Status: word, Message: message}}
}

// waiting is a container that cannot be made.
func (p *Pod) waiting(reason, message string) *corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &corev1.PodStatus{Phase: corev1.PodPending, PodIP: p.IP, Conditions: conditions(false), ContainerStatuses: []corev1.ContainerStatus{
		p.container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}, false)}}
}

// finished is a Pod whose container ends for good, with its termination message.
func (p *Pod) finished(x *process) *corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	code := x.cmd.ProcessState.ExitCode()
	phase, reason := corev1.PodSucceeded, "Completed"
	if code != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	if code < 0 {
		code = 137
	}
	message, _ := os.ReadFile(filepath.Join(p.dir, terminationLog)) // none is an empty message
	return &corev1.PodStatus{Phase: phase, PodIP: p.IP, Conditions: conditions(false), ContainerStatuses: []corev1.ContainerStatus{
		p.container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason, Message: string(message), //nolint:gosec // an exit code
			StartedAt: metav1.NewTime(p.since), FinishedAt: metav1.Now()}}, false)}}
}

// tell writes the Pod's status, if it is another than the last.
func (p *Pod) tell(ctx context.Context, status *corev1.PodStatus) error {
	ready := len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].Ready
	compared := status.DeepCopy()
	for i := range compared.ContainerStatuses {
		if t := compared.ContainerStatuses[i].State.Terminated; t != nil {
			t.FinishedAt = metav1.Time{}
		}
	}
	text, err := json.Marshal(compared)
	if err != nil {
		return fmt.Errorf("tell of Pod %s: %w", p.Name, err)
	}
	if string(text) == p.told {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("tell of Pod %s: %w", p.Name, err)
	}
	if err := p.node.admin.Status().Patch(ctx, p.named(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("tell of Pod %s: %w", p.Name, client.IgnoreNotFound(err))
	}
	p.told = string(text)
	p.mu.Lock()
	p.ready = ready
	p.mu.Unlock()
	return nil
}
