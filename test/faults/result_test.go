//go:build faults

package faults_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 34: what an agent says, whatever it is and however much, comes to a valid record that says what was cut.
func TestRow34_AnyResultIsAValidRecord(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	w.Ready("reviewer", 1)
	const half = hearthv1.MaxOutputBytes - 1
	for goal, tt := range map[string]struct {
		bytes int64 // of the whole, 0 where nothing is cut
		holds string
	}{
		"parts: 800 65536":                           {bytes: 800 * 65536},
		"say: before ;; bytes: fffe00c3 ;; say: end": {holds: "end"},
		"parts: 1 262143 ;; bytes: c3a9":             {bytes: half + 2},
	} {
		run := w.Run("reviewer", goal)
		got := w.Await(run, succeeded)
		value := got.Status.Output.Value
		assert.True(t, utf8.ValidString(value), goal)
		assert.NotContains(t, value, "\x00", goal)
		assert.LessOrEqual(t, len(value), hearthv1.MaxOutputBytes, goal)
		assert.Contains(t, value, tt.holds)
		if tt.bytes == 0 {
			assert.Nil(t, got.Status.Truncation, goal)
		} else if assert.NotNil(t, got.Status.Truncation, goal) {
			assert.Equal(t, tt.bytes, got.Status.Truncation.OriginalBytes, goal)
			assert.NotEmpty(t, got.Status.Truncation.SHA256, goal)
		}
		assert.Len(t, w.EffectsOf(run), 1)
	}
}
