package cluster

import (
	"context"
	_ "embed" // model.yaml
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	modelName = "llm"
	modelPort = "8080"
)

//go:embed model.yaml
var modelManifest []byte

// Model runs the scripted model in a namespace, waits until it is Ready, and returns its address for OPENAI_HOST.
func (c *Cluster) Model(ctx context.Context, namespace string) (string, error) {
	objects, err := Parse(modelManifest)
	if err != nil {
		return "", err
	}
	if err := c.Apply(ctx, namespace, objects...); err != nil {
		return "", err
	}
	if err := c.WaitPodReady(ctx, types.NamespacedName{Namespace: namespace, Name: modelName}, time.Minute); err != nil {
		return "", err
	}
	return fmt.Sprintf("http://%s.%s.svc:%s", modelName, namespace, modelPort), nil
}

// OpenGate lets the answers go on that wait at the model's gate of that name.
func (c *Cluster) OpenGate(ctx context.Context, namespace, gate string) error {
	err := c.Typed.CoreV1().RESTClient().Post().Namespace(namespace).Resource("services").Name(modelName+":"+modelPort).
		SubResource("proxy").Suffix("gates", gate).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("open gate %s: %w", gate, err)
	}
	return nil
}

// Tally is how often something was posted to the model's tally of that name.
func (c *Cluster) Tally(ctx context.Context, namespace, name string) (int, error) {
	answer, err := c.Typed.CoreV1().RESTClient().Get().Namespace(namespace).Resource("services").Name(modelName+":"+modelPort).
		SubResource("proxy").Suffix("tallies", name).Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("tally %s: %w", name, err)
	}
	return strconv.Atoi(string(answer))
}

// Mark waits until the model got a request with the mark of that name, and returns when the first one came in, by the model's clock.
func (c *Cluster) Mark(ctx context.Context, namespace, name string) (time.Time, error) {
	answer, err := c.Typed.CoreV1().RESTClient().Get().Namespace(namespace).Resource("services").Name(modelName+":"+modelPort).
		SubResource("proxy").Suffix("marks", name).Do(ctx).Raw()
	if err != nil {
		return time.Time{}, fmt.Errorf("mark %s: %w", name, err)
	}
	return time.Parse(time.RFC3339Nano, string(answer))
}

// WaitPodReady waits until a Pod is Ready; the state shown has what kubelet says about its containers.
func (c *Cluster) WaitPodReady(ctx context.Context, pod types.NamespacedName, limit time.Duration) error {
	return c.Wait(ctx, "Pod "+pod.String(), limit, func(ctx context.Context) (bool, string, error) {
		var found corev1.Pod
		if err := c.Client.Get(ctx, pod, &found); err != nil {
			return false, "", err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return true, "Ready", nil
			}
		}
		return false, podState(&found), nil
	})
}
