package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The manifest and the chart name the released image by tag and by the digest that the layout has, and are the same bytes twice.
func TestManifestAndChartNameTheReleasedImage(t *testing.T) {
	var sums [][2]string
	for range 2 {
		w := bench(t)
		w.registry = "registry.example.com/hearth"
		for _, on := range linux { // what is in the programs does not matter here
			require.NoError(t, os.MkdirAll(filepath.Join(w.bin, on.String()), 0o750))
			require.NoError(t, os.WriteFile(filepath.Join(w.bin, on.String(), "controller"), []byte(on.arch), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(w.bin, on.String(), "controller.licences"), nil, 0o600))
		}
		require.NoError(t, w.layOut(t.Context(), "controller"))
		require.NoError(t, os.MkdirAll(w.out, 0o750))
		require.NoError(t, w.install(t.Context()))
		_, digest, err := w.index("hearth-controller")
		require.NoError(t, err)
		manifest, err := os.ReadFile(filepath.Join(w.out, "install.yaml"))
		require.NoError(t, err)
		assert.Contains(t, string(manifest), "image: registry.example.com/hearth/hearth-controller:v9.8.7@"+digest.String()+"\n")
		assert.NotContains(t, string(manifest), "hearth-controller:dev")
		chart := contents(t, filepath.Join(w.out, "hearth-chart-9.8.7.tgz"))
		assert.Contains(t, chart["hearth/Chart.yaml"], "\nversion: 9.8.7\n")
		assert.Contains(t, chart["hearth/values.yaml"], digest.String())
		one, err := sumOf(filepath.Join(w.out, "install.yaml"))
		require.NoError(t, err)
		two, err := sumOf(filepath.Join(w.out, "hearth-chart-9.8.7.tgz"))
		require.NoError(t, err)
		sums = append(sums, [2]string{one, two})
	}
	assert.Equal(t, sums[0], sums[1])
}
