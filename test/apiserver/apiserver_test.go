package apiserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMissingAssetsNameTheCommandThatMakesThem(t *testing.T) {
	_, err := assets("")
	require.ErrorContains(t, err, "KUBEBUILDER_ASSETS is not set: run `make envtest-assets`")

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600))
	_, err = assets(dir)
	require.ErrorContains(t, err, "has no kube-apiserver: run `make envtest-assets`")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "kube-apiserver"), nil, 0o600))
	got, err := assets(dir)
	require.NoError(t, err)
	assert.Equal(t, dir, got)
}
