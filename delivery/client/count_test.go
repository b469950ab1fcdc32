package client

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// counted is what reached a harness: how many of each call, and the waits that looks at the feed asked for.
type counted struct {
	mu    sync.Mutex
	calls map[string]int
	waits map[string]int
}

func (c *counted) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Method + " " + strings.TrimPrefix(r.URL.Path, wire.RunsPath)
		c.mu.Lock()
		c.calls[strings.ReplaceAll(call, "uid-a", "UID")]++
		if r.Method == http.MethodGet && r.URL.Path == wire.RunsPath {
			c.waits[r.Header.Get("Prefer")]++
		}
		c.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (c *counted) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.calls
	c.calls = map[string]int{}
	return out
}

// P7: what a harness is asked for one run is counted: it is sent, its result is fetched, it is marked as recorded, and the feed is asked
// once for each change. Without runs it is asked for the feed alone, which it holds as long as it may: a request in
// wire.FeedWaitSeconds.
func TestTheRequestsOfARunAndOfAnIdleMinuteAreCounted(t *testing.T) {
	c := &counted{calls: map[string]int{}, waits: map[string]int{}}
	h := harness.Start(t, harness.Options{Wrap: c.wrap})
	l := verifiedLink(t, testConfig(t, h.Address))
	held := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.waits["wait="+strconv.Itoa(wire.FeedWaitSeconds)]
	}
	eventually(t, "the feed is held", func() bool { return held() == 1 })
	opened := c.take()
	assert.Equal(t, 1, opened["POST "+wire.ChallengePath], "%v", opened)
	whole(t, h, l, "first")
	assert.Equal(t, 1, c.take()["POST "+wire.ChallengePath], "the connection for calls is another one than the feed's; both stay open")
	before := held()

	whole(t, h, l, "a")
	run := c.take()
	feed := run["GET "]
	delete(run, "GET ")
	assert.Equal(t, map[string]int{"POST ": 1, "GET /UID": 1, "POST /UID" + wire.RecordedSuffix: 1}, run)
	assert.LessOrEqual(t, feed, 3, "accepted, running, finished: changes that come together are one")
	assert.Positive(t, feed)
	assert.LessOrEqual(t, held()-before, feed)
	eventually(t, "the feed is held again", func() bool { return held() > before })
	assert.Len(t, c.waits, 2, "it is asked at once only when a Link opens: %v", c.waits)
}

// whole is the life of a run as a controller brings it about.
func whole(t *testing.T, h *harness.Harness, l *Link, name string) {
	t.Helper()
	require.NoError(t, l.Send(request(l, name, 1, harness.HoldPrefix+"it"), 0))
	idle(t, l, name, 1)
	eventually(t, "running", func() bool { _, s := seen(l, name, 1); return s == wire.StateRunning })
	h.Runner.Release("uid-" + name)
	eventually(t, "finished", func() bool { _, s := seen(l, name, 1); return s == wire.StateFinished })
	require.NoError(t, l.Look(runRef(name), 1))
	idle(t, l, name, 1)
	require.NoError(t, l.Recorded(runRef(name), 1))
	eventually(t, "forgotten", func() bool { return len(l.List()) == 0 })
}
