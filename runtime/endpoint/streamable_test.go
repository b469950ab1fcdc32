package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/hearthdev/hearth/internal/gate"
	"github.com/hearthdev/hearth/runtime/attach"
)

// R50: initialize is answered, all else goes to the streams: the connection's and those of its sessions.
func TestMessagesByStreamableHTTP(t *testing.T) {
	versions(t, func(t *testing.T, second bool) {
		h := newHouse()
		e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
		b := newBrowser(t, e, steerKey, second)
		v := b.initialize(h)
		assert.Equal(t, attach.Steer, v.access)
		v.say("s1", `{"early":true}`) // before anybody reads that stream
		whole := b.stream("")
		assert.Equal(t, http.StatusAccepted, b.status(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/"}}`))
		assert.Contains(t, v.heard(t), "session/new")
		v.say("", "{\"id\":2,\r\n\"result\":{}}")
		assert.Equal(t, `{"id":2,  "result":{}}`, whole.event(), "an event is one line")
		one, two := b.stream("s1"), b.stream("s2")
		prompt := `{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s1"}}`
		assert.Equal(t, http.StatusAccepted, b.status(http.MethodPost, prompt, HeaderSession, "s1"))
		assert.Equal(t, prompt, v.heard(t))
		long := `{"x":"` + strings.Repeat("ü", 8<<20) + `"}`
		for i := range 100 {
			v.say([]string{"s1", "s2", ""}[i%3], fmt.Sprintf(`{"n":%d}`, i))
		}
		v.say("s1", long)
		assert.Equal(t, `{"early":true}`, one.event())
		for i := range 100 {
			assert.Equal(t, fmt.Sprintf(`{"n":%d}`, i), []*reading{one, two, whole}[i%3].event())
		}
		assert.Len(t, one.event(), len(long))

		assert.Equal(t, http.StatusConflict, b.status(http.MethodGet, "", "Accept", mediaEvents, HeaderSession, "s1"), "a stream has one reader")
		assert.Equal(t, http.StatusAccepted, b.status(http.MethodDelete, ""))
		v.left(t)
		for _, r := range []*reading{one, two, whole} {
			assert.Equal(t, "\n: the client left\n\n", r.rest())
		}
		assert.Equal(t, http.StatusNotFound, b.status(http.MethodPost, prompt, HeaderSession, "s1"))
		assert.Equal(t, http.StatusNotFound, b.status(http.MethodGet, "", "Accept", mediaEvents))
		assert.Equal(t, http.StatusNotFound, b.status(http.MethodDelete, ""))
	})
}

// The transport's RFD: each mistake has its status, and a mistake ends nothing.
func TestMistakesByStreamableHTTP(t *testing.T) {
	versions(t, func(t *testing.T, second bool) {
		h := newHouse()
		e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid(), longest: 1 << 20})
		b := newBrowser(t, e, steerKey, second)
		const note = `{"jsonrpc":"2.0","method":"x"}`
		const first = `{"jsonrpc":"2.0","id":1,"method":"initialize"}`
		for name, c := range map[string]struct {
			method, body string
			headers      []string
			status       int
		}{
			"GET without Accept":              {http.MethodGet, "", nil, 406},
			"GET for something else":          {http.MethodGet, "", []string{"Accept", "application/json, */*"}, 406},
			"GET without a connection":        {http.MethodGet, "", []string{"Accept", mediaEvents}, 400},
			"GET of no connection":            {http.MethodGet, "", []string{"Accept", mediaEvents, HeaderConnection, "x"}, 404},
			"DELETE without a connection":     {http.MethodDelete, "", nil, 400},
			"DELETE of no connection":         {http.MethodDelete, "", []string{HeaderConnection, "x"}, 404},
			"POST without a connection":       {http.MethodPost, note, nil, 400},
			"an empty connection":             {http.MethodPost, first, []string{HeaderConnection, ""}, 400},
			"POST to no connection":           {http.MethodPost, note, []string{HeaderConnection, "x"}, 404},
			"POST of text":                    {http.MethodPost, note, []string{"Content-Type", "text/plain"}, 415},
			"POST of nothing known":           {http.MethodPost, note, []string{"Content-Type", ""}, 415},
			"POST of a batch":                 {http.MethodPost, "[" + first + "]", nil, 501},
			"POST of an empty batch":          {http.MethodPost, "[]", nil, 501},
			"POST of nothing":                 {http.MethodPost, "", nil, 400},
			"POST of no JSON":                 {http.MethodPost, "{", nil, 400},
			"POST of two messages":            {http.MethodPost, first + first, nil, 400},
			"POST of a string":                {http.MethodPost, `"initialize"`, nil, 400},
			"POST of no UTF-8":                {http.MethodPost, "{\"method\":\"initialize\",\"id\":\"\xff\"}", nil, 400},
			"initialize, a notification":      {http.MethodPost, `{"method":"initialize"}`, nil, 400},
			"initialize, id null":             {http.MethodPost, `{"method":"initialize","id":null}`, nil, 400},
			"POST of too much":                {http.MethodPost, first + strings.Repeat(" ", 1<<20), nil, 413},
			"PATCH":                           {http.MethodPatch, note, nil, 405},
			"a session with a very long name": {http.MethodDelete, "", []string{HeaderConnection, "x", HeaderSession, strings.Repeat("x", maxNameBytes+1)}, 400},
		} {
			t.Run(name, func(t *testing.T) { assert.Equal(t, c.status, b.status(c.method, c.body, c.headers...)) })
		}
		assert.Empty(t, h.in, "nobody came in")

		v := b.initialize(h)
		prompt := `{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s1"}}`
		for name, c := range map[string]struct {
			body    string
			headers []string
			status  int
		}{
			"initialize again":           {first, nil, 400},
			"a session without a header": {prompt, nil, 400},
			"another session's header":   {prompt, []string{HeaderSession, "s2"}, 400},
			"a batch":                    {"[" + prompt + "]", nil, 501},
			"a header without a session": {note, []string{HeaderSession, "s2"}, 202},
			"a response to the agent":    {`{"jsonrpc":"2.0","id":9,"result":{}}`, []string{HeaderSession, "s1"}, 202},
			"a session id that is none":  {`{"params":{"sessionId":7},"method":"session/prompt"}`, nil, 202},
			"with another key":           {note, []string{HeaderKey, viewKey}, 404},
			"without a key":              {note, []string{HeaderKey, ""}, 401},
			"of a foreign page":          {note, []string{"Origin", "http://evil.example"}, 403},
			"as long as it may be":       {note + strings.Repeat(" ", 1<<20-len(note)), nil, 202},
		} {
			t.Run(name, func(t *testing.T) {
				require.Equal(t, c.status, b.status(http.MethodPost, c.body, c.headers...))
				if c.status == http.StatusAccepted {
					assert.Equal(t, c.body, v.heard(t))
				}
				assert.Empty(t, v.received)
			})
		}
	})
}

