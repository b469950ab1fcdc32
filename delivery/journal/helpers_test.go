package journal

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// clock is a wall clock that moves only when told.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func request(run string, attempt int64) wire.DeliveryRequest {
	limit := int64(60)
	return wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: "review-" + run, UID: run}, Attempt: attempt,
		Goal: "Review " + run + ".", Session: wire.SessionFresh, Limits: &wire.Limits{ActiveSeconds: &limit},
	}
}

func key(run string, attempt int64) Key { return Key{RunUID: run, Attempt: attempt} }

func done(text string) wire.Envelope {
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted,
		Output: &wire.Output{MediaType: "text/plain", Value: text},
	}
}

func mustOpen(t *testing.T, dir string, edit ...func(*Config)) *Journal {
	t.Helper()
	cfg := Config{Dir: dir, Now: newClock().Now}
	for _, e := range edit {
		e(&cfg)
	}
	j, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	return j
}

// logged collects log lines.
func logged(t *testing.T) (*slog.Logger, *strings.Builder) {
	t.Helper()
	var b strings.Builder
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

func finish(t *testing.T, j *Journal, k Key, text string) {
	t.Helper()
	_, err := j.Accept(request(k.RunUID, k.Attempt))
	require.NoError(t, err)
	_, err = j.Start(k, "s")
	require.NoError(t, err)
	_, err = j.Finish(k, done(text))
	require.NoError(t, err)
}

// writeMarks has the marks that wait written, as the next write would.
func writeMarks(j *Journal) {
	j.write.Lock()
	defer j.write.Unlock()
	j.flush()
}

// dump is everything in a file as text, or an error that says that it is damaged.
func dump(path string) (string, error) {
	db, c, err := openChecked(path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(c.id + "\n")
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			return bucket.ForEach(func(k, v []byte) error {
				b.WriteString(string(name) + " " + strconv.Quote(string(k)) + " " + strconv.Quote(string(v)) + "\n")
				return nil
			})
		})
	})
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	return b.String(), err
}

// memoryDir is a directory in memory where there is one: a sync costs nothing there, and what these tests cut is processes and bytes.
func memoryDir(t require.TestingT) string {
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "hearth-journal-")
	require.NoError(t, err)
	return dir
}

func memoryTempDir(t *testing.T) string {
	t.Helper()
	dir := memoryDir(t)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func journalFile(dir string) string { return filepath.Join(dir, fileName) }

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

const (
	waitFor = 30 * time.Second
	tick    = time.Millisecond
)
