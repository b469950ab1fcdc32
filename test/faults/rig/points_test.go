package rig

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/internal/crashpoint"
)

// asking is a process that comes to a point; the channel gets what it is told.
func asking(t *testing.T, path string, p crashpoint.Point) <-chan string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte(p + "\n"))
	require.NoError(t, err)
	told := make(chan string, 1)
	go func() {
		word, _ := bufio.NewReader(conn).ReadString('\n') // a connection that is closed tells nothing
		told <- word
	}()
	return told
}

// A point that is held stops the first process that comes, once; all others pass, and all are counted.
func TestAPointIsHeldOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var h holds
	path, err := asks(ctx, t.TempDir(), func(*Hit) {}, &h)
	require.NoError(t, err)
	assert.Equal(t, "go\n", <-asking(t, path, crashpoint.AfterReserve), "nobody holds it")

	hold := h.hold(t, crashpoint.AfterReserve)
	assert.Equal(t, "go\n", <-asking(t, path, crashpoint.BeforeReserve), "another point")
	stopped := asking(t, path, crashpoint.AfterReserve)
	hit := hold.Wait()
	assert.Equal(t, crashpoint.AfterReserve, hit.Point)
	assert.Equal(t, "go\n", <-asking(t, path, crashpoint.AfterReserve), "the next one passes")
	assert.Empty(t, stopped)
	hit.Go()
	assert.Equal(t, "go\n", <-stopped)
	assert.Equal(t, 3, h.count(crashpoint.AfterReserve))
}

// An agent's end is its own, or that of its container, and never one of before it began.
func TestTheEndOfAnAgentIsFound(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	p := &Pod{ends: []agentEnd{{inner: 7, at: at(1)}, {inner: 8, at: at(5)}, {at: at(9)}}}
	assert.Equal(t, at(1), p.endOf(7, at(0)))
	assert.Equal(t, at(5), p.endOf(8, at(2)))
	assert.Equal(t, at(9), p.endOf(7, at(2)), "the number was used again")
	assert.True(t, p.endOf(8, at(10)).IsZero(), "it lives")
}

// A line that is still being written is no effect yet; what is no line is an error and not silence.
func TestEffectsAreWholeLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "effects")
	none, err := lines(name)
	require.NoError(t, err)
	assert.Empty(t, none)
	require.NoError(t, os.WriteFile(name, []byte(`{"session":"s","prompt":1,"goal":"g"}`+"\n"+`{"sess`), 0o600))
	got, err := lines(name)
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, "s/1", got[0].key())
	require.NoError(t, os.WriteFile(name, []byte("nothing\n"), 0o600))
	_, err = lines(name)
	require.Error(t, err)
}

// A session that remembers has many runs: each effect is that of its own.
func TestAnEffectIsOfTheRunOfItsGoal(t *testing.T) {
	var first, second header
	first.Run.UID, first.Attempt = "a", 1
	second.Run.UID, second.Attempt = "b", 2
	all := []header{first, second}
	got, ok := headerOf(all, "a")
	assert.True(t, ok)
	assert.Equal(t, int64(1), got.Attempt)
	got, ok = headerOf(all, "")
	assert.True(t, ok)
	assert.Equal(t, int64(2), got.Attempt, "who is not told takes the newest")
	_, ok = headerOf(all, "c")
	assert.False(t, ok)
}
