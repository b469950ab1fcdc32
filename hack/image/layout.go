package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// release is what an image of a release has beyond its description.
type release struct {
	// out is the directory that gets a layout, a directory hearth-IMAGE, for each image.
	out string
	// binaries is a directory with linux-ARCHITECTURE/NAME for each program, and NAME.licences beside it: an image holds the
	// very bytes that are released as archives.
	binaries          string
	version, revision string
	created           time.Time
}

// parseRelease reads the flags of `image layout`; what is left are names of images.
func parseRelease(args []string) (release, []string, error) {
	var r release
	set := flag.NewFlagSet("layout", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&r.out, "out", "", "")
	set.StringVar(&r.binaries, "binaries", "", "")
	set.StringVar(&r.version, "version", "", "")
	set.StringVar(&r.revision, "revision", "", "")
	set.Func("created", "", func(s string) error {
		seconds, err := strconv.ParseInt(s, 10, 64)
		r.created = time.Unix(seconds, 0).UTC()
		return err
	})
	if err := set.Parse(args); err != nil {
		return release{}, nil, fmt.Errorf("layout: %w", err)
	}
	for name, value := range map[string]string{"out": r.out, "binaries": r.binaries, "version": r.version, "revision": r.revision} {
		if value == "" {
			return release{}, nil, fmt.Errorf("layout: -%s: expected a value", name)
		}
	}
	if r.created.IsZero() {
		return release{}, nil, errors.New("layout: -created: expected seconds since 1970")
	}
	return r, set.Args(), nil
}

// layouts writes an OCI layout for each image that a release has.
func (b *builder) layouts(ctx context.Context, r release, names []string, out io.Writer) error {
	folders, err := b.folders(names)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		spec, err := readSpec(filepath.Join(b.root, "images", folder))
		if err != nil {
			return err
		}
		if len(spec.Release) == 0 {
			continue
		}
		to := filepath.Join(r.out, "hearth-"+folder)
		index, err := b.index(ctx, r, spec)
		if err != nil {
			return fmt.Errorf("image %s: %w", folder, err)
		}
		if err := writeLayout(to, index, r.version); err != nil {
			return fmt.Errorf("image %s: %w", folder, err)
		}
		_, _ = fmt.Fprintf(out, "%s %s\n", folder, to)
	}
	return nil
}

// index is one image for several architectures.
func (b *builder) index(ctx context.Context, r release, spec image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range spec.Release {
		per := *b
		per.arch, per.prebuilt, per.made = arch, filepath.Join(r.binaries, "linux-"+arch), map[input]string{}
		img, err := per.released(ctx, r, spec)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// released is the image of one architecture: compressed, with the licences of what it links, and saying which release it is.
func (b *builder) released(ctx context.Context, r release, spec image) (v1.Image, error) {
	trees := make([]tree, 0, len(spec.Layers)+1)
	for _, ls := range spec.Layers {
		t, err := b.expand(ctx, spec, ls)
		if err != nil {
			return nil, err
		}
		trees = append(trees, t)
	}
	trees = append(trees, b.licences(spec))
	layers := make([]v1.Layer, 0, len(trees))
	for _, t := range trees {
		plain, err := b.layer(t)
		if err != nil {
			return nil, err
		}
		l, err := tarball.LayerFromFile(plain.file, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	img, err := assemble(spec, layers, b.arch)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: r.created}
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	config.Config.Labels["org.opencontainers.image.version"] = r.version
	config.Config.Labels["org.opencontainers.image.revision"] = r.revision
	config.Config.Labels["org.opencontainers.image.created"] = r.created.Format(time.RFC3339)
	return mutate.ConfigFile(img, config)
}

// licences are our own licence and those of what the image's programs link, which their redistribution asks for.
func (b *builder) licences(spec image) tree {
	const dir = "usr/share/licenses/hearth/"
	t := tree{dir + "LICENSE": {kind: tar.TypeReg, mode: 0o644, source: filepath.Join(b.root, "LICENSE")}}
	for _, in := range spec.Inputs {
		if in.Go != "" {
			name := path.Base(in.Go) + ".licences"
			t[dir+name] = node{kind: tar.TypeReg, mode: 0o644, source: filepath.Join(b.prebuilt, name)}
		}
	}
	t.addParents()
	return t
}

// writeLayout writes the index as the one that a layout of its own names by the version.
func writeLayout(to string, index v1.ImageIndex, version string) error {
	written, err := ocilayout.Write(to, empty.Index)
	if err != nil {
		return err
	}
	return written.AppendIndex(index, ocilayout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
}

// take finds a program that was built before.
func (b *builder) take(pkg string) (string, error) {
	file := filepath.Join(b.prebuilt, path.Base(pkg))
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("%s is not among the binaries: %w", pkg, err)
	}
	return file, nil
}

// foreign says whether what this machine has would be of the wrong architecture.
func (b *builder) foreign() bool { return b.arch != runtime.GOARCH }

// checkRelease refuses an architecture nobody has, or twice.
func (s image) checkRelease() error {
	for i, arch := range s.Release {
		if !slices.Contains([]string{"amd64", "arm64"}, arch) || slices.Contains(s.Release[:i], arch) {
			return fmt.Errorf("release: expected amd64 and arm64, each once at most, got %q", arch)
		}
	}
	return nil
}
