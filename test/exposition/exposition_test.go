package exposition

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatARegistryHoldsIsKeptWhereItIsAskedFor(t *testing.T) {
	r := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "a_total", Help: "As."}, []string{"b"})
	r.MustRegister(c)
	c.WithLabelValues("c").Inc()
	dir := filepath.Join(t.TempDir(), "made")
	t.Setenv(Dir, "")
	require.NoError(t, KeepRegistry(r, "end"))
	assert.NoDirExists(t, dir)
	t.Setenv(Dir, dir)
	require.NoError(t, KeepRegistry(r, "end"))
	content, err := os.ReadFile(filepath.Join(dir, "controller-exposition-end.prom"))
	require.NoError(t, err)
	assert.Equal(t, "# HELP a_total As.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n", string(content))
}
