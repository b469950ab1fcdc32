package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const releasedSpec = `{"name":"localhost/hearth-x:dev","inputs":{"x":{"go":"./cmd/x"}},"release":["amd64","arm64"],
	"layers":[{"entries":[{"path":"/x","input":"x"}]}],"entrypoint":["/x"],"user":"65532:65532","labels":{"a":"b"}}`

// released makes a project with one released image and lays it out.
func released(t *testing.T) (string, error) {
	t.Helper()
	root := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	for name, content := range map[string]string{
		"images/x/image.json": releasedSpec, "LICENSE": "ours",
		"bin/linux-amd64/x": "intel", "bin/linux-arm64/x": "arm", "bin/linux-amd64/x.licences": "theirs", "bin/linux-arm64/x.licences": "theirs",
		"images/dev/image.json": strings.Replace(testSpec, "hearth-x", "hearth-dev", 1),
	} {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	var out bytes.Buffer
	err := run(t.Context(), root, "", []string{
		"layout", "-out", filepath.Join(root, "out"), "-binaries", filepath.Join(root, "bin"), "-version", "v9.8.7",
		"-revision", "abc", "-created", "1700000000",
	}, &out, t.Output())
	left, _ := os.ReadDir(os.Getenv("TMPDIR"))
	assert.Empty(t, left)
	return filepath.Join(root, "out"), err
}

// A released image is one index for its architectures, valid to the library's own eye, with the programs that were built for each.
func TestALayoutHoldsEachArchitecturesOwnProgram(t *testing.T) {
	out, err := released(t)
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(out, "hearth-dev"), "no part of a release")
	index, err := ocilayout.ImageIndexFromPath(filepath.Join(out, "hearth-x"))
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	top, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, top.Manifests, 1)
	assert.Equal(t, "v9.8.7", top.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	require.NoError(t, err)
	manifests, err := inner.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifests.Manifests, 2)
	for i, want := range []struct{ arch, program string }{{"amd64", "intel"}, {"arm64", "arm"}} {
		assert.Equal(t, "linux/"+want.arch, manifests.Manifests[i].Platform.String())
		img, err := inner.Image(manifests.Manifests[i].Digest)
		require.NoError(t, err)
		config, err := img.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, want.arch, config.Architecture)
		assert.Equal(t, int64(1700000000), config.Created.Unix())
		assert.Equal(t, map[string]string{
			"a": "b", "org.opencontainers.image.version": "v9.8.7", "org.opencontainers.image.revision": "abc",
			"org.opencontainers.image.created": "2023-11-14T22:13:20Z",
		}, config.Config.Labels)
		layers, err := img.Layers()
		require.NoError(t, err)
		require.Len(t, layers, 2)
		var got []string
		for _, l := range layers {
			content, err := l.Uncompressed()
			require.NoError(t, err)
			var all bytes.Buffer
			_, err = all.ReadFrom(content)
			require.NoError(t, err)
			if len(got) == 0 {
				assert.Contains(t, all.String(), want.program)
			}
			got = append(got, paths(t, &all)...)
		}
		assert.Subset(t, got, []string{"x 755", "usr/share/licenses/hearth/LICENSE 644", "usr/share/licenses/hearth/x.licences 644"})
	}
}

func TestLayoutsAreTheSameBytesWhereverWritten(t *testing.T) {
	one, err := released(t)
	require.NoError(t, err)
	two, err := released(t)
	require.NoError(t, err)
	assert.Equal(t, files(t, one), files(t, two))
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		all[name] = string(content)
		return err
	}))
	require.NotEmpty(t, all)
	return all
}

func TestALayoutNeedsAllItsFlagsAndItsOwnArchitecture(t *testing.T) {
	full := []string{"-out", "o", "-binaries", "b", "-version", "v", "-revision", "r", "-created", "1"}
	for i := 0; i < len(full); i += 2 {
		_, _, err := parseRelease(append(append([]string{}, full[:i]...), full[i+2:]...))
		require.ErrorContains(t, err, full[i]+": expected")
	}
	_, _, err := parseRelease(append(full, "-created", "yesterday"))
	require.ErrorContains(t, err, "-created")
	b, _ := project(t)
	b.arch = "riscv64"
	_, err = b.produce(t.Context(), input{Run: "big.sh"})
	require.ErrorContains(t, err, "not for riscv64")
	b.prebuilt = t.TempDir()
	_, err = b.produce(t.Context(), input{Go: "./cmd/x"})
	require.ErrorContains(t, err, "./cmd/x is not among the binaries")
	require.ErrorContains(t, image{Release: []string{"arm64", "arm64"}}.checkRelease(), `release: expected amd64 and arm64, each once at most, got "arm64"`)
	require.ErrorContains(t, image{Release: []string{"s390x"}}.checkRelease(), `got "s390x"`)
}
