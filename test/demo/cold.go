package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/cluster"
)

const (
	coldName  = "cold-start"
	coldLimit = 2 * time.Minute
	// removeLimit also holds when the demo was interrupted.
	removeLimit = 10 * time.Second
)

// coldStart makes another Pod exactly like the standing one and measures, by this client's clock, how long it
// takes from the request to the news that it is Ready. It is what each run would wait for without a standing
// agent. The Pod is removed again.
func coldStart(ctx context.Context, c *cluster.Cluster, standing string) (time.Duration, error) {
	warm := &corev1.Pod{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: demoNamespace, Name: standing}, warm); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, coldLimit)
	defer cancel()
	cold := twin(warm)
	if err := remove(ctx, c, cold); err != nil {
		return 0, err
	}
	watch, err := c.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(demoNamespace), client.MatchingFields{"metadata.name": coldName})
	if err != nil {
		return 0, fmt.Errorf("watch Pod %s: %w", coldName, err)
	}
	defer watch.Stop()
	sent := time.Now()
	if err := c.Client.Create(ctx, cold); err != nil {
		return 0, fmt.Errorf("create Pod %s: %w", coldName, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		_ = remove(ctx, c, cold)
	}()
	for event := range watch.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.UID == cold.UID && isReady(pod) {
			return time.Since(sent), nil
		}
	}
	return 0, fmt.Errorf("pod %s did not become Ready in %s", coldName, coldLimit)
}

// twin is a Pod with the same content and nothing that makes it the controller's.
func twin(warm *corev1.Pod) *corev1.Pod {
	cold := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: warm.Namespace, Name: coldName}, Spec: *warm.Spec.DeepCopy()}
	cold.Spec.NodeName, cold.Spec.Hostname, cold.Spec.Subdomain = "", "", ""
	return cold
}

// remove deletes the Pod at once: nothing was delivered to it, so nothing is to be drained.
func remove(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) error {
	return client.IgnoreNotFound(c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
