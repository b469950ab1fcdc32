package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// images makes every image that a release has, with the programs that were just built.
func (w workshop) images(ctx context.Context) error {
	if err := w.layOut(ctx); err != nil {
		return err
	}
	made, err := os.ReadDir(w.layouts)
	if err != nil {
		return err
	}
	for _, image := range made {
		if err := w.pack(ctx, image.Name()); err != nil {
			return fmt.Errorf("%s: %w", image.Name(), err)
		}
	}
	return nil
}

// layOut writes an OCI layout for each image that is named, for all when none is.
func (w workshop) layOut(ctx context.Context, names ...string) error {
	args := append([]string{"layout", "-out", w.layouts, "-binaries", w.bin, "-version", w.version, "-revision", w.revision,
		"-created", strconv.FormatInt(w.created.Unix(), 10)}, names...)
	cmd := exec.CommandContext(ctx, filepath.Join(w.root, "hack", "image", "image"), args...) //nolint:gosec // the project's own tool
	cmd.Stdout, cmd.Stderr = w.progress, w.progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("hack/image: %w", err)
	}
	return nil
}

// pack writes an image's archive and its bills.
func (w workshop) pack(ctx context.Context, image string) error {
	files, err := under(filepath.Join(w.layouts, image), "")
	if err != nil {
		return err
	}
	name := filepath.Join(w.out, image+"_"+w.version+"_oci.tar")
	if err := writeFile(name, func(f io.Writer) error { return writeArchive(f, files, w.created) }); err != nil {
		return err
	}
	return w.imageBills(ctx, image)
}

// index is the one that an image's layout holds, and its digest, which a registry will have it under.
func (w workshop) index(image string) (v1.ImageIndex, v1.Hash, error) {
	outer, err := layout.ImageIndexFromPath(filepath.Join(w.layouts, image))
	if err != nil {
		return nil, v1.Hash{}, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, v1.Hash{}, fmt.Errorf("%s: expected one index in its layout, there are %d", image, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	inner, err := outer.ImageIndex(digest)
	return inner, digest, err
}

// imageBills writes a bill for each platform of an image.
func (w workshop) imageBills(ctx context.Context, image string) error {
	index, _, err := w.index(image)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		img, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		on := platform{m.Platform.OS, m.Platform.Architecture}
		parts, err := w.imageParts(ctx, img, on)
		if err != nil {
			return err
		}
		main := cdx.Component{
			BOMRef: image + "@" + m.Digest.String(), Type: cdx.ComponentTypeContainer, Name: image, Version: w.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: m.Digest.Hex}}, Licenses: licencesOf([]string{ours}),
			Properties: &[]cdx.Property{{Name: "vcs.revision", Value: w.revision}},
		}
		name := fmt.Sprintf("%s_%s_oci_%s_%s.cdx.json", image, w.version, on.system, on.arch)
		if err := writeBill(filepath.Join(w.out, name), newBill(w.source, main, parts, m.Digest.Hex)); err != nil {
			return err
		}
	}
	return nil
}

// imageParts are the files of an image; those of programs of ours with what is linked into them, those of packages with these.
func (w workshop) imageParts(ctx context.Context, img v1.Image, on platform) ([]cdx.Component, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	var parts []cdx.Component
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			return nil, err
		}
		err = eachFile(content, func(name, sum string) error {
			parts = append(parts, cdx.Component{
				BOMRef: "file:" + name, Type: cdx.ComponentTypeFile, Name: name, Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
			})
			more, err := w.behind(ctx, name, sum, on)
			parts = append(parts, more...)
			return err
		})
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// eachFile calls with the name and the SHA-256 of each file of a layer.
func eachFile(layer io.Reader, do func(name, sum string) error) error {
	for archive := tar.NewReader(layer); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, archive); err != nil { //nolint:gosec // a layer that was just made
			return err
		}
		if err := do("/"+header.Name, hex.EncodeToString(sum.Sum(nil))); err != nil {
			return err
		}
	}
}

// behind is what a file of an image comes from: a program of ours, goose's package, or one of Debian's.
func (w workshop) behind(ctx context.Context, name, sum string, on platform) ([]cdx.Component, error) {
	binary := filepath.Join(w.bin, on.String(), filepath.Base(name))
	if p, ok := programAt(name); ok {
		if built, err := sumOf(binary); err != nil || built != sum {
			return nil, errors.Join(err, fmt.Errorf("%s is not the program that was built", name))
		}
		notices, err := w.notices(ctx, p.pkg, on)
		if err != nil {
			return nil, err
		}
		main, parts, err := programParts(w.source, p, binary, sum, notices)
		return append(parts, main), err
	}
	if filepath.Base(name) == "goose" {
		return w.goose()
	}
	return debian(ctx, name), nil
}

// goose is what npm's lock file says of goose.
func (w workshop) goose() ([]cdx.Component, error) {
	const name, file = "@aaif/goose-binary-linux-x64", "hack/goose/package-lock.json"
	content, err := os.ReadFile(filepath.Join(w.root, file))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct{ Version, License string }
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	found, ok := lock.Packages["node_modules/"+name]
	if !ok {
		return nil, fmt.Errorf("%s: expected %s in it", file, name)
	}
	url := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + found.Version
	return []cdx.Component{{
		BOMRef: url, Type: cdx.ComponentTypeApplication, Name: name, Version: found.Version, PackageURL: url, Licenses: licencesOf([]string{found.License}),
	}}, nil
}

// debian is the package that brought a file to this machine, where dpkg knows it; nothing elsewhere.
func debian(ctx context.Context, file string) []cdx.Component {
	for _, at := range []string{file, strings.TrimPrefix(file, "/usr"), "/usr" + file} {
		owner, err := exec.CommandContext(ctx, "dpkg-query", "--search", at).Output() //nolint:gosec // no shell
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(string(owner), ": ")
		version, err := exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat", "${Package} ${Version}", name).Output() //nolint:gosec // likewise
		if short, v, found := strings.Cut(string(version), " "); err == nil && found {
			url := "pkg:deb/debian/" + short + "@" + strings.NewReplacer("+", "%2B", ":", "%3A").Replace(v)
			return []cdx.Component{{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: short, Version: v, PackageURL: url}}
		}
	}
	return nil
}
