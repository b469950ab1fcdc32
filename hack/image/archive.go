package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// assemble makes the image of a description and its layers.
func assemble(spec image, layers []v1.Layer, arch string) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(img, layers...)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config = v1.Config{
		Entrypoint: spec.Entrypoint, Cmd: spec.Cmd, Env: spec.Env, User: spec.User,
		WorkingDir: spec.WorkingDir, Labels: spec.Labels,
	}
	return mutate.ConfigFile(img, config)
}

// writeArchive writes an image archive that both kinds of importers take: an OCI layout that also has the
// manifest.json of `docker save`. Layers that skip names are left out; an importer that has them already
// (containerd) does not miss them.
func writeArchive(w io.Writer, tag name.Tag, img v1.Image, skip map[string]bool) error {
	manifest, err := img.RawManifest()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	index, docker, err := indexes(tag, img)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index}, {"manifest.json", docker},
		{blob(hashOf(img.Digest)), manifest}, {blob(hashOf(img.ConfigName)), config},
	} {
		if err := addFile(archive, file.name, int64(len(file.content)), bytes.NewReader(file.content)); err != nil {
			return err
		}
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		if err := addLayer(archive, l, skip); err != nil {
			return err
		}
	}
	return archive.Close()
}

func addLayer(archive *tar.Writer, l v1.Layer, skip map[string]bool) error {
	hash, err := l.Digest()
	if err != nil || skip[hash.String()] {
		return err
	}
	size, err := l.Size()
	if err != nil {
		return err
	}
	content, err := l.Compressed()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	return addFile(archive, blob(hash), size, content)
}

func addFile(archive *tar.Writer, where string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: where, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

// indexes are the OCI layout's index.json and docker's manifest.json.
func indexes(tag name.Tag, img v1.Image) (oci, docker []byte, err error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, nil, err
	}
	size, err := img.Size()
	if err != nil {
		return nil, nil, err
	}
	layers := make([]string, 0, len(manifest.Layers))
	for _, l := range manifest.Layers {
		layers = append(layers, blob(l.Digest))
	}
	oci, err = json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIManifestSchema1, Digest: hashOf(img.Digest), Size: size,
			Platform:    &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
			Annotations: map[string]string{"io.containerd.image.name": tag.Name(), "org.opencontainers.image.ref.name": tag.TagStr()},
		}},
	})
	if err != nil {
		return nil, nil, err
	}
	docker, err = json.Marshal([]any{map[string]any{"Config": blob(manifest.Config.Digest), "RepoTags": []string{tag.Name()}, "Layers": layers}})
	return oci, docker, err
}

// hashOf reads a hash that was computed when the manifest was.
func hashOf(f func() (v1.Hash, error)) v1.Hash {
	h, err := f()
	if err != nil {
		panic(fmt.Sprintf("an image whose manifest is known has no hash: %v", err))
	}
	return h
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
