package v1alpha1

import "strings"

const maxHostname = 63

// Hostname is what kubelet derives from a Pod name when the Pod sets no hostname of its own: cut to 63 characters, then
// trailing '-' and '.' trimmed (SPEC.md, Identity; R25).
func Hostname(podName string) string {
	if len(podName) > maxHostname {
		podName = podName[:maxHostname]
	}
	return strings.TrimRight(podName, "-.")
}
