package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testSpec = `{"name":"localhost/hearth-x:dev","inputs":{"big":{"run":"big.sh"},"small":{"run":"small.sh"}},
	"layers":[{"entries":[{"path":"/opt/big","input":"big"},{"path":"/tmp","dir":true,"mode":"1777"}]},
		{"entries":[{"path":"/small","input":"small","mode":"0644"},{"path":"/etc/motd","text":"hi"},{"path":"/s","link":"small"}]}],
	"entrypoint":["/small"],"user":"65532:65532","env":["A=b"]}`

// project is a folder with one image, whose big and small inputs are files a test can change.
func project(t *testing.T) (*builder, string) {
	t.Helper()
	root := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	write := func(name, content string) {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o700)) // #nosec G306 -- scripts
	}
	write("images/x/image.json", testSpec)
	for _, name := range []string{"big", "small"} {
		write(name, "content of "+name)
		write(name+".sh", "#!/bin/sh\necho noise\necho $PWD/"+name+"\n")
	}
	b, err := newBuilder(root, t.Output())
	require.NoError(t, err)
	return b, root
}

func buildOne(t *testing.T, root string) built {
	t.Helper()
	b, err := newBuilder(root, t.Output())
	require.NoError(t, err)
	images, err := b.buildAll(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, images, 1)
	return images[0]
}

// The same content under two tags is two archives: each says its own.
func TestATagTakesThePlaceOfTheDescriptions(t *testing.T) {
	b, root := project(t)
	dev := buildOne(t, root)
	b.tag = "v0.1.0"
	images, err := b.buildAll(t.Context(), []string{"x"})
	require.NoError(t, err)
	assert.Equal(t, "localhost/hearth-x:v0.1.0", images[0].tag.Name())
	assert.Equal(t, dev.digest, images[0].digest)
	for _, i := range []built{dev, images[0]} {
		_, err := tarball.ImageFromPath(i.archive, &i.tag)
		assert.NoError(t, err, i.archive)
	}
	b.tag = "no tag"
	_, err = b.buildAll(t.Context(), []string{"x"})
	assert.ErrorContains(t, err, "-tag: ")
}

func TestArchiveHoldsWhatTheDescriptionSays(t *testing.T) {
	_, root := project(t)
	i := buildOne(t, root)
	img, err := tarball.ImageFromPath(i.archive, &i.tag)
	require.NoError(t, err)
	config, err := img.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, []string{"/small"}, config.Config.Entrypoint)
	assert.Equal(t, "65532:65532", config.Config.User)
	assert.Equal(t, []string{"A=b"}, config.Config.Env)
	layers, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 2)
	var got []string
	for _, l := range layers {
		content, err := l.Uncompressed()
		require.NoError(t, err)
		got = append(got, paths(t, content)...)
		require.NoError(t, content.Close())
	}
	assert.Equal(t, []string{"opt/ 755", "opt/big 755", "tmp/ 1777", "etc/ 755", "etc/motd 644", "s 755 small", "small 644"}, got)
}

func paths(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		assert.Equal(t, time.Unix(0, 0).UTC(), h.ModTime.UTC())
		assert.Zero(t, h.Uid+h.Gid)
		line := h.Name + " " + octal(h.Mode)
		if h.Linkname != "" {
			line += " " + h.Linkname
		}
		out = append(out, line)
	}
}

func octal(mode int64) string {
	const digits = "01234567"
	var s string
	for ; mode > 0; mode >>= 3 {
		s = string(digits[mode&7]) + s
	}
	return s
}

func TestSameInputsGiveTheSameImageWhereverAndWheneverBuilt(t *testing.T) {
	_, root := project(t)
	first := buildOne(t, root)
	info, err := os.Stat(first.archive)
	require.NoError(t, err)

	again := buildOne(t, root)
	assert.Equal(t, first.digest, again.digest)
	after, err := os.Stat(again.archive)
	require.NoError(t, err)
	assert.True(t, os.SameFile(info, after), "nothing is written twice")

	_, elsewhere := project(t)
	require.NoError(t, os.Chtimes(filepath.Join(elsewhere, "big"), time.Time{}, time.Unix(1000, 0)))
	other := buildOne(t, elsewhere)
	assert.Equal(t, first.digest, other.digest)
	one, err := os.ReadFile(first.archive)
	require.NoError(t, err)
	two, err := os.ReadFile(other.archive)
	require.NoError(t, err)
	assert.Equal(t, one, two)
}

func TestAChangedInputRewritesItsLayerOnlyAndOldFilesGo(t *testing.T) {
	_, root := project(t)
	first := buildOne(t, root)
	big, err := os.Stat(first.layers[0].file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "small"), []byte("new"), 0o600))

	second := buildOne(t, root)
	assert.NotEqual(t, first.digest, second.digest)
	after, err := os.Stat(second.layers[0].file)
	require.NoError(t, err)
	assert.True(t, os.SameFile(big, after), "the big layer is the same file")
	assert.NoFileExists(t, first.archive)
	assert.NoFileExists(t, first.layers[1].file)
	assert.NoFileExists(t, first.layers[1].file+".json")
	assert.FileExists(t, second.archive)
}

func TestAnInputThatFailsIsNamed(t *testing.T) {
	b, root := project(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, "small.sh"), []byte("#!/bin/sh\nexit 3\n"), 0o700)) // #nosec G306 -- a script
	_, err := b.buildAll(t.Context(), []string{"x"})
	require.EqualError(t, err, "image x: input small: small.sh: exit status 3")

	require.NoError(t, os.WriteFile(filepath.Join(root, "small.sh"), []byte("#!/bin/sh\necho small\n"), 0o700)) // #nosec G306 -- a script
	_, err = b.buildAll(t.Context(), []string{"x"})
	require.ErrorContains(t, err, `expected the absolute path of a file as last line, got "small"`)
}

func TestASecondBuildWaitsAndCanBeInterrupted(t *testing.T) {
	b, root := project(t)
	unlock, err := b.lock(t.Context())
	require.NoError(t, err)
	var said bytes.Buffer
	second, err := newBuilder(root, &said)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = second.lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "image: waiting for another build of images\n", said.String())
	unlock()
	unlock, err = second.lock(t.Context())
	require.NoError(t, err)
	unlock()
}
