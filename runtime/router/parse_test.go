package router

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every byte but the id and the prefix of the session stays as it was written.
func TestPartsAreReplacedAndNothingElse(t *testing.T) {
	const raw = "{ \"x\" : 1.0,\"params\":{\"a\":[1.0, 2],\"sessionId\" : \"s\\u0031\",\"sessionID\":7} ,\"id\":1e3,\"method\":\"m\" }"
	f, bad := Parse([]byte(raw), Lenient)
	require.Nil(t, bad)
	assert.Equal(t, "s1", f.Session)
	assert.Equal(t, strings.Replace(raw, "1e3", `"q"`, 1), string(f.WithID([]byte(`"q"`))))
	p := f.prefixed("3.", Lenient)
	assert.Equal(t, strings.Replace(raw, `"s\u0031"`, `"3.s\u0031"`, 1), string(p.Raw))
	assert.Equal(t, "3.s1", p.Session)
	assert.Equal(t, raw, string(p.stripped("3.")))
	assert.Equal(t, string(p.Raw), string(p.stripped("4.")), "another agent's id is not touched")
	escaped, bad := Parse([]byte(`{"id":1,"method":"m","params":{"sessionId":"\u0033.s1"}}`), Lenient)
	require.Nil(t, bad)
	assert.Equal(t, `{"id":1,"method":"m","params":{"sessionId":"s1"}}`, string(escaped.stripped("3.")))
}

// FuzzParse: what is taken for a message is one to everybody else, and parts can be replaced without changing the rest.
func FuzzParse(f *testing.F) {
	for _, s := range []string{update("s1", "x"), `{"id":1,"result":{"sessionId":"a"}}`, `{"id":"\u00e9","error":{"code":1}}`, `{"id":null,"method":"m"}`, `[]`, `{"id":1,"method":"a","params":{"sessionId":"0.x"}} `, "{\"id\":1,\"method\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		frame, bad := Parse(raw, Lenient)
		assert.Equal(t, before, raw)
		if bad != nil {
			return
		}
		require.True(t, json.Valid(raw), "%q", raw)
		if frame.ID() != nil {
			g, bad := Parse(frame.WithID([]byte("77")), Lenient)
			require.Nil(t, bad)
			assert.Equal(t, "77", string(g.ID()))
			assert.Equal(t, string(raw), string(g.WithID(frame.ID())))
		}
		p := frame.prefixed("9.", Lenient)
		assert.Equal(t, string(raw), string(p.stripped("9.")))
		if frame.session.to != 0 {
			assert.Equal(t, "9."+frame.Session, p.Session)
		}
		line := oneLine(frame.replace(part{len(raw), len(raw)}, nil))
		assert.NotContains(t, string(line), "\n")
		_, bad = Parse(line, Lenient)
		assert.Nil(t, bad)
	})
}

// ears is a watcher that writes down what it hears.
type ears struct {
	mu    sync.Mutex
	heard []string
	takes bool
	ticks bool // Heard is written down, too
}

func (e *ears) Said(m Said) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	direction := "<"
	if m.ToAgent {
		direction = ">"
	}
	if m.Unsaid {
		direction = "!"
	}
	e.heard = append(e.heard, direction+m.Request+" "+m.Session)
	return false
}

func (e *ears) Heard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ticks {
		e.heard = append(e.heard, ".")
	}
}

func (e *ears) Asked(r *Request) bool {
	if e.takes {
		_ = r.Answer("taken")
	}
	return e.takes
}

// All that is said is heard in order: a request before its answer, and an answer for what never gets one.
func TestAWatcherHearsAllInOrder(t *testing.T) {
	toR, toW := io.Pipe()
	fromR, fromW := io.Pipe()
	e := &ears{takes: true}
	conn := Open(Config{In: fromR, Out: toW, Cause: func() error { return errGone }, Now: time.Now, Watcher: e, Prefix: "2."})
	p := &peer{t: t, conn: conn, out: fromW}
	p.in = bufio.NewReader(toR)
	opened := make(chan *Session, 1)
	go func() {
		s, err := conn.NewSession(t.Context(), "/w")
		assert.NoError(t, err)
		opened <- s
	}()
	p.write(answer(p.read(), `{"sessionId":"s1"}`))
	s := <-opened
	assert.Equal(t, "2.s1", s.ID)
	s.Attach(newNotes())
	call, err := s.Prompt("x")
	require.NoError(t, err)
	line := p.read()
	assert.Contains(t, line, `"sessionId":"s1"`)
	p.write(update("s1", "a"), `{"id":9,"method":"_ask","params":{"sessionId":"s1"}}`)
	assert.Equal(t, `{"jsonrpc":"2.0","id":9,"result":"taken"}`, p.read())
	p.write(answer(line, `{}`))
	<-call.Done()
	require.NoError(t, s.Cancel())
	assert.Contains(t, p.read(), `"params":{"sessionId":"s1"}`)
	f, bad := Parse([]byte(`{"id":"mine","method":"session/prompt","params":{"sessionId":"2.s1"}}`), Strict)
	require.Nil(t, bad)
	failed := make(chan error, 1)
	_, err = conn.Forward(&f, nil, func(_ *Frame, err error) { failed <- err })
	require.NoError(t, err)
	p.read()
	require.NoError(t, fromW.Close())
	require.ErrorIs(t, <-failed, errGone)
	<-conn.Done()
	_ = toR.Close()
	assert.Equal(t, []string{
		">session/new ", "<session/new 2.s1", ">session/prompt 2.s1", "<session/update 2.s1", "<_ask 2.s1", ">_ask 2.s1", "<session/prompt 2.s1",
		">session/cancel 2.s1", ">session/prompt 2.s1", "!session/prompt 2.s1",
	}, e.heard)
}
