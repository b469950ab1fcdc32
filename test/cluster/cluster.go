// Package cluster is what tests and the demo need of a real Kubernetes: bring it up, load images, install the controller, apply
// manifests, wait for conditions with progress, look into Pods, and tell what went wrong.
//
// It works on the cluster of hack/cluster, or with KUBECONFIG and IMAGE_LOAD on any other.
package cluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Cluster is one Kubernetes and the clients to it.
type Cluster struct {
	// Client knows the core kinds, CRDs and ours.
	Client client.WithWatch
	// Typed is for logs, exec and proxies.
	Typed kubernetes.Interface
	// Config is what both clients are made from, unthrottled.
	Config *rest.Config
	// Kubeconfig is the file it was read from.
	Kubeconfig string
	// Progress gets a line for each thing waited for.
	Progress io.Writer
}

// Open makes the clients. It does not ask the cluster anything.
func Open(kubeconfig string, progress io.Writer) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.UserAgent = -1, "hearth-test"
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, hearthv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("scheme: %w", err)
		}
	}
	objects, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Cluster{Client: objects, Typed: typed, Config: config, Kubeconfig: kubeconfig, Progress: progress}, nil
}

// Ensure opens the cluster of KUBECONFIG or, when that is empty, brings up the one of hack/cluster (which takes root, and
// seconds when it is up already). root is the project's directory.
func Ensure(ctx context.Context, root string, getenv func(string) string, progress io.Writer) (*Cluster, error) {
	kubeconfig := getenv("KUBECONFIG")
	if kubeconfig == "" {
		tool := filepath.Join(root, "hack", "cluster", "cluster")
		if _, err := command(ctx, progress, tool, "up"); err != nil {
			return nil, err
		}
		out, err := command(ctx, progress, tool, "kubeconfig")
		if err != nil {
			return nil, err
		}
		kubeconfig = strings.TrimSpace(out)
	}
	c, err := Open(kubeconfig, progress)
	if err != nil {
		return nil, err
	}
	return c, c.Wait(ctx, "the API server", time.Minute, func(context.Context) (bool, string, error) {
		version, err := c.Typed.Discovery().ServerVersion()
		if err != nil {
			return false, "", err
		}
		return true, "Kubernetes " + version.GitVersion, nil
	})
}

// LoadImages builds the named folders of images/ and loads them into the cluster. It returns the digest of each, by folder.
func (c *Cluster) LoadImages(ctx context.Context, root string, images ...string) (map[string]string, error) {
	tool := filepath.Join(root, "hack", "image", "image")
	if _, err := command(ctx, c.Progress, tool, append([]string{"load"}, images...)...); err != nil {
		return nil, err
	}
	out, err := command(ctx, io.Discard, tool, append([]string{"build"}, images...)...)
	if err != nil {
		return nil, err
	}
	return digests(images, out)
}

// digests reads the lines "tag digest archive" that the image tool prints, one for each image in order.
func digests(images []string, out string) (map[string]string, error) {
	found := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(out))
	for _, image := range images {
		lines.Scan()
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			return nil, fmt.Errorf("image build %s: expected \"tag digest archive\", got %q", image, lines.Text())
		}
		found[image] = words[1]
	}
	return found, lines.Err()
}

// command runs a tool of ours with its progress shown and returns what it printed.
func command(ctx context.Context, progress io.Writer, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) // #nosec G204 -- the project's own scripts
	cmd.Stderr = progress
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
