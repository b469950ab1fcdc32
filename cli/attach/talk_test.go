package attach

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/cli/acp"
	"github.com/hearthdev/hearth/cli/attach/view"
	"github.com/hearthdev/hearth/cli/connect"
)

// spoken is a talk at the other end of which a test sits.
type spoken struct {
	*talk
	out  string
	sent []string
}

func newSpoken(keys bool) *spoken {
	s := &spoken{talk: newTalk(view.New(view.Config{RunUID: "u"}), place{run: "u"}, keys)}
	s.step(step{send: [][]byte{s.hello()}})
	return s
}

func (s *spoken) step(x step) step {
	s.out += string(x.show)
	for _, m := range x.send {
		s.sent = append(s.sent, string(m))
	}
	return x
}

func (s *spoken) hear(format string, args ...any) step {
	return s.step(s.message(fmt.Appendf(nil, format, args...)))
}

func (s *spoken) last() (id, method string) {
	m := []byte(s.sent[len(s.sent)-1])
	method, _ = acp.Text(acp.Member(m, "method"))
	return string(acp.Member(m, "id")), method
}

func (s *spoken) chunk(text string) {
	s.hear(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, text)
}

const listing = `{"id":%s,"result":{"sessions":[{"sessionId":"x","_meta":{"hearth":{"run":{"uid":"other"}}}},{"sessionId":"s","_meta":{"hearth":{"run":{"uid":"u"}}}}]}}`

// opened has loaded the session.
func (s *spoken) opened(t *testing.T, steering string) {
	t.Helper()
	s.hear(`{"id":1,"result":{"_meta":{"hearth":{"steering":%q}}}}`, steering)
	id, method := s.last()
	require.Equal(t, methodList, method)
	s.hear(listing, id)
	id, method = s.last()
	require.Equal(t, methodLoad, method)
	s.hear(`{"id":%s,"result":{}}`, id)
	require.True(t, s.loaded)
}

// R51: a connection that is lost while the history comes shows the rest of it when it comes again, and nothing twice.
func TestALossWithinTheHistoryShowsNothingTwice(t *testing.T) {
	s := newSpoken(false)
	s.hear(`{"id":1,"result":{"_meta":{"hearth":{}}}}`)
	id, _ := s.last()
	s.hear(listing, id)
	id, _ = s.last()
	s.chunk("one ")
	s.chunk("two ")
	assert.True(t, s.hear(`{"id":%s,"error":{"code":%d,"message":"lost"}}`, id, connect.CodeLost).look)
	s.step(step{send: [][]byte{s.look()}})
	id, _ = s.last()
	s.hear(listing, id)
	id, _ = s.last()
	for _, text := range []string{"one ", "two ", "three "} {
		s.chunk(text)
	}
	s.hear(`{"id":%s,"result":{}}`, id)
	s.chunk("four")
	assert.Equal(t, "one two three four", s.out)
}

// A session that is not there yet is looked for again; an endpoint that refuses is an end.
func TestTheSessionIsLookedForUntilItIsThere(t *testing.T) {
	s := newSpoken(false)
	s.hear(`{"id":1,"result":{}}`)
	assert.Contains(t, s.out, "no harness's")
	id, _ := s.last()
	assert.True(t, s.hear(`{"id":%s,"result":{"sessions":[]}}`, id).look)
	s = newSpoken(false)
	assert.Error(t, s.hear(`{"id":1,"error":{"code":-1,"message":"no"}}`).err)
	assert.Contains(t, s.out, "[refused] initialize: no (-1)")
	assert.Zero(t, s.hear(`nonsense`))
	assert.Zero(t, s.hear(`{"id":77,"result":{}}`))
}

// R53: into what goose has under way a word goes by goose's own method, with the run that it means; else it is a prompt. What is typed
// before the session is open waits for it.
func TestAWordGoesWhereItCan(t *testing.T) {
	s := newSpoken(false)
	assert.Zero(t, s.typed("early"))
	s.opened(t, "Steer")
	assert.Contains(t, s.sent[len(s.sent)-1], `"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"early"}]}`)
	s.hear(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"session_info_update","_meta":{"goose":{"activeRunId":"r7"}}}}}`)
	s.step(s.typed(`a "word"`))
	assert.Contains(t, s.sent[len(s.sent)-1], `"method":"_goose/unstable/session/steer","params":{"sessionId":"s","prompt":[{"type":"text","text":"a \"word\""}],"expectedRunId":"r7"}`)
	for range maxHeld + 1 {
		s.loaded = false
		s.step(s.typed("x"))
	}
	assert.Contains(t, s.out, "enough waits for it")
}

// R52: questions are put one after the other, a key answers the one that it was pressed at, and one that was answered elsewhere is gone.
func TestQuestionsArePutOneByOne(t *testing.T) {
	s := newSpoken(true)
	s.opened(t, "WatchOnly")
	ask := func(id string) {
		s.hear(`{"id":%s,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"title":"tool %s"},"options":[{"optionId":"a%s","name":"A","kind":"allow_once"},{"optionId":"r","name":"R","kind":"reject_once"}]}}`, id, strings.Trim(id, `"`), strings.Trim(id, `"`))
	}
	ask("1")
	ask(`"two"`)
	ask("3")
	assert.NotContains(t, s.out, "tool two")
	first := s.now()
	assert.Equal(t, Asked{1, 2}, first)
	s.hear(`{"method":"$/cancel_request","params":{"requestId":1}}`)
	assert.Contains(t, s.out, "tool two")
	assert.Zero(t, s.pressed(1, first), "it was pressed at another one")
	assert.Zero(t, s.pressed(3, s.now()))
	s.hear(`{"method":"$/cancel_request","params":{"requestId":3}}`)
	s.step(s.pressed(1, s.now()))
	assert.Equal(t, `{"jsonrpc":"2.0","id":"two","result":{"outcome":{"outcome":"selected","optionId":"atwo"}}}`, s.sent[len(s.sent)-1])
	assert.Equal(t, Asked{}, s.now())
	assert.NotContains(t, s.out, "tool 3")
	s.hear(`{"id":9,"method":"fs/read_text_file","params":{"sessionId":"s"}}`)
	assert.Contains(t, s.sent[len(s.sent)-1], `"id":9,"error":{"code":-32601`)
}
