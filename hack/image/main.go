// Command image builds the project's images without a registry or a daemon, and loads them into a cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: image build [IMAGE...]   build images (default: all), print their archives
       image load [IMAGE...]    the same, and load them: with the command in IMAGE_LOAD, else into hack/cluster's node (root)
IMAGE is a folder of images/`

func main() {
	root := flag.String("root", ".", "the project's `directory`")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *root, flag.Args(), os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, args []string, out, progress io.Writer) error {
	if len(args) == 0 || (args[0] != "build" && args[0] != "load") {
		return errors.New(usage)
	}
	b, err := newBuilder(root, progress)
	if err != nil {
		return err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	images, err := b.buildAll(ctx, args[1:])
	for _, i := range images {
		_, _ = fmt.Fprintf(out, "%s %s %s\n", i.tag, i.digest, i.archive)
	}
	if err != nil || args[0] == "build" {
		return err
	}
	return loadAll(ctx, b, images, os.Getenv)
}
