package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/hearthdev/hearth/hack/cluster/build"
	"github.com/hearthdev/hearth/hack/cluster/node"
)

// up builds what is missing, starts the node and says how to use it.
func up(ctx context.Context, cluster node.Cluster, getenv func(string) string, out, progress io.Writer) error {
	if err := cluster.CheckRights("start a cluster"); err != nil {
		return err // before minutes of building
	}
	builder, err := newBuilder(getenv, progress)
	if err != nil {
		return err
	}
	var binaries node.Binaries
	for _, step := range []struct {
		artifact build.Artifact
		dir      *string
	}{{build.Pause(), &binaries.Pause}, {build.CoreDNS(), &binaries.CoreDNS}, {build.Kube(), &binaries.Kube}} {
		if *step.dir, err = builder.Ensure(ctx, step.artifact); err != nil {
			return err
		}
	}
	if err := cluster.Up(ctx, binaries); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "export KUBECONFIG=%s\nexport PATH=%s:$PATH\n", cluster.Place.Kubeconfig(), binaries.Kube)
	return err
}

func newBuilder(getenv func(string) string, progress io.Writer) (build.Builder, error) {
	source := getenv("HEARTH_CLUSTER_SRC")
	if source == "" {
		return build.Builder{}, errors.New("HEARTH_CLUSTER_SRC is empty: run hack/cluster/cluster, which sets it")
	}
	cache := getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(getenv("HOME"), ".cache")
	}
	return build.Builder{Source: source, Cache: filepath.Join(cache, "hearth"), Progress: progress}, nil
}

// printed writes a one-line result unless there is an error instead.
func printed(out io.Writer, result string, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, result)
	return err
}
