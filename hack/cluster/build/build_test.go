package build

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const program = "package main\n\nfunc main() {}\n"

// source makes a module that builds in a moment.
func source(t *testing.T, name string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, name)
	require.NoError(t, os.Mkdir(dir, 0o700))
	write(t, dir, "go.mod", "module example.test/"+name+"\n\ngo 1.26\n")
	write(t, dir, "main.go", program)
	return root
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func hash(t *testing.T, dir string, salt ...string) string {
	t.Helper()
	got, err := Hash(dir, salt...)
	require.NoError(t, err)
	return got
}

func TestHashFollowsContentNamesAndSaltOnly(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "1")
	first := hash(t, dir, "flags")
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a"), time.Unix(1, 0), time.Unix(1, 0)))
	assert.Equal(t, first, hash(t, dir, "flags"), "times do not matter")

	assert.NotEqual(t, first, hash(t, dir, "other flags"), "salt")
	write(t, dir, "a", "2")
	changed := hash(t, dir, "flags")
	assert.NotEqual(t, first, changed, "content")
	write(t, dir, "b", "")
	assert.NotEqual(t, changed, hash(t, dir, "flags"), "a new file")
}

func TestHashKeepsNameAndContentApart(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	write(t, one, "ab", "c")
	write(t, other, "a", "bc")
	assert.NotEqual(t, hash(t, one), hash(t, other))
}

func TestEnsureBuildsOnceAndLinks(t *testing.T) {
	var progress bytes.Buffer
	b := Builder{Source: source(t, "kube"), Cache: filepath.Join(t.TempDir(), "cache"), Progress: &progress}
	artifact := Artifact{Name: "kube", Title: "a small program", Links: []string{"etcd", "kubectl"}}

	dir, err := b.Ensure(t.Context(), artifact)
	require.NoError(t, err)
	require.NoError(t, exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl")).Run())
	assert.Contains(t, progress.String(), "building a small program")

	progress.Reset()
	again, err := b.Ensure(t.Context(), artifact)
	require.NoError(t, err)
	assert.Equal(t, dir, again)
	assert.Empty(t, progress.String(), "nothing is built a second time")
}

func TestEnsureBuildsAgainAfterAChange(t *testing.T) {
	b := Builder{Source: source(t, "kube"), Cache: t.TempDir(), Progress: &bytes.Buffer{}}
	before, err := b.Ensure(t.Context(), Artifact{Name: "kube"})
	require.NoError(t, err)
	write(t, filepath.Join(b.Source, "kube"), "main.go", program+"\n// changed\n")
	after, err := b.Ensure(t.Context(), Artifact{Name: "kube"})
	require.NoError(t, err)
	assert.NotEqual(t, before, after)
}

func TestEnsureLeavesNothingThatLooksCompleteAfterAFailure(t *testing.T) {
	b := Builder{Source: source(t, "kube"), Cache: t.TempDir(), Progress: &bytes.Buffer{}}
	write(t, filepath.Join(b.Source, "kube"), "main.go", "package main\n\nfunc main() { undefined() }\n")
	_, err := b.Ensure(t.Context(), Artifact{Name: "kube", Title: "a broken program"})
	require.ErrorContains(t, err, "building a broken program")
	require.ErrorContains(t, err, "undefined: undefined", "the compiler's words are shown")
	assert.Equal(t, []string{"kube.lock"}, entries(t, b.Cache))
}

func TestEnsureReplacesWhatAKilledBuildLeft(t *testing.T) {
	b := Builder{Source: source(t, "kube"), Cache: t.TempDir(), Progress: &bytes.Buffer{}}
	scratch := filepath.Join(b.Cache, ".building-kube")
	require.NoError(t, os.Mkdir(scratch, 0o700))
	write(t, scratch, "etcd", "half a file")
	dir, err := b.Ensure(t.Context(), Artifact{Name: "kube", Links: []string{"etcd"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"etcd", "kube"}, entries(t, dir))
	assert.NoDirExists(t, scratch)
}

func TestConcurrentCallsBuildOnce(t *testing.T) {
	root, cache := source(t, "kube"), t.TempDir()
	const calls = 4
	builds := make([]bytes.Buffer, calls)
	failed := make(chan error, calls)
	for i := range calls {
		go func() {
			b := Builder{Source: root, Cache: cache, Progress: &builds[i]}
			_, err := b.Ensure(context.WithoutCancel(t.Context()), Artifact{Name: "kube", Title: "it"})
			failed <- err
		}()
	}
	for range calls {
		require.NoError(t, <-failed)
	}
	built := 0
	for i := range builds {
		if bytes.Contains(builds[i].Bytes(), []byte("building it")) {
			built++
		}
	}
	assert.Equal(t, 1, built)
}

func TestProgressLine(t *testing.T) {
	assert.Equal(t, "building Kubernetes v1.37.2 … 2m15s (about 7 min)",
		Line("building Kubernetes v1.37.2", "about 7 min", 2*time.Minute+15*time.Second+300*time.Millisecond))
	assert.Equal(t, "building pause … 1s", Line("building pause", "", time.Second))
}

func TestTailKeepsTheEnd(t *testing.T) {
	kept := &tail{}
	for range 3 * tailLines {
		_, err := kept.Write([]byte("line\n"))
		require.NoError(t, err)
	}
	_, err := kept.Write([]byte("the "))
	require.NoError(t, err)
	_, err = kept.Write([]byte("end"))
	require.NoError(t, err)
	assert.Len(t, bytes.Split([]byte(kept.String()), []byte("\n")), tailLines+1)
	assert.Contains(t, kept.String(), "the end")
}

func TestVersionsAreThoseOfTheModules(t *testing.T) {
	for file, line := range map[string]string{
		"../kube/go.mod":    "k8s.io/kubernetes " + KubernetesVersion,
		"../coredns/go.mod": "github.com/coredns/coredns " + CoreDNSVersion,
	} {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(content), line)
	}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range found {
		names = append(names, entry.Name())
	}
	return names
}
