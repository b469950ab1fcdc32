package attach

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What an update of 1 KiB may take on its way from the agent to the disk and to one viewer, and what each viewer more may. The latter is
// far below the update itself: all are shown the same bytes, and nobody marshals or copies them. The former is 3 KB and 8 allocations; one
// copy more would be 4.2 KB and 9, and to read and to marshal an update once more 4 KiB and 34 allocations more.
const (
	maxUpdateBytes  = 4 << 10
	maxUpdateAllocs = 9
	maxViewerBytes  = 200
	maxViewerAllocs = 0.2
)

// P8: one marshal an update and not one a viewer; what a viewer more costs is a place in his queue.
func TestARoutedUpdateCostsLittleMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector's own memory would be measured")
	}
	const many = 50
	bytes1, allocs1 := updateCost(t, 1)
	bytesMany, allocsMany := updateCost(t, many)
	viewerBytes, viewerAllocs := (bytesMany-bytes1)/(many-1), (allocsMany-allocs1)/(many-1)
	t.Logf("an update: %.0f bytes, %.1f allocations; each viewer more: %.0f bytes, %.2f allocations", bytes1, allocs1, viewerBytes, viewerAllocs)
	assert.Less(t, bytes1, float64(maxUpdateBytes))
	assert.Less(t, allocs1, float64(maxUpdateAllocs))
	assert.Less(t, viewerBytes, float64(maxViewerBytes))
	assert.Less(t, viewerAllocs, float64(maxViewerAllocs))
}

// updateCost has the agent send updates to viewers who read.
func updateCost(t *testing.T, viewers int) (size, allocs float64) {
	t.Helper()
	const updates = 500
	h := newHouse(t)
	a := h.rise(0, "", false)
	a.begin("r1", "u1")
	done := make(chan struct{})
	for range viewers {
		g := h.connect(View)
		g.load("r1")
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				m, err := g.Next(t.Context())
				if err != nil || bytes.Contains(m.Data[:min(len(m.Data), 200)], []byte(`"text":"end`)) {
					return
				}
			}
		}()
	}
	line := says("r1", strings.Repeat("x", 1<<10)) + "\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range updates {
		_, err := io.WriteString(a.out, line)
		require.NoError(t, err)
	}
	a.write(says("r1", "end"))
	for range viewers {
		<-done
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / updates, float64(after.Mallocs-before.Mallocs) / updates
}
