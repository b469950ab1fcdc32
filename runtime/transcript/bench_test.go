package transcript

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the agent's reader waits for, a message.
func BenchmarkAppend(b *testing.B) {
	s, err := Open(config(b.TempDir()))
	require.NoError(b, err)
	book, err := s.Begin(header("r", 1))
	require.NoError(b, err)
	f := frame(1, 300)
	b.ReportAllocs()
	for b.Loop() {
		book.Append(FromAgent, f)
	}
	require.NoError(b, s.Close())
}

// What a late viewer waits for, an entry of 1,000.
func BenchmarkRead(b *testing.B) {
	s, err := Open(config(b.TempDir()))
	require.NoError(b, err)
	book, err := s.Begin(header("r", 1))
	require.NoError(b, err)
	for i := range 1000 {
		book.Append(FromAgent, frame(i, 300))
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if n++; n%1000 == 0 {
			require.NoError(b, book.Read(1, 1000, func(Entry) error { return nil }))
		}
	}
	require.NoError(b, s.Close())
}
