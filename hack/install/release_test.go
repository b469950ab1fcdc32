package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestAReleaseNamesItsImagesInTheManifestAndInTheChart(t *testing.T) {
	out := t.TempDir()
	const image = "registry.example.com:5000/hearth/controller"
	require.NoError(t, run([]string{"release", "-root", root, "-out", out, "-image-controller", image + ":v0.2.0", "-version", "0.2.0"}, io.Discard))
	manifest, err := os.ReadFile(filepath.Join(out, "install.yaml")) //nolint:gosec // of this test
	require.NoError(t, err)
	assert.Contains(t, string(manifest), "image: "+image+":v0.2.0\n")
	assert.NotContains(t, string(manifest), "localhost/")

	var chart struct{ Version, AppVersion string }
	read(t, filepath.Join(out, "hearth", "Chart.yaml"), &chart)
	assert.Equal(t, "0.2.0", chart.Version)
	assert.Equal(t, "0.2.0", chart.AppVersion)
	var values struct{ Image map[string]any }
	read(t, filepath.Join(out, "hearth", "values.yaml"), &values)
	assert.Equal(t, image, values.Image["repository"])
	assert.Equal(t, "v0.2.0", values.Image["tag"])
	assert.FileExists(t, filepath.Join(out, "hearth", "files", "crd", "customresourcedefinition-agents.hearth.dev.yaml"))
	assert.FileExists(t, filepath.Join(out, "hearth", ".helmignore"))
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file) //nolint:gosec // of this test
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, into))
}

func TestBadArgumentsAreNamed(t *testing.T) {
	for wanted, args := range map[string][]string{
		"usage: ":                        {},
		`unknown command "dist"`:         {"dist"},
		`unexpected argument "x"`:        {"chart", "x"},
		"-out: expected a directory":     {"release"},
		"-version: expected one such as": {"release", "-out", "x", "-version", "v1"},
		"-image-controller: expected an image with a tag or a digest, got \"a/b\"": {"release", "-out", "x", "-version", "1.0.0", "-image-controller", "a/b"},
		"-image-controller: expected an image with a tag or a digest, got \"\"":    {"release", "-out", "x", "-version", "1.0.0"},
	} {
		assert.ErrorContains(t, run(args, io.Discard), wanted)
	}
}

func TestAnImagesNameIsTakenApart(t *testing.T) {
	for image, want := range map[string][3]string{
		"a/b:v1":                {"a/b", "v1", ""},
		"r:5000/a/b:v1":         {"r:5000/a/b", "v1", ""},
		"r:5000/a/b@sha256:abc": {"r:5000/a/b", "", "sha256:abc"},
		"r/a:v1@sha256:abc":     {"r/a", "v1", "sha256:abc"},
	} {
		repository, tag, digest, err := reference(image)
		require.NoError(t, err)
		assert.Equal(t, want, [3]string{repository, tag, digest}, image)
	}
}
