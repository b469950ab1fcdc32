package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/attach"
)

// R50: who presents a key may attach, in any of the ways to present one; all others learn why not, and no key comes back.
func TestHandshakes(t *testing.T) {
	h := newHouse()
	e, l := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	upgrade := map[string]string{"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
	for name, c := range map[string]struct {
		method, query string
		header        map[string]string // "-" takes one away
		status        int
		access        attach.Access
	}{
		"view key, header":          {header: map[string]string{"X-Secret-Key": viewKey}, status: 101, access: attach.View},
		"steer key, header":         {header: map[string]string{"X-Secret-Key": steerKey}, status: 101, access: attach.Steer},
		"view key, bearer":          {header: map[string]string{"Authorization": "Bearer " + viewKey}, status: 101, access: attach.View},
		"steer key, query":          {query: "?token=" + steerKey, status: 101, access: attach.Steer},
		"own origin":                {query: "?token=" + steerKey, header: map[string]string{"Origin": "http://" + e.Addr()}, status: 101, access: attach.Steer},
		"asks for compression":      {query: "?token=" + viewKey, header: map[string]string{"Sec-WebSocket-Extensions": "permessage-deflate"}, status: 101, access: attach.View},
		"asks for subprotocols":     {query: "?token=" + viewKey, header: map[string]string{"Sec-WebSocket-Protocol": "acp, acp.v1"}, status: 101, access: attach.View},
		"Upgrade in capitals":       {query: "?token=" + viewKey, header: map[string]string{"Upgrade": "WebSocket"}, status: 101, access: attach.View},
		"no key":                    {status: 401},
		"wrong key":                 {query: "?token=" + viewKey + "x", status: 401},
		"basic":                     {header: map[string]string{"Authorization": "Basic " + viewKey}, status: 401},
		"wrong key, foreign":        {header: map[string]string{"Origin": "http://evil.example"}, status: 403},
		"right key, foreign":        {query: "?token=" + steerKey, header: map[string]string{"Origin": "http://evil.example"}, status: 403},
		"right key, null origin":    {query: "?token=" + steerKey, header: map[string]string{"Origin": "null"}, status: 403},
		"POST":                      {method: http.MethodPost, query: "?token=" + viewKey, status: 415},
		"PUT":                       {method: http.MethodPut, query: "?token=" + viewKey, status: 405},
		"no Upgrade":                {query: "?token=" + viewKey, header: map[string]string{"Upgrade": "-", "Connection": "-"}, status: 406},
		"no Connection: Upgrade":    {query: "?token=" + viewKey, header: map[string]string{"Connection": "-"}, status: 426},
		"another WebSocket":         {query: "?token=" + viewKey, header: map[string]string{"Sec-WebSocket-Version": "8"}, status: 400},
		"no Sec-WebSocket-Key":      {query: "?token=" + viewKey, header: map[string]string{"Sec-WebSocket-Key": "-"}, status: 400},
		"a short WebSocket key":     {query: "?token=" + viewKey, header: map[string]string{"Sec-WebSocket-Key": "YQ=="}, status: 400},
		"upgrade to something else": {query: "?token=" + viewKey, header: map[string]string{"Upgrade": "h2c"}, status: 406},
	} {
		t.Run(name, func(t *testing.T) {
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			r, err := http.NewRequestWithContext(t.Context(), method, "http://"+e.Addr()+PathACP+c.query, nil)
			require.NoError(t, err)
			for _, headers := range []map[string]string{upgrade, c.header} {
				for name, value := range headers {
					r.Header.Set(name, value)
					if value == "-" {
						r.Header.Del(name)
					}
				}
			}
			transport := &http.Transport{DisableKeepAlives: true}
			defer transport.CloseIdleConnections()
			response, err := transport.RoundTrip(r)
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			assert.Equal(t, c.status, response.StatusCode)
			if c.status == http.StatusSwitchingProtocols {
				assert.NotEmpty(t, response.Header.Get(HeaderConnection))
				assert.Empty(t, response.Header.Get("Sec-WebSocket-Protocol"), "no subprotocol")
				assert.Empty(t, response.Header.Get("Sec-WebSocket-Extensions"), "no compression")
				v := h.await(t)
				assert.Equal(t, c.access, v.access)
				require.NoError(t, response.Body.Close())
				v.left(t)
				return
			}
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			assert.NotEmpty(t, body)
			assert.NotContains(t, string(body), viewKey)
			assert.NotContains(t, string(body), steerKey)
			select {
			case v := <-h.in: // a handshake that failed at its end
				v.left(t)
			default:
			}
		})
	}
	assert.NotContains(t, l.String(), viewKey)
	assert.NotContains(t, l.String(), steerKey)
}

// R50: one JSON-RPC message a text frame, both ways, byte by byte; binary frames are ignored, fragments are one message.
func TestMessagesByWebSocket(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	conn := dial(t, e, steerKey)
	v := h.await(t)
	long := `{"x":"` + strings.Repeat("ü", 1<<20) + `"}`
	for _, text := range []string{`{"jsonrpc":"2.0","id":1}`, ` [] `, "no JSON", "", long} {
		write(t, conn, text)
		assert.Equal(t, text, v.heard(t))
		v.say("s", text)
		assert.Equal(t, text, read(t, conn))
	}
	require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, []byte("\xff")))
	w, err := conn.Writer(t.Context(), websocket.MessageText)
	require.NoError(t, err)
	for _, part := range []string{"fr", "", "ag", "ment"} {
		_, err := io.WriteString(w, part)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	assert.Equal(t, "fragment", v.heard(t), "and nothing binary before it")
	require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
	v.left(t)
}

