// Command cluster runs a real single-node Kubernetes on this machine, built from pinned Go modules.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hearthdev/hearth/hack/cluster/build"
	"github.com/hearthdev/hearth/hack/cluster/node"
)

const usage = `usage: cluster COMMAND
  up           build what is needed, start the node, wait until it is Ready (root)
  down         stop it and remove everything it made (root)
  load FILE    import an image archive into it (root)
  assets       build etcd, kube-apiserver and kubectl, print their directory (KUBEBUILDER_ASSETS)
  kubeconfig   print the path of the administrator's kubeconfig
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run carries out one command. Results go to out, everything else to progress.
func run(ctx context.Context, args []string, getenv func(string) string, out, progress io.Writer) error {
	place, err := node.NewPlace(getenv)
	if err != nil {
		return err
	}
	cluster := node.Cluster{Place: place, Progress: progress, Now: time.Now}
	switch {
	case len(args) == 1 && args[0] == "up":
		return up(ctx, cluster, getenv, out, progress)
	case len(args) == 1 && args[0] == "down":
		return cluster.Down(ctx)
	case len(args) == 2 && args[0] == "load":
		return cluster.Load(ctx, args[1])
	case len(args) == 1 && args[0] == "assets":
		builder, err := newBuilder(getenv, progress)
		if err != nil {
			return err
		}
		dir, err := builder.Ensure(ctx, build.Kube())
		return printed(out, dir, err)
	case len(args) == 1 && args[0] == "kubeconfig":
		return printed(out, place.Kubeconfig(), nil)
	default:
		return fmt.Errorf("unknown arguments %q\n%s", args, usage)
	}
}
