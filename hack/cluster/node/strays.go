package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where programs write in spite of their configuration.
const (
	shimSockets   = "/run/containerd/s"
	cniResults    = "/var/lib/cni/results"
	containerLogs = "/var/log/containers"
	devicePlugins = "/var/lib/kubelet/device-plugins"
)

// strayFolders are made on the way to those files, children first.
var strayFolders = []string{
	shimSockets, "/run/containerd",
	cniResults, "/var/lib/cni",
	containerLogs,
	devicePlugins, "/var/lib/kubelet",
	"/usr/libexec/kubernetes/kubelet-plugins/volume/exec", "/usr/libexec/kubernetes/kubelet-plugins/volume",
	"/usr/libexec/kubernetes/kubelet-plugins", "/usr/libexec/kubernetes",
}

// removeStrays takes away the files outside the directory, and the folders around them if they are empty.
// It needs what the directory says, so it comes first.
func (p Place) removeStrays() error {
	for _, path := range p.strayFiles() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove what a component left: %w", err)
		}
	}
	for _, folder := range strayFolders {
		_ = os.Remove(folder) // unless it holds something
	}
	return nil
}

// strayFiles finds what lies outside the directory: sockets of shims, results of CNI plugins, links to logs.
func (p Place) strayFiles() []string {
	found := []string{filepath.Join(devicePlugins, "kubelet.sock")}
	bundles, _ := filepath.Glob(p.path("containerd/state/io.containerd.runtime.v2.task/k8s.io/*/address"))
	for _, file := range bundles {
		address, err := os.ReadFile(file) // #nosec G304 -- our own directory
		path := strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://")
		if err == nil && filepath.Dir(path) == shimSockets {
			found = append(found, path)
		}
	}
	sandboxes, _ := filepath.Glob(cniResults + "/hearth-*")
	for _, file := range sandboxes {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(file), "hearth-"), "-")
		results, _ := filepath.Glob(cniResults + "/*-" + id + "-*")
		found = append(found, results...)
	}
	logs, _ := filepath.Glob(containerLogs + "/*.log")
	for _, link := range logs {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, p.dir+"/") {
			found = append(found, link)
		}
	}
	return found
}
