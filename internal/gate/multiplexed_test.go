package gate

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// asked is what a client says that asks so many requests at once, each with a header block of so many bytes; frames of other types
// that look like them lie between.
func asked(t *testing.T, requests uint32, size int) []byte {
	t.Helper()
	var all bytes.Buffer
	all.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&all, nil)
	require.NoError(t, framer.WriteSettings())
	for i := range requests {
		require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: make([]byte, size), EndHeaders: size > 1}))
		require.NoError(t, framer.WriteContinuation(2*i+1, true, make([]byte, size)))
		require.NoError(t, framer.WriteData(2*i+1, true, bytes.Repeat([]byte{0, 0, 1, typeHeaders}, size)))
	}
	return all.Bytes()
}

// reading is a connection that says all this, and what its server has read of it so far, in pieces of so many bytes.
func reading(t *testing.T, said []byte, piece int) (*Conn, chan []byte, chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() {
		_ = ours.Close()
		_ = theirs.Close()
	})
	c := New(nil, 1).admit(peer{ours, "a:1"})
	go func() { _, _ = theirs.Write(said) }()
	read, ended := make(chan []byte, len(said)), make(chan error, 1)
	go func() {
		p := make([]byte, piece)
		for {
			n, err := c.Read(p)
			if err != nil {
				ended <- err
				return
			}
			read <- bytes.Clone(p[:n])
		}
	}()
	return c, read, ended
}

// await collects what was read until it is that much.
func await(t *testing.T, read chan []byte, all []byte, want int) []byte {
	t.Helper()
	for len(all) < want {
		select {
		case p := <-read:
			all = append(all, p...)
		case <-time.After(time.Minute):
			require.Fail(t, "not read", "%d of %d", len(all), want)
		}
	}
	return all
}

// waits tells whether the reader stands before the next request.
func waits(c *Conn) bool {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.requests > MaxStrangersRequests
}

// Rows 31 and 40: of a stranger's requests by HTTP/2 few are taken in at once, and none is lost, in whatever pieces they come.
func TestOfAStrangerFewRequestsAreTakenInAtOnce(t *testing.T) {
	const more = 3
	for _, size := range []int{0, 1, 300} {
		for _, piece := range []int{1, 7, 4096} {
			said := asked(t, MaxStrangersRequests+more, size)
			c, read, _ := reading(t, said, piece)
			var all []byte
			for i := range uint32(more) {
				// The frame's header is read, which costs nothing, and nothing that follows.
				all = await(t, read, all, len(asked(t, MaxStrangersRequests+i, size))+frameHeader)
				assert.True(t, waits(c))
				assert.Empty(t, read)
				leave, ok := Enter(With(t.Context(), c))
				require.True(t, ok)
				leave()
			}
			assert.Equal(t, said, await(t, read, all, len(said)), "%d bytes in pieces of %d", size, piece)
		}
	}
}

// A client with a key may begin with many requests at once: the first ones prove it.
func TestWhoProvesSomethingGoesOn(t *testing.T) {
	said := asked(t, 50, 100)
	for _, prove := range []func(*Conn){(*Conn).Proven, (*Conn).ProvenLesser} {
		c, read, _ := reading(t, said, 4096)
		all := await(t, read, nil, len(asked(t, MaxStrangersRequests, 100))+frameHeader)
		prove(c)
		assert.Equal(t, said, await(t, read, all, len(said)))
	}
}

// A connection that makes room ends at once, whatever its reader waits for.
func TestWhoWaitsForItsTurnSeesTheEnd(t *testing.T) {
	c, read, ended := reading(t, asked(t, MaxStrangersRequests+1, 10), 4096)
	await(t, read, nil, len(asked(t, MaxStrangersRequests, 10))+frameHeader)
	require.NoError(t, c.Close())
	select {
	case err := <-ended:
		assert.ErrorIs(t, err, net.ErrClosed)
	case <-time.After(time.Minute):
		assert.Fail(t, "it waits")
	}
}

// Whoever does not speak HTTP/2 is read as it comes, however similar it begins.
func TestOthersAreReadAsTheyCome(t *testing.T) {
	for _, said := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\nHost: x\r\n\r\n" + string(asked(t, 20, 10)), "PRI * HTTP/2.0\r\n\r\nSM\r\n\rX" + string(asked(t, 20, 10)), "P",
	} {
		c, read, _ := reading(t, []byte(said), 64)
		assert.Equal(t, said, string(await(t, read, nil, len(said))))
		assert.False(t, c.second)
	}
}

// Through net/http: a stranger asks one after the other as often as it likes, and two hundred at once are all answered,
// whose bodies nobody reads.
func TestAServerAnswersAStrangerAllTheSame(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{ReadHeaderTimeout: time.Minute, ConnContext: With, Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := Enter(r.Context())
		assert.True(t, ok)
		defer leave()
		_, _ = io.WriteString(w, "hello")
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(New(l, 10)) }()
	transport := &http.Transport{Protocols: protocols}
	ask := func() string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), bytes.NewReader(make([]byte, 1000)))
		if err != nil {
			return err.Error()
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return err.Error()
		}
		body, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return err.Error()
		}
		return string(body)
	}
	for range 3 * MaxStrangersRequests {
		require.Equal(t, "hello", ask())
	}
	answers := make(chan string)
	for range 200 { // on the connection that there is
		go func() { answers <- ask() }()
	}
	for range 200 {
		assert.Equal(t, "hello", <-answers)
	}
	transport.CloseIdleConnections()
	require.NoError(t, server.Close())
	<-served
}
