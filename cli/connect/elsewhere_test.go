package connect

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pods is an endpoint that is in another Pod at each dial.
type pods struct {
	endpoint
	dialled func() int
}

func (p pods) Place() string { return strconv.Itoa(p.dialled()) }

func elsewhere(t *testing.T) (*played, *editor) {
	t.Helper()
	f, count := newPlayed(t), 0
	key := func() (string, error) {
		count++
		return "the-key", nil
	}
	return f, start(t, pods{endpoint{url: f.url, key: key}, func() int { return count }}, time.Minute)
}

// R51: agents number their sessions anew in each Pod. A session of the same id in another one is not taken for the one that was open,
// unless it tells all that was seen.
func TestInAnotherPodASessionOfTheSameIDIsAnother(t *testing.T) {
	t.Parallel()
	for name, replayed := range map[string][]string{
		"nothing":        nil,
		"less":           {chunk("one")},
		"something else": {chunk("secret of others")},
		"an own prompt":  {chunk("one"), echoed("go")},
	} {
		f, e := elsewhere(t)
		l := f.opened(e)
		e.write(prompt(2, "go"))
		l.read()
		l.write(chunk("one"), chunk("two"), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		for range 3 {
			e.read()
		}
		l.drop(websocket.StatusGoingAway)
		l = f.again()
		id := l.loading()
		const passed = `{"jsonrpc":"2.0","method":"of no session"}`
		l.write(append(replayed, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, chunk("not for you"), passed)...)
		assert.Equal(t, passed, e.read(), name) // what came before it was not for the client
		e.write(prompt(3, "go on"))
		assert.Equal(t, `{"jsonrpc":"2.0","id":3,"error":{"code":-32053,"message":"`+textGone+`"}}`, e.read(), name)
		assert.Contains(t, e.told(), "session s1 is gone with the Pod that had it: begin a new one, or load one that is there")

		load := `{"jsonrpc":"2.0","id":4,"method":"session/load","params":{"sessionId":"s1"}}`
		e.write(load) // who asks for it by its name gets it
		assert.Equal(t, load, l.read())
		l.write(chunk("hers"), `{"jsonrpc":"2.0","id":4,"result":{}}`)
		assert.Equal(t, chunk("hers"), e.read(), name)
		e.read()
		e.write(prompt(5, "hello"))
		assert.Equal(t, prompt(5, "hello"), l.read())
		require.NoError(t, e.stdin.Close())
		require.NoError(t, e.end())
	}
}

// A volume that outlives the Pod may have kept the session.
func TestASessionThatMovedWithItsHistoryGoesOn(t *testing.T) {
	t.Parallel()
	f, e := elsewhere(t)
	l := f.opened(e)
	l.write(chunk("one"))
	e.read()
	l.drop(websocket.StatusGoingAway)
	l = f.again()
	id := l.loading()
	l.write(chunk("one"), chunk("two"), `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
	assert.Equal(t, chunk("two"), e.read())
	e.write(prompt(2, "go on"))
	assert.Equal(t, prompt(2, "go on"), l.read())
	assert.Contains(t, e.told(), "session s1 goes on without a gap")
	require.NoError(t, e.stdin.Close())
	require.NoError(t, e.end())
}

// R51: what oneself says again in the same words, and what somebody else said before, is where it was in the replay.
func TestTheSameWordsBeforeAreNotTakenForOnesOwn(t *testing.T) {
	said := func(text string) jsontext.Value {
		return fmt.Appendf(nil, `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":%q}}`, text)
	}
	h := newHistory()
	for _, u := range []string{"go", "a"} {
		assert.True(t, h.update(said(u)))
	}
	h.prompted(jsontext.Value(`[{"type":"text","text":"go"}]`))
	assert.True(t, h.update(said("b")))
	h.replay()
	var shown []string
	for _, u := range []string{"go", "a", "go", "b", "new"} {
		if h.update(said(u)) {
			shown = append(shown, u)
		}
	}
	assert.Equal(t, []string{"new"}, shown)
	assert.True(t, h.over())
}

// R51: an agent's own notifications come once, too; agents that do not replay them lose nothing.
func TestNotificationsThatAreNoUpdatesComeOnce(t *testing.T) {
	t.Parallel()
	own := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"_x/usage","params":{"sessionId":"s1","used":%d}}`, n)
	}
	f := newPlayed(t)
	e := f.bridge(time.Minute)
	l := f.opened(e)
	l.write(own(1), chunk("one"), own(2), own(2))
	for range 4 {
		e.read()
	}
	l.drop(websocket.StatusGoingAway)
	l = f.again()
	id := l.loading()
	l.write(own(1), chunk("one"), own(2), own(2), own(2), own(3), `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, own(1))
	for _, want := range []string{own(2), own(3), own(1)} {
		assert.Equal(t, want, e.read())
	}
	assert.Contains(t, e.told(), "goes on without a gap")
	require.NoError(t, e.stdin.Close())
	require.NoError(t, e.end())
}
