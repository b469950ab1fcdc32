package journal

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func benchJournal(b *testing.B) *Journal {
	b.Helper()
	j, err := Open(Config{Dir: b.TempDir(), Now: time.Now}) // on the disk: what it costs to be sure
	require.NoError(b, err)
	b.Cleanup(func() { _ = j.Close() })
	return j
}

// BenchmarkAccept is what a 202 waits for: one after the other, and many at once, who share their syncs.
func BenchmarkAccept(b *testing.B) {
	for _, at := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("atonce=%d", at), func(b *testing.B) {
			j := benchJournal(b)
			var next, failed atomic.Int64
			begun := j.counts.Writes
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for range at {
				all.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := j.Accept(request("r"+strconv.FormatInt(n, 10), 1)); err != nil {
							failed.Add(1)
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			require.Zero(b, failed.Load())
			b.ReportMetric(float64(j.counts.Writes-begun)/float64(b.N), "commits/op")
		})
	}
}

// BenchmarkRun is all that a run costs the journal: accept, start, finish, recorded.
func BenchmarkRun(b *testing.B) {
	j := benchJournal(b)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		k := key("r"+strconv.Itoa(n), 1)
		_, err := j.Accept(request(k.RunUID, 1))
		require.NoError(b, err)
		_, err = j.Start(k, "s")
		require.NoError(b, err)
		_, err = j.Finish(k, done("x"))
		require.NoError(b, err)
		require.NoError(b, j.Recorded(k))
	}
}
