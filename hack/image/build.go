package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// quick is what needs no progress line.
const quick = 300 * time.Millisecond

// builder turns image descriptions into archives in the cache.
type builder struct {
	root     string
	cache    string
	progress io.Writer
	made     map[input]string
	// arch is the Go name of the architecture that is built for.
	arch string
	// prebuilt, if set, has the programs; they are taken from there.
	prebuilt string
	// tag is for all images, "" for what their descriptions say.
	tag string
}

// built is an image that is ready: its archive, and the image itself for thinner ones.
type built struct {
	folder  string
	tag     name.Tag
	img     v1.Image
	digest  v1.Hash
	archive string
	layers  []layer
}

func newBuilder(root string, progress io.Writer) (*builder, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return &builder{root: root, cache: filepath.Join(cache, "hearth", "images"), progress: progress, made: map[input]string{}, arch: runtime.GOARCH}, nil
}

// folders returns the images asked for, all of them when none is named.
func (b *builder) folders(names []string) ([]string, error) {
	specs, err := filepath.Glob(filepath.Join(b.root, "images", "*", specFile))
	if err != nil {
		return nil, err
	}
	known := make([]string, 0, len(specs))
	for _, spec := range specs {
		known = append(known, filepath.Base(filepath.Dir(spec)))
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("no image %q: expected one of %s", n, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return known, nil
	}
	return names, nil
}

// lock keeps two builds from pruning each other's files.
func (b *builder) lock(ctx context.Context) (func(), error) {
	if err := os.MkdirAll(b.cache, 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(b.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(quick)
	defer ticker.Stop()
	for said := false; ; said = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
		if !said {
			_, _ = fmt.Fprintln(b.progress, "image: waiting for another build of images")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}

// build makes the image of one folder; what an earlier build left and is still right is not made again.
func (b *builder) build(ctx context.Context, folder string) (built, error) {
	spec, err := readSpec(filepath.Join(b.root, "images", folder))
	if err != nil {
		return built{}, err
	}
	out := built{folder: folder}
	if out.tag, err = name.NewTag(spec.Name, name.StrictValidation); err != nil {
		return built{}, err
	}
	prefix := folder
	if b.tag != "" {
		prefix += "-" + b.tag
		if out.tag, err = name.NewTag(out.tag.Repository.Name()+":"+b.tag, name.StrictValidation); err != nil {
			return built{}, fmt.Errorf("-tag: %w", err)
		}
	}
	layers := make([]v1.Layer, 0, len(spec.Layers))
	for _, ls := range spec.Layers {
		t, err := b.expand(ctx, spec, ls)
		if err != nil {
			return built{}, err
		}
		l, err := b.layer(t)
		if err != nil {
			return built{}, err
		}
		out.layers = append(out.layers, l)
		layers = append(layers, l)
	}
	if out.img, err = assemble(spec, layers, b.arch); err != nil {
		return built{}, err
	}
	if out.digest, err = out.img.Digest(); err != nil {
		return built{}, err
	}
	out.archive = filepath.Join(b.cache, fmt.Sprintf("%s-%s.tar", prefix, out.digest.Hex[:12]))
	return out, b.writeFull(out)
}

// buildAll makes the named images, all when none is named, and then forgets what no image needs any more.
func (b *builder) buildAll(ctx context.Context, names []string) ([]built, error) {
	folders, err := b.folders(names)
	if err != nil {
		return nil, err
	}
	images := make([]built, 0, len(folders))
	for _, folder := range folders {
		i, err := b.build(ctx, folder)
		if err != nil {
			return images, fmt.Errorf("image %s: %w", folder, err)
		}
		images = append(images, i)
	}
	if len(names) > 0 {
		return images, nil
	}
	return images, b.prune(images)
}

func (b *builder) writeFull(out built) error {
	if _, err := os.Stat(out.archive); err == nil {
		return nil
	}
	start := time.Now()
	err := publish(out.archive, func(w io.Writer) error { return writeArchive(w, out.tag, out.img, nil) })
	if err == nil {
		b.say(start, "wrote %s", filepath.Base(out.archive))
	}
	return err
}

// prune removes the archives and layers that none of the images needs any more.
func (b *builder) prune(images []built) error {
	keep := map[string]bool{}
	for _, i := range images {
		keep[i.archive] = true
		for _, l := range i.layers {
			for _, f := range l.files() {
				keep[f] = true
			}
		}
	}
	for _, pattern := range []string{"*.tar", "layers/*", "layers/.new-*", ".new-*"} {
		files, err := filepath.Glob(filepath.Join(b.cache, pattern))
		if err != nil {
			return err
		}
		for _, f := range files {
			if keep[f] {
				continue
			}
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return nil
}
