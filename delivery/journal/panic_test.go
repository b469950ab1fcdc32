package journal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Row 42: whoever panics after a write, memory and file say the same, and the next write goes on from there.
func TestAPanicAfterAWriteLeavesMemoryAndFileTheSame(t *testing.T) {
	for at := range script {
		t.Run(script[at].name, func(t *testing.T) {
			panics := false
			dir := memoryTempDir(t)
			j := mustOpen(t, dir, func(c *Config) {
				c.AfterWrite = func(string) {
					if panics {
						panic("after a write")
					}
				}
			})
			for i, step := range script {
				if panics = i == at; panics {
					assert.Panics(t, func() { _ = step.do(j) })
					continue
				}
				require.NoError(t, step.do(j), step.name)
			}
			e, err := j.Get(key("d", 1))
			require.NoError(t, err)
			assert.Equal(t, wire.StateAccepted, e.State)
		})
	}
}
