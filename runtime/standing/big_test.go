package standing

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// watchHeap samples the live heap until stop is called, which returns by how much it grew at most.
func watchHeap() (stop func() uint64) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before := heap()
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most := before
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				most = max(most, heap())
			case <-done:
				peak <- most - before
				return
			}
		}
	}()
	return sync.OnceValue(func() uint64 { close(done); return <-peak })
}

// Fault row 34: an answer of any size ends as a valid envelope that says what was cut; nothing dies, and memory holds the message that
// is being read, not the answer.
func TestAHugeAnswerIsCut(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name, goal string
		size       int
		heap       uint64 // most that it may take
		slow       bool
	}{
		{"5 MiB in a line", fmt.Sprintf("huge: %d", 5*mib), 5 * mib, 100 * mib, false},
		{"5 MiB in many", fmt.Sprintf("parts: 320 %d", mib/64), 5 * mib, 16 * mib, false},
		{"50 MiB in a line", fmt.Sprintf("huge: %d", 50*mib), 50 * mib, 600 * mib, true},
		{"50 MiB in many", fmt.Sprintf("parts: 3200 %d", mib/64), 50 * mib, 32 * mib, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && os.Getenv("HEARTH_SLOW") != "1" {
				t.Skip("slow")
			}
			s := stand(t, nil)
			s.ready()
			peak := watchHeap()
			e := s.turn(t.Context(), c.goal)
			grew := peak()
			t.Logf("the heap grew by %d KiB", grew>>10)
			require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
			sum := sha256.Sum256([]byte(strings.Repeat("x", c.size)))
			assert.Equal(t, &wire.Truncation{OriginalBytes: int64(c.size), SHA256: base64.RawURLEncoding.EncodeToString(sum[:])}, e.Truncation)
			encoded, err := wire.Encode(e)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(encoded), wire.MaxEnvelopeBytes)
			assert.Less(t, grew, c.heap)
			assert.Equal(t, "again", output(t, s.turn(t.Context(), "say: again")))
			assert.Equal(t, []wire.AgentState{"ready"}, s.states())
		})
	}
}

// Fault row 34: bytes that are no text, in what an agent says and in what its tools do, end as U+FFFD or nowhere.
func TestAnyBytesOfAnAgentEndAsText(t *testing.T) {
	t.Parallel()
	s := stand(t, nil)
	e := s.turn(t.Context(), `tool_bytes: ff00fe ;; tool_bytes: fffe61 ;; tool_bytes: 5c7530303030 ;; bytes: 61ff5c753030303062 ;; bytes: c3 ;; bytes: a9 ;; bytes: 5c7564383364`)
	require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.Equal(t, "a\uFFFD\uFFFDb\uFFFD\uFFFD\uFFFD", output(t, e))
	assert.Equal(t, wire.Tools{Calls: 1}, e.Tools)
	assert.True(t, utf8.ValidString(output(t, e)))
	assert.Equal(t, "again", output(t, s.turn(t.Context(), "say: again")))
}

// Fault row 34, with a real agent.
func TestAHugeAnswerOfGooseIsCut(t *testing.T) {
	t.Parallel()
	g := standGoose(t)
	const size = 5 << 20
	e := g.turn(t.Context(), fmt.Sprintf("huge: %d", size))
	require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	require.NotNil(t, e.Truncation)
	assert.EqualValues(t, size, e.Truncation.OriginalBytes)
	sum := sha256.Sum256([]byte(strings.Repeat("x", size)))
	assert.Equal(t, base64.RawURLEncoding.EncodeToString(sum[:]), e.Truncation.SHA256)
	assert.Equal(t, "again", output(t, g.turn(t.Context(), "say: again")))
}
