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

// config/page adds the flag of the status page to either installation, and no right; without it there is no page.
func TestTheComponentForTheStatusPageAddsAFlagAlone(t *testing.T) {
	root, err := apiserver.Root()
	require.NoError(t, err)
	const flag = "        - --page-bind-address=127.0.0.1:8090\n"
	for _, installation := range []string{"config", "config/namespaced"} {
		overlay := t.TempDir()
		relative, err := filepath.Rel(overlay, root)
		require.NoError(t, err)
		built := func(components string) string {
			require.NoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), fmt.Appendf(nil,
				"resources: [%[1]s/%[2]s]\n%[3]s", relative, installation, components), 0o600))
			return server.Kubectl(t, "kustomize", overlay)
		}
		plain, with := built(""), built("components: ["+relative+"/config/page]\n")
		assert.Equal(t, 1, strings.Count(with, flag), installation)
		nothingElse := plain == strings.Replace(with, flag, "", 1)
		assert.True(t, nothingElse, installation)
	}
	_, err = parse([]string{strings.TrimPrefix(strings.TrimSpace(flag), "- ")}, none, nil)
	require.NoError(t, err)
}
