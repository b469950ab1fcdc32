// Package build compiles what the cluster runs from pinned Go modules, once per content of its sources.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Versions of what is built. They are repeated in the go.mod files, which a test compares.
const (
	KubernetesVersion = "v1.37.2"
	CoreDNSVersion    = "v1.15.0"
)

// Artifact is one directory of the cache: a binary and the names it is called by.
type Artifact struct {
	Name  string   // the directory's prefix and the binary's name
	Title string   // for progress lines
	Hint  string   // how long it takes, for progress lines; empty when it is quick
	Flags string   // linker flags
	Links []string // names that choose a program inside the binary
}

// Kube is etcd, the control plane, kubelet, kube-proxy and kubectl in one binary.
func Kube() Artifact {
	return Artifact{
		Name:  "kube",
		Title: "Kubernetes " + KubernetesVersion,
		Hint:  "about 7 min on two cores the first time",
		// Without a version the API server calls itself v0.0.0-master, which version checks dislike.
		Flags: "-s -w -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion,
		Links: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"},
	}
}

// CoreDNS is the cluster's name server.
func CoreDNS() Artifact {
	return Artifact{Name: "coredns", Title: "CoreDNS " + CoreDNSVersion, Hint: "about 2 min on two cores the first time", Flags: "-s -w"}
}

// Pause is the binary of the image that holds a Pod's namespaces open.
func Pause() Artifact {
	return Artifact{Name: "pause", Title: "pause", Flags: "-s -w"}
}

// Builder compiles artifacts from folders of Source into folders of Cache.
type Builder struct {
	Source   string    // hack/cluster
	Cache    string    // created when missing
	Progress io.Writer // progress lines; never the program's result
}

// Ensure returns the directory that holds artifact, compiled now if no earlier call did.
// Concurrent calls, also in other processes, wait for each other; a killed one leaves nothing that looks complete.
func (b Builder) Ensure(ctx context.Context, artifact Artifact) (string, error) {
	source := filepath.Join(b.Source, artifact.Name)
	hash, err := Hash(source, runtime.Version(), runtime.GOARCH, artifact.Flags, fmt.Sprint(artifact.Links))
	if err != nil {
		return "", err
	}
	target := filepath.Join(b.Cache, artifact.Name+"-"+hash)
	if exists(target) {
		return target, nil
	}
	if err := os.MkdirAll(b.Cache, 0o750); err != nil {
		return "", fmt.Errorf("create the build cache: %w", err)
	}
	unlock, err := Lock(filepath.Join(b.Cache, artifact.Name+".lock"), func() {
		fmt.Fprintf(b.Progress, "waiting for another build of %s\n", artifact.Title)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(target) {
		return target, nil
	}
	return target, b.compile(ctx, artifact, source, target)
}

func (b Builder) compile(ctx context.Context, artifact Artifact, source, target string) error {
	scratch := filepath.Join(b.Cache, ".building-"+artifact.Name)
	// Under the lock an existing scratch directory can only be what a killed build left.
	if err := os.RemoveAll(scratch); err != nil {
		return fmt.Errorf("remove an unfinished build: %w", err)
	}
	if err := os.MkdirAll(scratch, 0o750); err != nil {
		return fmt.Errorf("create the build directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	// #nosec G204 -- constant flags and the repository's own folders
	cmd := exec.CommandContext(ctx, "go", "build", "-C", source, "-trimpath", "-buildvcs=false",
		"-ldflags", artifact.Flags, "-o", filepath.Join(scratch, artifact.Name), ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=linux")
	if err := run(cmd, "building "+artifact.Title, artifact.Hint, b.Progress); err != nil {
		return err
	}
	for _, link := range artifact.Links {
		if err := os.Symlink(artifact.Name, filepath.Join(scratch, link)); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
	}
	if err := os.Rename(scratch, target); err != nil {
		return fmt.Errorf("publish the build: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