// A message whose length nobody declares may be no longer than one that says it.
func TestABodyOfUnknownLengthIsBounded(t *testing.T) {
	versions(t, func(t *testing.T, second bool) {
		h := newHouse()
		e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
		b := newBrowser(t, e, viewKey, second)
		b.initialize(h)
		for size, want := range map[int]int{MaxViewMessageBytes: http.StatusAccepted, MaxViewMessageBytes + 1: http.StatusRequestEntityTooLarge} {
			body := io.MultiReader(strings.NewReader("{}" + strings.Repeat(" ", size-2))) // of which net/http knows no length
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url, body)
			require.NoError(t, err)
			r.Header = http.Header{HeaderKey: {viewKey}, HeaderConnection: {b.connection}, "Content-Type": {mediaJSON}}
			response, err := b.transport.RoundTrip(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, want, response.StatusCode, size)
		}
	})
}

// A message that stops coming is answered, and its connection is gone; one of a stranger is not waited for at all.
func TestABodyThatDoesNotCome(t *testing.T) {
	h := newHouse()
	p := rapid()
	p.body = 20 * time.Millisecond
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	for head, status := range map[string]string{
		"Content-Length: 9\r\n":                                          " 408 ",
		"Transfer-Encoding: chunked\r\n":                                 " 408 ",
		"Content-Length: 9\r\nX-Secret-Key: wrong\r\n":                   " 401 ",
		"Content-Length: 100000000\r\nX-Secret-Key: " + viewKey + "\r\n": " 413 ",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
		require.NoError(t, err)
		if !strings.Contains(head, HeaderKey) {
			head += "X-Secret-Key: " + steerKey + "\r\n"
		}
		_, err = io.WriteString(conn, "POST /acp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+head+"\r\n")
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		said, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Contains(t, string(said), status)
		require.NoError(t, conn.Close())
	}
}

// An agent that does not answer initialize, a hub that ends the connection instead, a client that does not wait: nobody stays behind.
func TestAnInitializeThatIsNotAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		hello time.Duration
		act   func(v *visitor, leave context.CancelFunc)
	}{
		"in time":            {20 * time.Millisecond, func(*visitor, context.CancelFunc) {}},
		"because it ends":    {time.Hour, func(v *visitor, _ context.CancelFunc) { v.expel("no room") }},
		"because one leaves": {time.Hour, func(_ *visitor, leave context.CancelFunc) { leave() }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			p := rapid()
			p.hello = c.hello
			e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Addr()+PathACP+"?token="+viewKey, strings.NewReader(`{"id":1,"method":"initialize"}`))
			require.NoError(t, err)
			r.Header.Set("Content-Type", mediaJSON)
			coming := make(chan *visitor, 1)
			go func() {
				v := <-h.in
				<-v.received
				c.act(v, cancel)
				coming <- v
			}()
			response, err := transport.RoundTrip(r)
			if ctx.Err() == nil {
				require.NoError(t, err)
				assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
				_ = response.Body.Close()
			}
			(<-coming).left(t)
		})
	}
}

