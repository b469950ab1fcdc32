package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "file"}, {"commit", "-qm", "one"}} {
		inGit(t, dir, args...)
	}
	return dir
}

func inGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=1700000000 +0900", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func env(value string) func(string) string { return func(string) string { return value } }

// A release is of a commit as it is, dated by it or by SOURCE_DATE_EPOCH; a tag that is elsewhere is not taken for it.
func TestAReleaseIsOfACommit(t *testing.T) {
	dir := repository(t)
	s, err := sourceOf(t.Context(), dir, "v1.2.3", "localhost", env(""))
	require.NoError(t, err)
	assert.Equal(t, int64(1700000000), s.created.Unix())
	assert.Len(t, s.revision, 40)
	s, err = sourceOf(t.Context(), dir, "v1.2.3-rc.1", "localhost", env("1600000000"))
	require.NoError(t, err)
	assert.Equal(t, int64(1600000000), s.created.Unix())
	_, err = sourceOf(t.Context(), dir, "v1.2.3", "localhost", env("yesterday"))
	require.ErrorContains(t, err, `SOURCE_DATE_EPOCH: expected seconds since 1970, got "yesterday"`)

	inGit(t, dir, "tag", "v1.2.3")
	_, err = sourceOf(t.Context(), dir, "v1.2.3", "localhost", env(""))
	require.NoError(t, err)
	inGit(t, dir, "commit", "-q", "--allow-empty", "-m", "two")
	_, err = sourceOf(t.Context(), dir, "v1.2.3", "localhost", env(""))
	require.ErrorContains(t, err, "-version: tag v1.2.3 is on")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
	_, err = sourceOf(t.Context(), dir, "v1.2.4", "localhost", env(""))
	require.ErrorContains(t, err, "expected a work tree as it was committed, these differ:\n?? new")
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3+meta", "v01.2.3"} {
		_, err = sourceOf(t.Context(), dir, version, "localhost", env(""))
		require.ErrorContains(t, err, "-version: expected one such as v0.2.0")
	}
	for _, registry := range []string{"", "a b", "localhost/", "a@b"} {
		_, err = sourceOf(t.Context(), dir, "v1.2.4", registry, env(""))
		require.ErrorContains(t, err, "-registry: expected")
	}
}

func TestWhatIsNoReleaseIsNotRemoved(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, replaceable(dir))
	require.NoError(t, replaceable(filepath.Join(dir, "missing")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letters"), nil, 0o600))
	require.ErrorContains(t, replaceable(dir), "expected a release of before or nothing")
	require.NoError(t, os.WriteFile(filepath.Join(dir, sumsFile), nil, 0o600))
	require.NoError(t, replaceable(dir))
}
