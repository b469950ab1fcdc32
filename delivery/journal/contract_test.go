package journal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md, The older contract: entries say which contract they came by, across a restart; one that says nothing came by the wire's.
func TestEntriesSayWhichContractTheyCameBy(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	for run, contract := range map[string]string{"ours": "hearth.dev/delivery/v1alpha1", "older": "kontext.dev/delivery/v1alpha1", "silent": ""} {
		r := request(run, 1)
		r.APIVersion = contract
		_, err := j.Accept(r)
		require.NoError(t, err)
	}
	_, err := j.Void(key("older", 1))
	require.NoError(t, err)
	check := func() {
		for run, want := range map[string]string{
			"ours": "hearth.dev/delivery/v1alpha1", "older": "kontext.dev/delivery/v1alpha1", "silent": "hearth.dev/delivery/v1alpha1",
		} {
			e, err := j.Get(key(run, 1))
			require.NoError(t, err)
			assert.Equal(t, want, e.Contract, run)
		}
	}
	check()
	assert.Len(t, j.Accepted(), 2)
	require.Len(t, j.Ended(), 1)
	assert.Equal(t, "kontext.dev/delivery/v1alpha1", j.Ended()[0].Contract)
	require.NoError(t, j.Recorded(key("older", 1)))
	assert.Empty(t, j.Ended())
	check()
	require.NoError(t, j.Close())
	j = mustOpen(t, dir)
	check()
}