// What comes before the answer to initialize waits for its stream.
func TestAMessageBeforeTheAnswerToInitialize(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	h.news = `{"method":"news"}`
	b := newBrowser(t, e, steerKey, false)
	b.initialize(h)
	assert.Equal(t, `{"method":"news"}`, b.stream("").event())
}

// Row 34: comments keep a stream alive through proxies that cut idle ones.
func TestStreamsShowSignsOfLife(t *testing.T) {
	versions(t, func(t *testing.T, second bool) {
		h := newHouse()
		p := rapid()
		p.ping = 10 * time.Millisecond
		e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
		b := newBrowser(t, e, steerKey, second)
		b.initialize(h)
		r := b.stream("")
		for range 3 {
			line, err := r.lines.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, ":\n", line)
			_, err = r.lines.ReadString('\n')
			require.NoError(t, err)
		}
	})
}

// A stream that is cut off keeps what waits for its next reader, and its session's neighbours notice nothing.
func TestAStreamIsOpenedAgain(t *testing.T) {
	versions(t, func(t *testing.T, second bool) {
		h := newHouse()
		p := rapid()
		p.ping = 5 * time.Millisecond
		e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
		b := newBrowser(t, e, steerKey, second)
		v := b.initialize(h)
		first, other := b.stream("s"), b.stream("")
		v.say("s", "1")
		assert.Equal(t, "1", first.event())
		require.NoError(t, first.body.Close())
		require.Eventually(t, func() bool { // the harness learns of it when it writes
			response := b.do(http.MethodGet, "", "Accept", mediaEvents, HeaderSession, "s")
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		}, patience, 5*time.Millisecond)
		v.say("", "still here")
		assert.Equal(t, "still here", other.event())
	})
}

