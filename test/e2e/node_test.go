//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// processes are those on this machine whose control group has the word in its path: a container's ID or a Pod's UID. There are
// none when the node is another machine.
func processes(word string) []int {
	if os.Getenv(envRemote) != "" || word == "" {
		return nil
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil
	}
	var found []int
	for _, group := range groups {
		content, err := os.ReadFile(group) // #nosec G304 -- /proc
		if err != nil || !strings.Contains(string(content), word) {
			continue // it ended, or is another's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(group))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// containerID is the runtime's ID of a running container.
func containerID(pod *corev1.Pod, container string) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container && status.State.Running != nil {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			return id
		}
	}
	return ""
}

// sandboxProcess is a process that has the Pod's network and outlives its containers; 0 when the node is another machine.
func sandboxProcess(pod *corev1.Pod) int {
	var inContainers []int
	for _, status := range pod.Status.ContainerStatuses {
		inContainers = append(inContainers, processes(containerID(pod, status.Name))...)
	}
	for _, pid := range podProcesses(pod) {
		if !slices.Contains(inContainers, pid) {
			return pid
		}
	}
	return 0
}

// podProcesses knows both ways in which kubelet writes a UID into a control group's name.
func podProcesses(pod *corev1.Pod) []int {
	uid := string(pod.UID)
	if found := processes(uid); len(found) > 0 {
		return found
	}
	return processes(strings.ReplaceAll(uid, "-", "_"))
}

var namespacePIDs = regexp.MustCompile(`(?m)^NSpid:.*\s(\d+)$`)

// mainProcess is the container's PID 1, by its number on this machine; 0 when the node is another one.
func mainProcess(pod *corev1.Pod, container string) int {
	for _, pid := range processes(containerID(pod, container)) {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status")) // #nosec G304 -- /proc
		if err != nil {
			continue
		}
		if inside := namespacePIDs.FindSubmatch(status); inside != nil && string(inside[1]) == "1" {
			return pid
		}
	}
	return 0
}

// kill is SIGKILL; the kernel ends all else in the container with its PID 1.
func kill(t *testing.T, pid int) {
	t.Helper()
	require.Greater(t, pid, 1)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}
