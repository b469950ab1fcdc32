package attach

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/transcript"
)

// expected is what a transcript shows.
func expected(t testing.TB, h *house, session string) []string {
	t.Helper()
	s := h.hub.session(session)
	require.NotNil(t, s)
	var all []string
	for _, book := range s.books {
		require.NoError(t, book.Read(1, book.Last(), func(e transcript.Entry) error {
			for _, data := range view(session, e) {
				all = append(all, string(data))
			}
			return nil
		}))
	}
	return all
}

// R51: 100 clients attach at random moments of 1,000 updates, read at their own pace, and every one sees what the transcript has: no
// gap, no double. HEARTH_SEED repeats a run.
func TestWhoeverAttachesWheneverSeesTheSame(t *testing.T) {
	const updates, viewers = 1000, 100
	seed, err := strconv.ParseUint(os.Getenv("HEARTH_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("HEARTH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	h := newHouse(t)
	a := h.rise(0, "", false)
	d := a.begin("r1", "u1")
	joins := map[int]int{}
	for range viewers {
		joins[random.IntN(updates)]++
	}
	var reading sync.WaitGroup
	seen := make([][]string, viewers)
	n := 0
	for i := range updates {
		for range joins[i] {
			g, mine, lazy := h.connect(View), n, random.IntN(3)
			n++
			reading.Go(func() {
				g.send("session/load", `{"sessionId":"r1"}`)
				ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
				defer cancel()
				for {
					next, err := g.Next(ctx)
					if !assert.NoError(t, err) {
						return
					}
					m := string(next.Data)
					if strings.HasPrefix(m, `{"jsonrpc":"2.0","id":`) {
						continue // the answer
					}
					seen[mine] = append(seen[mine], m)
					if strings.Contains(m, `"state":"ended"`) {
						return
					}
					for range lazy {
						runtime.Gosched()
					}
				}
			})
		}
		a.write(says("r1", fmt.Sprintf("update %d %s", i, strings.Repeat("x", random.IntN(200)))))
	}
	d.end()
	reading.Wait()
	want := expected(t, h, "r1")
	require.Len(t, want, updates+3)
	for i, got := range seen {
		require.Len(t, got, len(want), "client %d", i)
		require.Equal(t, want, got, "client %d", i)
	}
}

// R51: a transcript that is read in several goes, by number and by size, is shown whole, and goes on where it ends.
func TestALongTranscriptIsShownWhole(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	d := a.begin("r1", "u1")
	for i := range 2*replayEntries + 1 {
		a.write(says("r1", strconv.Itoa(i)))
	}
	for _, size := range []int{replayBytes / 2, replayBytes, 1, 2 * replayBytes, 1, replayBytes / 2, replayBytes / 2} {
		a.write(says("r1", strings.Repeat("x", size)))
	}
	a.sync()
	g := h.connect(View)
	seen := g.load("r1")
	d.end()
	seen = append(seen, g.next())
	want := expected(t, h, "r1")
	require.Len(t, seen, len(want))
	for i := range want {
		require.Equal(t, want[i], seen[i], "message %d", i)
	}
}

// Fault row 41: who never reads is closed; the agent's reader and the others do not wait, and memory is bounded.
func TestAClientThatNeverReadsCostsNobodyAnything(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	d := a.begin("r1", "u1")
	good := h.connect(View)
	good.load("r1")
	var idle []*guest
	for range 20 {
		g := h.connect(View)
		g.load("r1")
		idle = append(idle, g)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	big := strings.Repeat("x", 20<<20)
	a.write(says("r1", "first"))
	assert.Equal(t, says("r1", "first"), good.next())
	a.write(says("r1", big))
	assert.Len(t, good.next(), len(says("r1", big)))
	a.write(says("r1", big))
	assert.Len(t, good.next(), len(says("r1", big)))
	a.write(says("r1", "last")) // beside what was not taken yet there would be no room for it
	assert.Equal(t, says("r1", "last"), good.next())
	big = ""
	d.end()
	assert.Contains(t, good.next(), `"state":"ended"`)
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(64<<20))
	for _, g := range idle {
		_, err := g.Next(t.Context())
		require.ErrorIs(t, err, ErrSlow)
	}
}

// A message of any size is taken when nothing waits; what waits is bounded beyond the one that is being written.
func TestAnOutboxIsBoundedInBytes(t *testing.T) {
	o := newOutbox()
	o.push(Message{Data: make([]byte, 3*maxOutbox)})
	m, err := o.next(t.Context())
	require.NoError(t, err)
	assert.Len(t, m.Data, 3*maxOutbox)
	n := maxOutbox / (1<<10 + itemBytes)
	for range n {
		o.push(Message{Data: make([]byte, 1<<10)})
	}
	assert.NoError(t, o.err)
	o.push(Message{Data: make([]byte, 1<<10)})
	_, err = o.next(t.Context())
	require.ErrorIs(t, err, ErrSlow)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = newOutbox().next(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestClientsAreCounted(t *testing.T) {
	h := newHouse(t)
	h.rise(0, "", false)
	all := make([]*Client, 0, MaxClients)
	for range MaxClients {
		c, err := h.hub.Connect(View)
		require.NoError(t, err)
		all = append(all, c)
	}
	_, err := h.hub.Connect(Steer)
	require.ErrorContains(t, err, "there is room when one of them leaves")
	for _, c := range all {
		c.Close()
	}
	c, err := h.hub.Connect(Steer)
	require.NoError(t, err)
	c.Close()
	_, err = c.Next(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	_, err = h.hub.Connect(None)
	require.Error(t, err)
	assert.Empty(t, h.hub.clients)
}

func TestAClientsWaitingRequestsAreBounded(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	g := h.connect(Steer)
	for range maxCalls {
		g.send("_x/wait", `{}`)
		a.read()
	}
	assert.Equal(t, CodeBusy, codeOf(g.ask("_x/wait", `{}`)))
}