// What waits when a reader leaves is for the next one; a stream in which nothing waits is forgotten.
func TestWhatWaitsIsForTheNextReader(t *testing.T) {
	in := &guest{}
	in.ctx, in.end = context.WithCancelCause(t.Context())
	c := newConnection(in, rapid())
	defer c.orphan.Stop()
	st := c.take("s")
	require.True(t, c.put(attach.Message{Session: "s", Data: []byte("1")}))
	c.drop(st)
	st = c.take("s")
	assert.Equal(t, "1", string(c.pop(st)))
	c.drop(st)
	assert.Empty(t, c.streams)
}

// A connection without a stream expires; one with a stream, or that is spoken to, does not.
func TestAConnectionWithoutAStreamExpires(t *testing.T) {
	t.Parallel()
	h := newHouse()
	p := rapid()
	p.orphan = 2 * time.Second
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	b, read, spoken := newBrowser(t, e, steerKey, false), newBrowser(t, e, steerKey, false), newBrowser(t, e, viewKey, false)
	v, watched := b.initialize(h), read.initialize(h)
	r := read.stream("")
	known := spoken.initialize(h)
	for begun := time.Now(); time.Since(begun) < p.orphan*3/2; time.Sleep(p.orphan / 20) {
		require.Equal(t, http.StatusAccepted, spoken.status(http.MethodPost, "{}"))
	}
	v.left(t)
	assert.Equal(t, http.StatusNotFound, b.status(http.MethodPost, "{}"))
	watched.say("", "x")
	assert.Equal(t, "x", r.event())
	require.NoError(t, r.body.Close())
	watched.left(t)
	known.left(t)
}

// Bounded: what nobody comes for does not fill the memory. The connection ends, and others go on.
func TestWhatNobodyReadsEndsTheConnection(t *testing.T) {
	for name, say := range map[string]func(v *visitor){
		"one session": func(v *visitor) {
			for range 10 {
				v.say("s", `"`+strings.Repeat("x", maxWaitingBytes/4)+`"`)
			}
		},
		"many sessions": func(v *visitor) {
			for i := range maxWaitingStreams + 1 {
				v.say(fmt.Sprint(i), `{}`)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			p := rapid()
			p.stall = 50 * time.Millisecond
			e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
			b := newBrowser(t, e, viewKey, false)
			v := b.initialize(h)
			r := b.stream("")
			say(v)
			v.left(t)
			assert.Contains(t, r.rest(), ": messages wait")
		})
	}
}

// Bounded is what waits, not what was ever sent.
func TestWhatWasReadLeavesRoom(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	b := newBrowser(t, e, steerKey, false)
	v := b.initialize(h)
	third := strings.Repeat("x", maxWaitingBytes/3)
	read, other := b.stream("read"), b.stream("other")
	for range 2 {
		v.say("read", third)
		assert.Len(t, read.event(), len(third))
	}
	v.say("waits", third)
	v.say("waits", third)
	v.say("other", "{}")
	assert.Equal(t, "{}", other.event())
}

// A message of any size passes when none waits, however full the other streams are.
func TestAFullStreamDoesNotHoldUpAnEmptyOne(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	b := newBrowser(t, e, viewKey, false)
	v := b.initialize(h)
	r := b.stream("")
	v.say("s", strings.Repeat("x", 2*maxWaitingBytes))
	v.say("", strings.Repeat("y", 2*maxWaitingBytes))
	assert.Len(t, r.event(), 2*maxWaitingBytes)
}

// A reader that does not read loses its stream, and the client its connection when it does not come back.
func TestAStreamThatIsNotReadIsClosed(t *testing.T) {
	big := strings.Repeat("x", 4<<20)
	versions(t, func(t *testing.T, second bool) {
		h := newHouse()
		p := rapid()
		p.stall = 100 * time.Millisecond
		e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
		b := newBrowser(t, e, viewKey, second)
		v := b.initialize(h)
		b.stream("s")
		for range 32 {
			v.say("s", big)
		}
		v.left(t)
	})
}

