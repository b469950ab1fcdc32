package deliver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

// A harness may have to be told several times that a late result is recorded; the Event about it comes once, for each run and Pod.
func TestALateResultIsToldOnce(t *testing.T) {
	m, key := newMemory(), types.NamespacedName{Namespace: "n", Name: "run"}
	assert.False(t, m.late(key, "pod", "uid"), "nothing was seen there")
	m.saw(key, "pod")
	assert.True(t, m.late(key, "pod", "uid"))
	m.saw(key, "pod")
	assert.False(t, m.late(key, "pod", "uid"))
	assert.True(t, m.late(key, "pod", "another"), "another run of that name")
	m.saw(key, "second")
	assert.True(t, m.late(key, "second", "uid"))
	m.left(key, "pod")
	m.saw(key, "pod")
	assert.True(t, m.late(key, "pod", "uid"), "it left the Pod and is there again")
}
