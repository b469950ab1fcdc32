package connect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/cli/forward"
)

// R50: what a client says arrives as it was, and what comes back, too: ids of every kind, unknown methods and fields, odd spaces.
func TestMessagesPassByteTrue(t *testing.T) {
	f := newPlayed(t)
	e := f.bridge(0)
	l := f.next()
	for _, line := range []string{
		initialize,
		`{ "id" : "a\u0062" , "x" : 1.50, "method":"_their/own","params":[{"k":"\ud83d\ude00 ü"}] ,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s9"}}`,
		`{"jsonrpc":"2.0","id":null,"method":"x"}`,
	} {
		e.write(line)
		assert.Equal(t, line, l.read())
	}
	for _, message := range []string{
		initialized,
		`{"id":7e0 ,"method":"session/request_permission","params":{ "sessionId":"s1"},"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"_goose/unstable/session/update","params":{"sessionId":"s1","a":1e400}}`,
		`{"jsonrpc":"2.0","id":"unknown","error":{"code":-1,"message":"x","data":[null]}}`,
	} {
		l.write(message)
		assert.Equal(t, message, e.read())
	}
	e.write(`{"jsonrpc":"2.0","id":7e0 ,"result":{"outcome":{"outcome":"cancelled"}}}`)
	assert.Equal(t, `{"jsonrpc":"2.0","id":7e0 ,"result":{"outcome":{"outcome":"cancelled"}}}`, l.read())

	l.write("{\"jsonrpc\":\"2.0\",\r\n \"method\":\"pretty\"}")
	assert.Equal(t, `{"jsonrpc":"2.0","method":"pretty"}`, e.read(), "stdout is one message a line")
}

// What is no message is answered and not sent on; the next one is.
func TestWhatIsNoMessageIsAnswered(t *testing.T) {
	f := newPlayed(t)
	e := f.bridge(0)
	l := f.next()
	for line, code := range map[string]string{`{"jsonrpc":`: "-32700", `[]`: "-32600", `"x"`: "-32700", `{"id":1} {}`: "-32700", `{"method":1}`: "-32700"} {
		e.write(line)
		got := e.read()
		assert.Contains(t, got, `"id":null,"error":{"code":`+code, line)
	}
	e.write("", "  ", initialize)
	assert.Equal(t, initialize, l.read())
}