// Row 20 and SPEC.md, Drain, by streams.
func TestStreamsEndWithTheAgentAndStayInADrain(t *testing.T) {
	versions(t, func(t *testing.T, second bool) {
		h := newHouse()
		e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
		b := newBrowser(t, e, viewKey, second)
		v := b.initialize(h)
		r := b.stream("")
		v.say("", "the agent crashed")
		require.NoError(t, e.Close())
		assert.Contains(t, r.rest(), "data: the agent crashed\n\n: no agent answers")
		v.left(t)

		require.NoError(t, e.Bind(t.Context()))
		b = newBrowser(t, e, viewKey, second)
		v = b.initialize(h)
		r = b.stream("")
		require.NoError(t, e.Drain())
		if second { // one connection for all requests; HTTP/1.1 may need another for each, and gets none
			assert.Equal(t, http.StatusAccepted, b.status(http.MethodPost, "{}"))
			assert.Equal(t, "{}", v.heard(t))
		}
		v.say("", "the end")
		assert.Equal(t, "the end", r.event())
		ended := make(chan error, 1)
		go func() { ended <- e.End() }()
		assert.Contains(t, r.rest(), ": the harness ends")
		require.NoError(t, <-ended)
	})
}

// Many clients, each with streams and messages of its own: each gets its own and nothing else.
func TestClientsOfStreamableHTTPAreApart(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	browsers, visitors := make([]*browser, 10), make([]*visitor, 10)
	for i := range browsers {
		browsers[i] = newBrowser(t, e, []string{viewKey, steerKey}[i%2], i%3 == 0)
		visitors[i] = browsers[i].initialize(h)
	}
	var work sync.WaitGroup
	for i, b := range browsers {
		work.Go(func() {
			r := b.stream("s")
			for n := range 50 {
				text := fmt.Sprintf(`{"from":%d,"n":%d}`, i, n)
				assert.Equal(t, http.StatusAccepted, b.status(http.MethodPost, text))
				assert.Equal(t, text, visitors[i].heard(t))
				visitors[i].say("s", text)
				assert.Equal(t, text, r.event())
			}
		})
	}
	work.Wait()
}

func TestAHouseThatIsFullSaysSoByHTTP(t *testing.T) {
	h := newHouse()
	h.full = errors.New("the house is full")
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	b := newBrowser(t, e, viewKey, false)
	assert.Equal(t, http.StatusServiceUnavailable, b.status(http.MethodPost, `{"id":1,"method":"initialize"}`))
}

// Rows 31 and 40: with HTTP/2 a connection has many requests under way; without a key it has few, and
// more are not even looked at; it ends because it does not answer.
func TestAStrangerHasFewRequestsUnderWay(t *testing.T) {
	e, _ := open(t, Config{Keys: keys, Clients: newHouse(), pace: rapid()})
	b := newBrowser(t, e, "wrong", true)
	for range 3 * gate.MaxStrangersRequests {
		assert.Equal(t, http.StatusUnauthorized, b.status(http.MethodPost, "{}"), "one after the other")
	}
	signs := rapid()
	signs.ping, signs.pong = 50*time.Millisecond, 50*time.Millisecond
	e, _ = open(t, Config{Keys: keys, Clients: newHouse(), pace: signs})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	var block, all bytes.Buffer
	all.WriteString(http2.ClientPreface)
	head := hpack.NewEncoder(&block)
	for name, value := range map[string]string{":method": "GET", ":scheme": "http", ":path": PathACP, ":authority": "x"} {
		require.NoError(t, head.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}))
	}
	framer := http2.NewFramer(&all, conn)
	// With no window the answers cannot be written, so their requests stay.
	require.NoError(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	answers := 0
	for i := range uint32(gate.MaxStrangersRequests + 1) {
		require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
	}
	_, err = all.WriteTo(conn) // at once: the endpoint is not going to wait long
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
		if _, is := f.(*http2.HeadersFrame); is {
			answers++
		}
	}
	assert.LessOrEqual(t, answers, gate.MaxStrangersRequests)
}
