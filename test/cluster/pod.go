package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in a container and returns what it printed. The error has the end of its standard error.
func (c *Cluster) Exec(ctx context.Context, pod types.NamespacedName, container string, command ...string) (string, error) {
	request := c.Typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("exec in %s: %w", pod, err)
	}
	var out, problems bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &problems})
	if err != nil {
		return out.String(), fmt.Errorf("exec in %s: %w: %s", pod, err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// noLog is how kubelet begins when it has removed a container's log already; it does not call that an error.
const noLog = "unable to retrieve container logs"

// AllLogs returns all that a container wrote, or the one before it under its name, if kubelet kept that.
func (c *Cluster) AllLogs(ctx context.Context, pod types.NamespacedName, container string, previous bool) (string, error) {
	out, err := c.Typed.CoreV1().Pods(pod.Namespace).
		GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Previous: previous}).DoRaw(ctx)
	if err == nil && strings.HasPrefix(string(out), noLog) {
		err = errors.New(noLog)
	}
	if err != nil {
		return "", fmt.Errorf("logs of %s: %w", pod, err)
	}
	return string(out), nil
}

// Logs returns the last lines a container wrote, each after its time.
func (c *Cluster) Logs(ctx context.Context, pod types.NamespacedName, container string, tail int64) (string, error) {
	out, err := c.Typed.CoreV1().Pods(pod.Namespace).
		GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, TailLines: &tail, Timestamps: true}).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("logs of %s: %w", pod, err)
	}
	return string(out), nil
}
