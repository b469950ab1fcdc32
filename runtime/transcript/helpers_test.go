package transcript

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const secret = "s3cret/key=abcdefgh"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func config(dir string) Config {
	return Config{Dir: dir, Secrets: []string{secret}, Now: func() time.Time { return noon }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func header(run string, attempt int64) Header {
	return Header{Run: wire.RunRef{Namespace: "ns", Name: run, UID: run + "-uid"}, Attempt: attempt, Session: "s1", Agent: "goose"}
}

func begin(t *testing.T, s *Store) *Book {
	t.Helper()
	b, err := s.Begin(header("r", 1))
	require.NoError(t, err)
	return b
}

func frame(n int, size int) []byte {
	return fmt.Appendf(nil, `{"n":%d,"x":"%s"}`, n, strings.Repeat("x", size))
}

func read(t assert.TestingT, b *Book, from, to uint64) []Entry {
	var out []Entry
	assert.NoError(t, b.Read(from, to, func(e Entry) error { out = append(out, e); return nil }))
	return out
}

// told is entries as a person would tell them: number and frame.
func told(entries []Entry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%d %s", e.Seq, e.Frame))
	}
	return out
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}