// SPEC.md, Transports: what a key may send, and what is no message, ends the connection with the code of RFC 6455.
func TestWhatIsNoMessageEndsTheWebSocket(t *testing.T) {
	h := newHouse()
	const longest = 1 << 20
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid(), longest: longest})
	for name, c := range map[string]struct {
		key, frames string
		code        websocket.StatusCode
	}{
		"too long for the view key":  {viewKey, frame(fin|textual, strings.Repeat("x", MaxViewMessageBytes+1)), 1009},
		"too long in fragments":      {viewKey, frame(textual, strings.Repeat("x", MaxViewMessageBytes)) + frame(fin|more, "x"), 1009},
		"too long, binary":           {viewKey, frame(fin|binary, strings.Repeat("x", MaxViewMessageBytes+1)), 1009},
		"too long for the steer key": {steerKey, frame(fin|textual, strings.Repeat("x", MaxMessageBytes+1)), 1009},
		"no UTF-8":                   {viewKey, frame(fin|textual, "\xff"), 1007},
		"a character cut in two":     {viewKey, frame(fin|textual, "\xc3"), 1007},
		"a reserved bit":             {viewKey, frame(fin|textual|0x40, "x"), 1002},
		"an unknown opcode":          {viewKey, frame(fin|0x3, "x"), 1002},
		"a continuation of nothing":  {viewKey, frame(fin|more, "x"), 1002},
		"a long ping":                {viewKey, frame(fin|pingPong, strings.Repeat("x", 126)), 1002},
		"a fragmented ping":          {viewKey, frame(pingPong, "x"), 1002},
		"a text within a text":       {viewKey, frame(textual, "x") + frame(fin|textual, "x"), 1002},
	} {
		t.Run(name, func(t *testing.T) {
			conn := raw(t, e.Addr(), c.key)
			go func() { _, _ = io.WriteString(conn, c.frames) }()
			v := h.await(t)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
			head := make([]byte, 4)
			_, err := io.ReadFull(conn, head)
			require.NoError(t, err)
			assert.Equal(t, byte(0x88), head[0], "a close frame")
			assert.Equal(t, c.code, websocket.StatusCode(int(head[2])<<8|int(head[3])))
			require.NoError(t, conn.Close())
			v.left(t)
			assert.Empty(t, v.received)
		})
	}
}

// What is exactly as long as it may be is a message; to a client anything is.
func TestTheLongestMessages(t *testing.T) {
	h := newHouse()
	longest := 2 << 20
	if os.Getenv("HEARTH_SLOW") != "" {
		longest = MaxMessageBytes
	}
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid(), longest: int64(longest)})
	for key, limit := range map[string]int{viewKey: MaxViewMessageBytes, steerKey: longest} {
		conn := raw(t, e.Addr(), key)
		v := h.await(t)
		_, err := io.WriteString(conn, frame(fin|textual, strings.Repeat("x", limit)))
		require.NoError(t, err)
		assert.Len(t, v.heard(t), limit)
		v.say("", strings.Repeat("y", longest))
		n, err := io.CopyN(io.Discard, conn, int64(2+8+longest)) // one frame
		require.NoError(t, err, "after %d bytes", n)
	}
}

