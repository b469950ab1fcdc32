package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func script(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+content), 0o700)) // #nosec G306 -- a script
}

func getenv(values map[string]string) func(string) string {
	return func(key string) string { return values[key] }
}

func TestImageLoadGetsTheWholeArchive(t *testing.T) {
	b, root := project(t)
	i := buildOne(t, root)
	script(t, filepath.Join(root, "take"), `echo "$1" > taken; cp "$2" taken.tar`)
	t.Chdir(root)
	to, err := newTarget(t.Context(), b, getenv(map[string]string{"IMAGE_LOAD": "./take --into", "KUBECONFIG": "other"}))
	require.NoError(t, err)
	how, err := to.load(t.Context(), i)
	require.NoError(t, err)
	assert.Equal(t, "loaded", how)
	want, err := os.ReadFile(i.archive)
	require.NoError(t, err)
	got, err := os.ReadFile("taken.tar")
	require.NoError(t, err)
	assert.Equal(t, want, got)

	to, err = newTarget(t.Context(), b, getenv(map[string]string{"IMAGE_LOAD": "false"}))
	require.NoError(t, err)
	_, err = to.load(t.Context(), i)
	assert.ErrorContains(t, err, "false "+i.archive+": exit status 1")
}

func TestAnotherClusterNeedsACommand(t *testing.T) {
	b, root := project(t)
	script(t, filepath.Join(root, "hack/cluster/cluster"), "echo "+root+"/kubeconfig")
	_, err := newTarget(t.Context(), b, getenv(map[string]string{"KUBECONFIG": "/other"}))
	require.ErrorContains(t, err, "KUBECONFIG names another cluster (/other): set IMAGE_LOAD")
	_, err = newTarget(t.Context(), b, getenv(map[string]string{"KUBECONFIG": root + "/kubeconfig"}))
	require.NoError(t, err)
}

// nodeTarget is a cluster and a ctr that answer from files.
func nodeTarget(t *testing.T, root string) target {
	t.Helper()
	b, err := newBuilder(root, t.Output())
	require.NoError(t, err)
	script(t, filepath.Join(root, "hack/cluster/cluster"), `case $1 in
kubeconfig) echo `+root+`/kubeconfig;;
load) [ ! -e `+root+`/refuse ] || { rm `+root+`/refuse; exit 1; }; cat "$2" > `+root+`/loaded.tar;;
esac`)
	script(t, filepath.Join(root, "bin/ctr"), `case $* in
*"images ls"*) cat `+root+`/node-images;;
*"content ls"*) cat `+root+`/node-content;;
esac`)
	t.Setenv("PATH", filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	to, err := newTarget(t.Context(), b, getenv(nil))
	require.NoError(t, err)
	return to
}

func TestNodeGetsOnlyWhatItLacks(t *testing.T) {
	_, root := project(t)
	i := buildOne(t, root)
	to := nodeTarget(t, root)
	_, err := to.load(t.Context(), i)
	require.ErrorContains(t, err, "no cluster runs here (start one with make cluster-up)")

	put := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	big, small := i.layers[0].Hash.String(), i.layers[1].Hash.String()
	put("containerd.sock", "")
	for _, tt := range []struct {
		name, images, content, refuse, how string
		has, lacks                         []string
	}{
		{"nothing there", "", "", "", "loaded", []string{big, small}, nil},
		{"another image of that name", "x sha256:00", "sha256:00", "", "loaded", []string{big, small}, nil},
		{"the big layer there", "", big + "\n", "", "loaded, 1 of 2 layers were there", []string{small}, []string{big}},
		{"the big layer lost meanwhile", "", big + "\n", "yes", "loaded", []string{big, small}, nil},
		{"the same image there", "x " + i.digest.String(), big, "", "already there", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			loaded := filepath.Join(root, "loaded.tar")
			put("node-images", tt.images)
			put("node-content", tt.content)
			if tt.refuse != "" {
				put("refuse", "")
			}
			require.NoError(t, os.RemoveAll(loaded))
			how, err := to.load(t.Context(), i)
			require.NoError(t, err)
			assert.Equal(t, tt.how, how)
			if tt.has == nil {
				assert.NoFileExists(t, loaded)
				return
			}
			raw, err := os.ReadFile(loaded) // #nosec G304 -- our own
			require.NoError(t, err)
			blobs := func(digest string) bool {
				return bytes.Contains(raw, []byte("blobs/sha256/"+digest[len("sha256:"):]+"\x00"))
			}
			for _, d := range tt.has {
				assert.True(t, blobs(d))
			}
			for _, d := range tt.lacks {
				assert.False(t, blobs(d))
			}
		})
	}
}
