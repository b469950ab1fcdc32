package server

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a delivered run may take, caller included, from its request to the answer that it is recorded. Most of it is the pages of three
// commits, which the garbage collector has back at once: 116 KB and 840 allocations. One commit more would be 50 allocations. There is some
// room for what the runtime does meanwhile.
const (
	maxRunBytes  = 130 << 10
	maxRunAllocs = 870
)

// P7: a run costs no more than so much, and neither do the runs after it.
func TestADeliveryCostsLittleMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector's own memory would be measured")
	}
	h := build(t)
	runs := 0
	cost := func(n int) (bytes, allocs uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			runs++
			h.once("r" + strconv.Itoa(runs))
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n), (after.Mallocs - before.Mallocs) / uint64(n) //nolint:gosec // small
	}
	cost(50)
	for _, when := range []string{"first", "later"} {
		bytes, allocs := cost(200)
		t.Logf("%s: %d bytes, %d allocations a run", when, bytes, allocs)
		assert.Less(t, bytes, uint64(maxRunBytes), when)
		assert.Less(t, allocs, uint64(maxRunAllocs), when)
	}
}