// R51: the connection is lost in the middle of a turn. It comes back with the client's initialize, the session is loaded, the
// client sees each update once and those it had missed, and is told of its request and of the question that was open.
func TestALostConnectionComesBackWithoutGapAndWithoutDouble(t *testing.T) {
	t.Parallel()
	for _, code := range []websocket.StatusCode{websocket.StatusTryAgainLater, -1} {
		f := newPlayed(t)
		e := f.bridge(time.Minute)
		l := f.opened(e)
		l.write(chunk("mode"))
		e.read()
		e.write(prompt(2, "go"))
		l.read()
		l.write(chunk("one"), chunk("two"), `{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s1"}}`)
		assert.Equal(t, chunk("one"), e.read())
		assert.Equal(t, chunk("two"), e.read())
		e.read()
		if code < 0 {
			_ = l.conn.CloseNow() // a network that went away
		} else {
			l.drop(code)
		}

		assert.Contains(t, e.read(), `"id":2,"error":{"code":-32053,"message":"the connection to the agent's endpoint was lost`)
		assert.Equal(t, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}`, e.read())
		l = f.again()
		e.write(`{"jsonrpc":"2.0","id":5,"result":"too late"}`, prompt(3, "more"))
		id := l.loading()
		l.write(chunk("mode"), echoed("go"), chunk("one"), chunk("two"), chunk("missed"), echoed("somebody else"))
		l.write(`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, chunk("live"))
		for _, want := range []string{chunk("missed"), echoed("somebody else"), chunk("live")} {
			assert.Equal(t, want, e.read())
		}
		assert.Equal(t, prompt(3, "more"), l.read(), "what was said meanwhile arrives; the late answer does not")

		l.write(`{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s1"}}`)
		assert.Equal(t, `{"jsonrpc":"2.0","id":"hearth-1-5","method":"session/request_permission","params":{"sessionId":"s1"}}`, e.read())
		l.write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}`)
		assert.Contains(t, e.read(), `"requestId":"hearth-1-5"`)
		e.write(`{"jsonrpc":"2.0","id":"hearth-1-5","result":{}}`)
		assert.Equal(t, `{"jsonrpc":"2.0","id":5,"result":{}}`, l.read())
		assert.Contains(t, e.told(), "session s1 goes on without a gap")

		l.drop(code) // and once more: what was seen in between counts
		assert.Contains(t, e.read(), `"id":3,"error"`)
		l = f.again()
		id = l.loading()
		l.write(chunk("mode"), echoed("go"), chunk("one"), chunk("two"), chunk("missed"), echoed("somebody else"), chunk("live"), echoed("more"), chunk("answer"))
		l.write(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		assert.Equal(t, chunk("answer"), e.read())
		require.NoError(t, e.stdin.Close())
		require.NoError(t, e.end())
	}
}

// A session that the agent does not find is forgotten, and the others are not; before initialize is answered it is said again.
func TestWhatCannotBeOpenedAgainIsSaid(t *testing.T) {
	t.Parallel()
	f := newPlayed(t)
	e := f.bridge(time.Minute)
	l := f.next()
	e.write(initialize)
	l.read()
	l.drop(websocket.StatusServiceRestart)
	l = f.next()
	assert.JSONEq(t, initialize, l.read())
	l.write(initialized)
	assert.Equal(t, initialized, e.read())
	for _, id := range []string{"s1", "s2", "s3"} {
		e.write(`{"jsonrpc":"2.0","id":"` + id + `","method":"session/resume","params":{"sessionId":"` + id + `"}}`)
		l.read()
		l.write(`{"jsonrpc":"2.0","id":"` + id + `","result":{}}`)
		e.read()
	}
	e.write(`{"jsonrpc":"2.0","id":9,"method":"session/close","params":{"sessionId":"s3"}}`)
	l.read()
	l.write(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	e.read()
	l.drop(websocket.StatusServiceRestart)
	l = f.again()
	for _, answer := range []string{`"error":{"code":-32002,"message":"no such session"}`, `"result":{}`} {
		asked, err := scan([]byte(l.read()))
		require.NoError(t, err)
		assert.Equal(t, "session/resume", asked.method)
		l.write(`{"jsonrpc":"2.0","id":` + string(asked.id) + `,` + answer + `}`)
	}
	e.write(`{"jsonrpc":"2.0","method":"after"}`)
	assert.Equal(t, `{"jsonrpc":"2.0","method":"after"}`, l.read(), "the closed session is not opened again")
	assert.Contains(t, e.told(), "session s1 could not be opened again")
	assert.Contains(t, e.told(), "session s2 goes on; what was said while the connection was down is not shown")
}

// A message of the greatest size goes through, either way; a longer line is answered and the next one works.
func TestALineOf64MiB(t *testing.T) {
	if raceDetector {
		t.Skip("takes half a minute with the race detector; make test runs it without")
	}
	f := newPlayed(t)
	e := f.bridge(0)
	l := f.next()
	head, tail := `{"jsonrpc":"2.0","method":"m","params":"`, `"}`
	big := head + strings.Repeat("x", MaxMessage-len(head)-len(tail)-1) + tail
	go e.write(big)
	assert.True(t, big == l.read(), "to the endpoint") //nolint:testifylint // 64 MiB are not printed
	go l.write(big)
	assert.True(t, big == e.read(), "to the client") //nolint:testifylint // 64 MiB are not printed
	go func() {
		e.write(strings.Repeat("x", MaxMessage+2), `{"jsonrpc":"2.0","method":"after"}`)
	}()
	assert.Contains(t, e.read(), `a line is longer than 67108864 bytes`)
	assert.Equal(t, `{"jsonrpc":"2.0","method":"after"}`, l.read())
}

// A client that does not read keeps nothing from being sent, and gets all once it reads.
func TestAClientThatStallsDoesNotStopItsOwnMessages(t *testing.T) {
	t.Parallel()
	f := newPlayed(t)
	e := f.bridge(0)
	l := f.next()
	const messages = 24
	pad := strings.Repeat("x", 1<<20)
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < messages && err == nil; i++ {
			err = l.conn.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","method":"flood","params":"`+pad+`"}`))
		}
		sent <- err
	}()
	for range 100 {
		e.write(`{"jsonrpc":"2.0","method":"small"}`)
		assert.Equal(t, `{"jsonrpc":"2.0","method":"small"}`, l.read())
	}
	for range messages {
		assert.Len(t, e.read(), len(`{"jsonrpc":"2.0","method":"flood","params":""}`)+len(pad))
	}
	require.NoError(t, <-sent)
}

