package attach

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/transcript"
	"github.com/hearthdev/hearth/runtime/turn"
)

// hears lets the agent say something that the reader has not come to the end of.
func (st *stand) hears(t *testing.T, text string) {
	t.Helper()
	f, bad := router.Parse([]byte(says("r1", text)), router.Lenient)
	require.Nil(t, bad)
	st.Said(router.Said{Frame: f, Session: f.Session, Request: f.Method})
}

// woken tells whether a client that waits was woken.
func (g *guest) woken() bool {
	select {
	case <-g.out.wake:
		return true
	default:
		return false
	}
}

// Who is attached is woken once for what an agent says in one go, by whatever comes meanwhile, and by the session's end.
func TestWhoIsAttachedIsWokenOnceForWhatComesInOneGo(t *testing.T) {
	h := newHouse(t)
	h.rise(0, "", false)
	st, is := h.hub.Watch(1).(*stand) // one that nobody reads but the test
	require.True(t, is)
	h.hub.Begin(1, "r1", turn.Run{Namespace: "ns", Name: "r", UID: "u1", Attempt: 1}, func(error) {})
	g := h.connect(View)
	g.load("r1")
	g.woken()
	assert.False(t, g.More())
	st.hears(t, "1")
	st.hears(t, "2")
	assert.False(t, g.woken())
	assert.False(t, g.More())
	assert.Len(t, st.spoke, 1)
	st.Heard()
	assert.True(t, g.woken())
	assert.True(t, g.More())
	for _, more := range []bool{true, false} {
		g.next()
		assert.Equal(t, more, g.More())
	}
	st.Heard()
	assert.False(t, g.woken(), "there is no news")

	st.hears(t, "3")
	h.hub.session("r1").note("something")
	assert.True(t, g.woken(), "a note is shown at once, and what was said before it")
	assert.Equal(t, says("r1", "3"), g.next())
	g.next()
	st.Heard()
	assert.False(t, g.woken(), "there is no news")

	st.hears(t, "4")
	h.hub.remove(h.hub.session("r1"))
	assert.True(t, g.woken())
	assert.Equal(t, says("r1", "4"), g.next())
	st.Heard()
	assert.Empty(t, st.spoke)
}

// A message that is longer than all that may wait is shown by itself, so that who reads is not closed for what comes with it.
func TestALongMessageLeavesRoomForTheNext(t *testing.T) {
	h := newHouse(t)
	h.rise(0, "", false)
	st, is := h.hub.Watch(1).(*stand)
	require.True(t, is)
	h.hub.Begin(1, "r1", turn.Run{Namespace: "ns", Name: "r", UID: "u1", Attempt: 1}, func(error) {})
	g := h.connect(View)
	g.load("r1")
	long := strings.Repeat("x", maxOutbox+1)
	st.hears(t, long)
	require.True(t, g.More())
	assert.Len(t, g.next(), len(says("r1", long)))
	st.hears(t, "small")
	st.Heard()
	assert.Equal(t, says("r1", "small"), g.next())
}

// A replay that is still to be read is no message: there may be none in it, and what was written before would wait for it.
func TestAReplayIsNothingThatNextHasAtOnce(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	d := a.begin("r1", "u1")
	g := h.connect(View)
	g.out.push(Message{Data: []byte("1")})
	g.out.replay(h.hub.session("r1").books, "r1")
	assert.True(t, g.More())
	assert.Equal(t, "1", g.next())
	assert.False(t, g.More())
	assert.Contains(t, g.next(), "running")
	assert.True(t, g.More(), "more of it was read")
	d.end()
}

// written is what a store has on the disk.
func written(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		all.Write(content)
	}
	return all.String()
}

// SPEC.md, Transcripts: nobody is shown what is not written, whatever makes it be sent; so a harness that is killed has shown nothing that
// late viewers are not shown.
func TestNobodyIsShownWhatIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	h := newHouseIn(t, dir)
	h.rise(0, "", false)
	st, is := h.hub.Watch(1).(*stand)
	require.True(t, is)
	for _, s := range []string{"r1", "r2"} {
		h.hub.Begin(1, s, turn.Run{Namespace: "ns", Name: s, UID: s, Attempt: 1}, func(error) {})
	}
	for name, send := range map[string]func(*guest){
		"the agent paused":         func(*guest) { st.Heard() },
		"something else was said":  func(g *guest) { g.out.push(Message{Data: []byte("else")}) },
		"a transcript is replayed": func(g *guest) { g.out.replay(h.hub.session("r2").books, "r2") },
		"another session's note":   func(*guest) { h.hub.session("r2").note("x") },
		"its own session's note":   func(*guest) { h.hub.session("r1").note("x") },
	} {
		g := h.connect(View)
		g.load("r1")
		g.load("r2")
		st.hears(t, name)
		assert.NotContains(t, written(t, dir), name)
		assert.False(t, g.More(), name)
		g.silent()
		send(g)
		assert.True(t, g.More(), name)
		assert.Contains(t, written(t, dir), name)
		assert.Equal(t, says("r1", name), g.next())
		g.Close()
		st.hears(t, "when it has left")
	}
}

// A client that is on its way out holds nothing, and no transcript.
func TestAnOutboxThatIsClosedHoldsNothing(t *testing.T) {
	o := newOutbox()
	o.close(ErrSlow)
	o.hold(Message{Data: []byte("x")}, &transcript.Book{})
	assert.Empty(t, o.items)
	assert.Empty(t, o.unwritten)
	assert.Zero(t, o.hidden)
}