// Row 33 and P8: whoever the hub drops because it is too slow is told 1013, and why.
func TestASlowClientIsTold(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	conn := dial(t, e, viewKey)
	v := h.await(t)
	v.expel("16 MiB wait for you" + strings.Repeat("ü", 100))
	why := closed(t, conn)
	assert.Equal(t, websocket.StatusTryAgainLater, why.Code)
	assert.True(t, strings.HasPrefix(why.Reason, "16 MiB wait for you"))
	assert.Less(t, len(why.Reason), maxReasonBytes+1)
	v.left(t)
}

// A client that never reads is closed once its line is full, and holds nobody up.
func TestAClientThatNeverReadsIsClosed(t *testing.T) {
	h := newHouse()
	p := rapid()
	p.stall = 50 * time.Millisecond
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	lazy, diligent := raw(t, e.Addr(), viewKey), dial(t, e, viewKey)
	asleep, awake := h.await(t), h.await(t)
	if asleep.access != attach.View {
		t.FailNow()
	}
	big := strings.Repeat("x", 1<<20)
	for range 64 {
		asleep.say("s", big)
	}
	asleep.left(t)
	awake.say("s", "still here")
	assert.Equal(t, "still here", read(t, diligent))
	_, err := io.Copy(io.Discard, lazy)
	if err != nil {
		assert.ErrorContains(t, err, "reset")
	}
}

// proxy forwards connections and cuts those on which nothing went, either way, for so long.
func proxy(t *testing.T, to string, idle time.Duration) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	work.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
			if err != nil {
				_ = near.Close()
				return
			}
			cut := func() { _, _ = near.Close(), far.Close() }
			watch := time.AfterFunc(idle, cut)
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				work.Go(func() {
					defer cut()
					buffer := make([]byte, 32<<10)
					for {
						n, err := way[0].Read(buffer)
						if err != nil {
							return
						}
						watch.Reset(idle)
						if _, err := way[1].Write(buffer[:n]); err != nil {
							return
						}
					}
				})
			}
		}
	})
	return listener.Addr().String()
}

// Row 34: a connection through a proxy that cuts idle ones survives, because of the pings; without them it would not.
func TestPingsKeepAConnectionThroughAProxy(t *testing.T) {
	t.Parallel()
	const idle = time.Second
	for name, c := range map[string]struct {
		ping     time.Duration
		survives bool
	}{"with pings": {idle * 2 / 30, true}, "without": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse()
			p := rapid()
			p.ping = c.ping
			e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
			conn, _, err := websocket.Dial(t.Context(), "ws://"+proxy(t, e.Addr(), idle)+PathACP+"?token="+viewKey, nil) //nolint:bodyclose // websocket.Dial says that it needs no closing
			require.NoError(t, err)
			defer func() { _ = conn.CloseNow() }()
			v := h.await(t)
			reading := make(chan error, 1)
			go func() {
				_, _, err := conn.Read(t.Context())
				reading <- err
			}()
			select {
			case err := <-reading:
				assert.False(t, c.survives, "cut: %v", err)
				v.left(t)
			case <-time.After(3 * idle):
				assert.True(t, c.survives)
				v.say("s", "news")
				assert.NoError(t, <-reading)
			}
		})
	}
}

// A peer that is gone without a word is noticed: nobody answers the ping.
func TestADeadConnectionIsClosed(t *testing.T) {
	h := newHouse()
	p := rapid()
	p.ping, p.pong = 20*time.Millisecond, 50*time.Millisecond
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	conn := raw(t, e.Addr(), viewKey)
	h.await(t).left(t)
	_, err := io.Copy(io.Discard, conn)
	if err != nil {
		assert.ErrorContains(t, err, "reset")
	}
}

// A peer that is in the middle of a long message answers no ping, and is not dead.
func TestALongMessageIsASignOfLife(t *testing.T) {
	t.Parallel()
	h := newHouse()
	p := rapid()
	p.ping, p.pong = 20*time.Millisecond, time.Second
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	conn := raw(t, e.Addr(), viewKey)
	v := h.await(t)
	for _, piece := range strings.SplitAfter(frame(fin|textual, strings.Repeat("xxxxx", 10)), "xxxxx") {
		_, err := io.WriteString(conn, piece)
		require.NoError(t, err)
		time.Sleep(p.pong / 7) // all of it takes longer than a ping waits
	}
	assert.Len(t, v.heard(t), 50)
}

func TestWhoSaysNothingIsClosed(t *testing.T) {
	h := newHouse()
	p := rapid()
	p.hello = 20 * time.Millisecond
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: p})
	assert.Equal(t, websocket.StatusPolicyViolation, closed(t, dial(t, e, viewKey)).Code)
	h.await(t).left(t)
}

