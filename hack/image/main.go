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
	"slices"
	"syscall"
)

const usage = `usage: image build [IMAGE...]   build images (default: all), print their archives
       image load [IMAGE...]    the same, and load them: with the command in IMAGE_LOAD, else into hack/cluster's node (root)
       image layout -out DIR -binaries DIR -version V -revision COMMIT -created SECONDS [IMAGE...]
                                OCI layouts of a release (hack/release calls this)
IMAGE is a folder of images/`

func main() {
	root := flag.String("root", ".", "the project's `directory`")
	tag := flag.String("tag", "", "give images this `tag` instead of that of their descriptions")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *root, *tag, flag.Args(), os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, tag string, args []string, out, progress io.Writer) error {
	if len(args) == 0 || !slices.Contains([]string{"build", "load", "layout"}, args[0]) {
		return errors.New(usage)
	}
	b, err := newBuilder(root, progress)
	if err != nil {
		return err
	}
	if args[0] == "layout" {
		return runLayout(ctx, b, args[1:], out)
	}
	b.tag = tag
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

// runLayout works in a directory of its own, so that a release is made of nothing that lay there before.
func runLayout(ctx context.Context, b *builder, args []string, out io.Writer) error {
	r, names, err := parseRelease(args)
	if err != nil {
		return err
	}
	if b.cache, err = os.MkdirTemp("", "hearth-image-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.cache) }()
	return b.layouts(ctx, r, names, out)
}
