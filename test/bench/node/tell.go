package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	controllerpod "github.com/hearthdev/hearth/controller/pod"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// terms reads what the controller wrote into the Pod, and its root secret.
func (n *node) terms(ctx context.Context, object *corev1.Pod) (terms, error) {
	t := terms{identity: wire.Identity{Namespace: object.Namespace, PodName: object.Name, PodUID: string(object.UID)}, port: wire.DefaultPort}
	i := slices.IndexFunc(object.Spec.Containers, func(c corev1.Container) bool { return c.Name == hearthv1.AgentContainer })
	if i < 0 {
		return t, fmt.Errorf("expected a container named %s", hearthv1.AgentContainer)
	}
	c := &object.Spec.Containers[i]
	for _, p := range c.Ports {
		if p.Name == wire.PortName {
			t.port = int(p.ContainerPort)
		}
	}
	for _, e := range c.Env {
		var err error
		switch e.Name {
		case controllerpod.EnvConcurrency:
			t.concurrency, err = strconv.Atoi(e.Value)
		case controllerpod.EnvQueue:
			t.queue, err = strconv.Atoi(e.Value)
		case controllerpod.EnvScheme:
			t.scheme = scheme(e.Value)
		case controllerpod.EnvToken:
			t.root, err = n.secret(ctx, object.Namespace, e.ValueFrom)
		}
		if err != nil {
			return t, fmt.Errorf("variable %s: %w", e.Name, err)
		}
	}
	if t.root == nil {
		return t, fmt.Errorf("expected the variable %s: only Pods that are delivered to are stood in for", controllerpod.EnvToken)
	}
	return t, nil
}

func (n *node) secret(ctx context.Context, namespace string, from *corev1.EnvVarSource) ([]byte, error) {
	if from == nil || from.SecretKeyRef == nil {
		return nil, fmt.Errorf("expected a key of a Secret")
	}
	var s corev1.Secret
	if err := n.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: from.SecretKeyRef.Name}, &s); err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	return s.Data[from.SecretKeyRef.Key], nil
}

// tell writes what kubelet writes of a Pod that is ready.
func (n *node) tell(ctx context.Context, object *corev1.Pod, ip string) error {
	now := metav1.Now()
	yes := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.UID}, "status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "127.0.0.1", StartTime: &now,
		Conditions: []corev1.PodCondition{yes(corev1.PodScheduled), yes(corev1.PodInitialized), yes(corev1.ContainersReady), yes(corev1.PodReady)},
		ContainerStatuses: []corev1.ContainerStatus{{Name: hearthv1.AgentContainer, Image: "scripted", ImageID: "scripted", Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}},
	}})
	if err != nil {
		return fmt.Errorf("tell that it is ready: %w", err)
	}
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	if err := n.kube.Status().Patch(ctx, named, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("tell that it is ready: %w", err)
	}
	return nil
}
