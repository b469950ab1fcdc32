package gate

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a connection from an address of the test's choice.
type peer struct {
	net.Conn
	from string
}

func (p peer) RemoteAddr() net.Addr { return address(p.from) }

type address string

func (a address) Network() string { return "test" }
func (a address) String() string  { return string(a) }

// come lets one more in from an address; nil when it is turned away.
func come(t *testing.T, g *Listener, from string) *Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() {
		_ = ours.Close()
		_ = theirs.Close()
	})
	return g.admit(peer{ours, from})
}

// Row 40: when the gate is full the oldest stranger goes, and who proved something stays.
func TestTheOldestStrangerMakesRoom(t *testing.T) {
	g := New(nil, 3)
	known, first, second := come(t, g, "10.0.0.1:1"), come(t, g, "10.0.0.1:2"), come(t, g, "10.0.0.1:3")
	known.Proven()
	third := come(t, g, "10.0.0.1:4")
	assert.True(t, first.closed)
	fourth := come(t, g, "10.0.0.1:5")
	assert.True(t, second.closed)
	assert.False(t, known.closed || third.closed || fourth.closed)
	assert.Equal(t, 3, g.open)
}

// One address's flood pushes out its own connections only, however old a stranger from elsewhere is: that may be a caller who
// has not finished its handshake.
func TestAFloodFromOneAddressPushesOutItself(t *testing.T) {
	g := New(nil, 4)
	caller := come(t, g, "10.0.0.9:1")
	for range 100 {
		require.NotNil(t, come(t, g, "10.0.0.1:2"))
	}
	assert.False(t, caller.closed)
	assert.Equal(t, map[string]int{"10.0.0.9": 1, "10.0.0.1": 3}, g.from)
	for _, from := range []string{"a:1", "b:1", "c:1", "d:1"} {
		require.NotNil(t, come(t, g, from), "where no address has more than another, the oldest of all goes")
	}
	assert.True(t, caller.closed)
}

// When everybody inside is known, one more is turned away, and somebody who leaves makes room.
func TestAGateFullOfKnownPeersTurnsOneMoreAway(t *testing.T) {
	g := New(nil, 2)
	first, second := come(t, g, "a:1"), come(t, g, "a:1")
	first.Proven()
	second.Proven()
	first.Proven()
	require.Nil(t, come(t, g, "b:1"))
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	first.Proven()
	third := come(t, g, "b")
	require.NotNil(t, third)
	require.NoError(t, third.Close())
	require.NoError(t, second.Close())
	assert.Zero(t, g.open)
	assert.Zero(t, g.strangers.Len())
	assert.Empty(t, g.from)
}

// Accept itself: a full gate keeps accepting.
func TestAcceptNeverWaitsForRoom(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := New(l, 1)
	for range 3 {
		client, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		conn, err := g.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	assert.Equal(t, 1, g.open)
	assert.Equal(t, map[string]int{"127.0.0.1": 1}, g.from)
	require.NoError(t, g.Close())
	_, err = g.Accept()
	assert.ErrorIs(t, err, net.ErrClosed)
}

// What strangers hold together is bounded, and who holds little is not thrown out for who holds much.
func TestTheStrangerThatHoldsTheMostMakesRoom(t *testing.T) {
	g := New(nil, 10)
	g.Bytes = 100
	read := func(c *Conn, n int) {
		_, err := io.ReadAll(counted(With(t.Context(), c), strings.NewReader(strings.Repeat("x", n))))
		require.NoError(t, err)
	}
	modest, greedy, next, known := come(t, g, "a:1"), come(t, g, "b:1"), come(t, g, "c:1"), come(t, g, "d:1")
	known.Proven()
	read(modest, 10)
	read(known, 1000)
	read(greedy, 60)
	assert.False(t, modest.closed || greedy.closed || next.closed)
	read(next, 40)
	assert.True(t, greedy.closed)
	assert.False(t, modest.closed || next.closed || known.closed)
	assert.Equal(t, 50, g.held)
	Release(With(t.Context(), next))
	assert.Equal(t, 10, g.held)
	modest.Proven()
	assert.Zero(t, g.held)
	read(greedy, 1000)
	assert.Zero(t, g.held, "who was thrown out holds nothing")
	read(next, 101)
	assert.True(t, next.closed, "nobody may hold more than all")
	Release(t.Context())
	assert.Zero(t, g.held)
}

// A proof is told by a request's context, through TLS as without.
func TestAProofReachesTheGateThroughTLS(t *testing.T) {
	g := New(nil, 1)
	c := come(t, g, "a:1")
	Proven(With(t.Context(), tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS13})))
	assert.Nil(t, c.stranger)
	assert.Same(t, c, Of(c))
	bare, other := net.Pipe()
	assert.Nil(t, Of(bare))
	assert.Nil(t, Of(nil))
	Proven(With(t.Context(), bare))
	Proven(t.Context())
	require.NoError(t, bare.Close())
	require.NoError(t, other.Close())
}

// Nobody is answered on a connection that was closed to make room.
func TestARequestOnAClosedConnectionIsNotAnswered(t *testing.T) {
	g := New(nil, 2)
	c := come(t, g, "a:1")
	leave, ok := Enter(With(t.Context(), c))
	assert.True(t, ok)
	leave()
	require.NoError(t, c.Close())
	_, ok = Enter(With(t.Context(), c))
	assert.False(t, ok)
	leave, ok = Enter(t.Context())
	assert.True(t, ok, "without a gate")
	leave()
}

// Who has the lesser proof leaves room: beyond three quarters such a connection is like a stranger's.
func TestALesserProofLeavesRoom(t *testing.T) {
	g := New(nil, 4)
	all := []*Conn{come(t, g, "a:1"), come(t, g, "a:1"), come(t, g, "a:1"), come(t, g, "a:1")}
	for _, c := range all {
		ProvenLesser(With(t.Context(), c))
		ProvenLesser(With(t.Context(), c))
	}
	next := come(t, g, "b:1")
	require.NotNil(t, next)
	assert.True(t, all[3].closed)
	next.Proven()
	assert.Nil(t, come(t, g, "c:1"), "all that are left are known")
	all[0].Proven()
	assert.Equal(t, 2, g.lesser, "a better proof counts")
	all[0].ProvenLesser()
	for _, c := range append(all, next) {
		require.NoError(t, c.Close())
	}
	assert.Zero(t, g.lesser)
	ProvenLesser(t.Context())
}

// Of strangers who speak HTTP/2 there are few, however they begin to; others are not counted.
func TestFewStrangersSpeakHTTP2(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := New(l, 1000)
	t.Cleanup(func() { _ = g.Close() })
	speak := func(pieces ...string) *Conn {
		client, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		conn, err := g.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		for _, piece := range pieces {
			_, err := io.WriteString(client, piece)
			require.NoError(t, err)
			_, err = io.ReadFull(conn, make([]byte, len(piece)))
			require.NoError(t, err)
		}
		return conn.(*Conn)
	}
	post, known := speak("P", "OST / HTTP/1.1\r\nHost: x\r\n"), speak(preface)
	known.Proven()
	var all []*Conn
	for i := range MaxStrangersMultiplexed + 2 {
		if i%2 == 0 {
			all = append(all, speak(preface))
		} else {
			all = append(all, speak(preface[:1], preface[1:20], preface[20:]))
		}
	}
	for i, c := range all {
		assert.Equal(t, i < 2, c.closed, i)
	}
	assert.False(t, post.closed || known.closed)
}
