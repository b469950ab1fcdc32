package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/apiserver"
)

// config/ad-hoc adds its one right and its flag to either installation, as its own words say; without it there is neither.
func TestTheComponentForAdHocRunsAddsOneRightAndAFlag(t *testing.T) {
	root, err := apiserver.Root()
	require.NoError(t, err)
	for _, installation := range []string{"config", "config/namespaced"} {
		plain := server.Kubectl(t, "kustomize", installation)
		assert.NotContains(t, plain, "allow-ad-hoc-runs", installation)
		assert.NotContains(t, plain, "subjectaccessreviews", installation)

		overlay := t.TempDir()
		relative, err := filepath.Rel(overlay, root)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), fmt.Appendf(nil,
			"resources: [%[1]s/%[2]s]\ncomponents: [%[1]s/config/ad-hoc]\n", relative, installation), 0o600))
		with := server.Kubectl(t, "kustomize", overlay)
		assert.Equal(t, 1, strings.Count(with, "- --allow-ad-hoc-runs"), installation)
		assert.Equal(t, 1, strings.Count(with, "- subjectaccessreviews"), installation)
		assert.Contains(t, with, "name: hearth-controller-ad-hoc")
	}
}
