package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// target is what images are loaded into.
type target interface {
	// load brings the image in and says how.
	load(ctx context.Context, i built) (string, error)
}

// newTarget chooses the command in IMAGE_LOAD, else the cluster of hack/cluster. It refuses to guess when
// KUBECONFIG names another cluster.
func newTarget(ctx context.Context, b *builder, getenv func(string) string) (target, error) {
	if command := getenv("IMAGE_LOAD"); command != "" {
		return loader{command: command, progress: b.progress}, nil
	}
	cluster := filepath.Join(b.root, "hack", "cluster", "cluster")
	cmd := exec.CommandContext(ctx, cluster, "kubeconfig") // #nosec G204 -- the project's own script
	cmd.Stderr = b.progress
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s kubeconfig: %w", cluster, err)
	}
	own := strings.TrimSpace(string(out))
	if other := getenv("KUBECONFIG"); other != "" && other != own {
		return nil, fmt.Errorf("KUBECONFIG names another cluster (%s): set IMAGE_LOAD to a command that takes an image archive as its last argument", other)
	}
	return nodeStore{
		loader: loader{command: cluster + " load", progress: b.progress},
		socket: filepath.Join(filepath.Dir(own), "containerd.sock"), cache: b.cache,
	}, nil
}

// loadAll brings the images in, one after the other, and says how each came.
func loadAll(ctx context.Context, b *builder, images []built, getenv func(string) string) error {
	to, err := newTarget(ctx, b, getenv)
	if err != nil {
		return err
	}
	for _, i := range images {
		start := time.Now()
		how, err := to.load(ctx, i)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(b.progress, "image: %s %s (%s)\n", i.tag, how, time.Since(start).Round(100*time.Millisecond))
	}
	return nil
}

// loader runs a command with the whole archive as its last argument.
type loader struct {
	command  string
	progress io.Writer
}

func (l loader) load(ctx context.Context, i built) (string, error) {
	return "loaded", l.run(ctx, i.archive)
}

func (l loader) run(ctx context.Context, archive string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", l.command+` "$1"`, "sh", archive) // #nosec G204 -- the user's own command
	cmd.Stdout, cmd.Stderr = l.progress, l.progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", l.command, archive, err)
	}
	return nil
}

// nodeStore is the containerd of the cluster in hack/cluster. It is asked first, so that what it has is not
// imported again: neither the image nor, when only the harness changed, the layers below it.
type nodeStore struct {
	loader
	socket string
	cache  string
}

func (n nodeStore) load(ctx context.Context, i built) (string, error) {
	images, err := n.ctr(ctx, "images", "ls", "name=="+i.tag.Name())
	if err != nil {
		return "", err
	}
	if strings.Contains(images, i.digest.String()) {
		return "already there", nil
	}
	content, err := n.ctr(ctx, "content", "ls", "--quiet")
	if err != nil {
		return "", err
	}
	skip := map[string]bool{}
	for digest := range strings.FieldsSeq(content) {
		skip[digest] = true
	}
	shared := 0
	for _, l := range i.layers {
		if skip[l.Hash.String()] {
			shared++
		}
	}
	if shared > 0 && n.loadThin(ctx, i, skip) == nil {
		return fmt.Sprintf("loaded, %d of %d layers were there", shared, len(i.layers)), nil
	}
	return "loaded", n.run(ctx, i.archive)
}

// loadThin imports an archive without the layers the node has. It may fail when one was collected as garbage
// meanwhile; the whole archive does then.
func (n nodeStore) loadThin(ctx context.Context, i built, skip map[string]bool) error {
	thin := filepath.Join(n.cache, "thin.tar")
	defer func() { _ = os.Remove(thin) }()
	err := publish(thin, func(w io.Writer) error { return writeArchive(w, i.tag, i.img, skip) })
	if err != nil {
		return err
	}
	quiet := n.loader
	quiet.progress = io.Discard
	return quiet.run(ctx, thin)
}

func (n nodeStore) ctr(ctx context.Context, args ...string) (string, error) {
	if _, err := os.Stat(n.socket); err != nil {
		return "", fmt.Errorf("no cluster runs here (start one with make cluster-up): %w", err)
	}
	// #nosec G204 -- no shell between us and ctr
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", n.socket, "--namespace", "k8s.io"}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return string(out), nil
}