// It ends with stdin, after the answers that are under way have come; it does not wait for one that does not come.
func TestItEndsWithStdin(t *testing.T) {
	t.Parallel()
	f := newPlayed(t)
	e := f.bridge(time.Minute)
	l := f.next()
	e.write(initialize)
	require.NoError(t, e.stdin.Close())
	l.read()
	l.write(initialized)
	assert.Equal(t, initialized, e.read())
	require.NoError(t, e.end())

	e = f.bridge(time.Minute)
	l = f.opened(e)
	e.write(prompt(2, "for ever"))
	l.read()
	require.NoError(t, e.stdin.Close())
	_, _, err := l.conn.Read(t.Context())
	assert.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err))
	require.NoError(t, e.end())

	e = f.bridge(time.Minute) // while there is no connection
	l = f.opened(e)
	l.drop(websocket.StatusServiceRestart)
	require.NoError(t, e.stdin.Close())
	select {
	case conn := <-f.conns: // it dialled before it saw the end
		_ = conn.CloseNow()
	case <-e.ended:
	}
	require.NoError(t, e.end())
}

// flaky refuses as it is told to.
type flaky struct{ errs chan error }

func (f flaky) Dial(ctx context.Context) (*websocket.Conn, error) {
	select {
	case err := <-f.errs:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// What trying again does not cure ends it at once, the rest after --retry-for; what waits for an answer then gets one.
func TestItGivesUp(t *testing.T) {
	f := newPlayed(t)
	t.Setenv(EnvKey, "wrong")
	target, err := atURL(f.url, "")
	require.NoError(t, err)
	assert.EqualError(t, start(t, target, time.Hour).end(), "the endpoint refused the key")

	errs := make(chan error, 3)
	errs <- errors.New("first")
	errs <- errors.New("second")
	errs <- forward.Finally(errors.New("last"))
	e := start(t, flaky{errs}, time.Hour)
	require.EqualError(t, e.end(), "last")
	assert.Equal(t, "first; trying again\nsecond; trying again", e.told())

	e = start(t, flaky{}, time.Millisecond)
	assert.ErrorContains(t, e.end(), "--retry-for is over")

	e = f.bridge(0)
	l := f.opened(e)
	e.write(prompt(2, "go"))
	l.read()
	l.drop(websocket.StatusTryAgainLater)
	assert.Contains(t, e.read(), `"id":2,"error":{"code":-32053`)
	assert.ErrorContains(t, e.end(), "so the test says", "without --retry-for it ends with the connection, and says why")
}

func TestWhereAndWithWhichKey(t *testing.T) {
	t.Setenv(EnvKey, "")
	for arg, want := range map[string]string{
		"ws://:4000":            "", // any host of this machine
		"ftp://host":            "expected a URL with ws, wss, http or https",
		"ws://host/acp?token=k": "a key on the command line can be read by everybody",
		"ws://k@host/acp":       "a key on the command line can be read by everybody",
		"ws://":                 "expected a URL such as",
		"pod/x":                 `expected agent/NAME, run/NAME or a URL such as ws://host:4000/acp, got "pod/x"`,
		"agent/":                "expected agent/NAME",
		"agent/a/b":             "expected agent/NAME",
	} {
		_, err := target(arg, "", chosen(t), false, nil)
		if want == "" {
			assert.NoError(t, err, arg)
			continue
		}
		assert.ErrorContains(t, err, want, arg)
		assert.NotContains(t, err.Error(), "token=k")
	}
	_, err := target("ws://host", "", chosen(t, "--namespace", "team"), false, nil)
	assert.ErrorContains(t, err, "a URL goes with --key-file")
	_, err = target("agent/x", "file", chosen(t), false, nil)
	assert.ErrorContains(t, err, "--key-file")
	_, err = readKey("")
	assert.EqualError(t, err, "no key: expected one in --key-file or HEARTH_ACP_KEY")
	_, err = readKey(t.TempDir() + "/none")
	assert.ErrorContains(t, err, "--key-file")
	t.Setenv(EnvKey, "two\nlines")
	_, err = readKey("")
	assert.ErrorContains(t, err, "one line of printable ASCII")
	assert.NotContains(t, err.Error(), "lines\n")
}