// R4, row 20: with the agent its clients go, told to come again and what was left to say; a probe fails at once.
func TestClientsGoWithTheAgent(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	addr := e.Addr()
	conn, stuck := dial(t, e, viewKey), raw(t, addr, viewKey)
	v, other := h.await(t), h.await(t)
	for i := range 3 {
		v.say("s", fmt.Sprintf("the agent crashed: %d", i))
	}
	require.NoError(t, e.Close())
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.ErrorContains(t, err, "connection refused")
	for i := range 3 {
		assert.Equal(t, fmt.Sprintf("the agent crashed: %d", i), read(t, conn))
	}
	assert.Equal(t, websocket.StatusServiceRestart, closed(t, conn).Code)
	v.left(t)
	other.left(t) // although it did not say goodbye
	require.NoError(t, stuck.Close())
}

// SPEC.md, Drain: 4000 closes, clients stay until the end.
func TestClientsStayWhileTheHarnessDrains(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	addr := e.Addr()
	conn := dial(t, e, steerKey)
	v := h.await(t)
	require.NoError(t, e.Drain())
	require.NoError(t, e.Drain(), "twice is fine")
	assert.Empty(t, e.Addr())
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.ErrorContains(t, err, "connection refused")
	write(t, conn, "a question")
	assert.Equal(t, "a question", v.heard(t))
	v.say("s", "an answer")
	assert.Equal(t, "an answer", read(t, conn))
	ended := make(chan error, 1)
	go func() { ended <- e.End() }()
	assert.Equal(t, websocket.StatusGoingAway, closed(t, conn).Code)
	require.NoError(t, <-ended)
	v.left(t)
}

// An agent that dies while the harness drains takes its clients along.
func TestAnAgentThatDiesInADrainTakesItsClientsAlong(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	conn := dial(t, e, steerKey)
	require.NoError(t, e.Drain())
	require.NoError(t, e.Close())
	assert.Equal(t, websocket.StatusServiceRestart, closed(t, conn).Code)
	h.await(t).left(t)
	require.NoError(t, e.End())
}

// Row 40: the number of clients is bounded, and who may only watch leaves room for who may steer.
func TestViewersLeaveRoomForThoseWhoSteer(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, MaxConnections: 4, pace: rapid()})
	try := func(key string) int {
		conn, response, err := websocket.Dial(t.Context(), "ws://"+e.Addr()+PathACP+"?token="+key, nil) //nolint:bodyclose // websocket.Dial says that it needs no closing
		if err == nil {
			t.Cleanup(func() { _ = conn.CloseNow() })
		}
		return response.StatusCode
	}
	for range 3 {
		require.Equal(t, http.StatusSwitchingProtocols, try(viewKey))
	}
	assert.Equal(t, http.StatusServiceUnavailable, try(viewKey))
	assert.Equal(t, http.StatusSwitchingProtocols, try(steerKey))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
	require.NoError(t, err, "a probe connects to a full house")
	require.NoError(t, conn.Close())
}

func TestAHubWithoutRoomSaysWhy(t *testing.T) {
	h := newHouse()
	h.full = errors.New("the house is full")
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	_, response, err := websocket.Dial(t.Context(), "ws://"+e.Addr()+PathACP+"?token="+viewKey, nil) //nolint:bodyclose // websocket.Dial says that it needs no closing
	require.Error(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Contains(t, string(body), "the house is full")
}

// A handshake that was under way when the door closed ends there.
func TestNobodyComesInBehindAClosedDoor(t *testing.T) {
	h := newHouse()
	e, _ := open(t, Config{Keys: keys, Clients: h, pace: rapid()})
	late := func() int {
		r := httptest.NewRequest(http.MethodPost, "/acp?token="+viewKey, strings.NewReader(`{"id":1,"method":"initialize"}`))
		r.Header.Set("Content-Type", mediaJSON)
		w := httptest.NewRecorder()
		e.handler().ServeHTTP(w, r)
		return w.Code
	}
	require.NoError(t, e.Close())
	assert.Equal(t, http.StatusServiceUnavailable, late())
	require.NoError(t, e.Bind(t.Context()))
	dial(t, e, viewKey)
	require.NoError(t, e.End())
	assert.Equal(t, http.StatusServiceUnavailable, late())
	h.await(t).left(t)
	assert.Empty(t, h.in)
}
