package netfault_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hearthdev/hearth/test/faults/netfault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer answers each line with itself and remembers what it heard.
type peer struct {
	net.Listener
	mu    sync.Mutex
	heard []string
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &peer{Listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = c.Close() }()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					p.mu.Lock()
					p.heard = append(p.heard, lines.Text())
					p.mu.Unlock()
					_, _ = io.WriteString(c, lines.Text()+"\n")
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return p
}

func (p *peer) hears(t *testing.T, lines ...string) {
	t.Helper()
	assert.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return assert.ObjectsAreEqual(lines, p.heard)
	}, 5*time.Second, time.Millisecond, "%q", lines)
}

type caller struct {
	*net.TCPConn
	t     *testing.T
	lines *bufio.Reader
}

func world(t *testing.T) (*netfault.Proxy, *peer) {
	t.Helper()
	server := newPeer(t)
	p, err := netfault.New("127.0.0.1:0", server.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, server
}

func dial(t *testing.T, p *netfault.Proxy) *caller {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &caller{TCPConn: c.(*net.TCPConn), t: t, lines: bufio.NewReader(c)}
}

func (c *caller) says(line string) {
	c.t.Helper()
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

func (c *caller) hears(line string) {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	got, err := c.lines.ReadString('\n')
	require.NoError(c.t, err)
	assert.Equal(c.t, line+"\n", got)
}

// hearsNothing for a moment: nothing came and nothing was closed.
func (c *caller) hearsNothing() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.lines.ReadString('\n')
	assert.ErrorIs(c.t, err, os.ErrDeadlineExceeded)
}

func (c *caller) ends(want error) {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err := c.lines.ReadString('\n')
	assert.ErrorIs(c.t, err, want)
}

func TestItPassesAndCounts(t *testing.T) {
	p, server := world(t)
	c := dial(t, p)
	c.says("one")
	c.hears("one")
	require.NoError(t, c.CloseWrite())
	c.ends(io.EOF)
	server.hears(t, "one")
	up, down := p.Bytes()
	assert.Equal(t, []int64{4, 4}, []int64{up, down})
	assert.Equal(t, 1, p.Connections())
	assert.Eventually(t, func() bool { return p.Open() == 0 }, 5*time.Second, time.Millisecond)
}

func TestRefuseResetsAndRefusesUntilItIsHealed(t *testing.T) {
	p, _ := world(t)
	c := dial(t, p)
	c.says("one")
	c.hears("one")
	p.Set(netfault.Refuse)
	c.ends(syscall.ECONNRESET)
	_, err := net.Dial("tcp", p.Addr())
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	p.Heal()
	c = dial(t, p)
	c.says("two")
	c.hears("two")
}

func TestABlackholeHoldsAllAndDeliversItLate(t *testing.T) {
	p, server := world(t)
	stands := dial(t, p)
	stands.says("one")
	stands.hears("one")
	p.Set(netfault.Blackhole)
	stands.says("two")
	stands.hearsNothing()
	late := dial(t, p)
	late.says("three")
	late.hearsNothing()
	hungUp := dial(t, p)
	hungUp.says("four")
	require.NoError(t, hungUp.Close())
	server.hears(t, "one")
	p.Heal()
	stands.hears("two")
	late.hears("three")
	assert.Eventually(t, func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return len(server.heard) == 4
	}, 5*time.Second, time.Millisecond)
	assert.Contains(t, server.heard, "four")
}

func TestDroppedRepliesAreLostAndTheirConnectionWithThem(t *testing.T) {
	p, server := world(t)
	c, idle := dial(t, p), dial(t, p)
	idle.says("before")
	idle.hears("before")
	p.Set(netfault.DropReplies)
	c.says("one")
	server.hears(t, "before", "one")
	c.hearsNothing()
	p.Heal()
	c.ends(syscall.ECONNRESET)
	idle.says("two")
	idle.hears("two")
}

func TestDelayIsInBothDirections(t *testing.T) {
	p, _ := world(t)
	c := dial(t, p)
	c.says("one")
	c.hears("one")
	p.Set(netfault.Delay(30 * time.Millisecond))
	from := time.Now()
	c.says("two")
	c.hears("two")
	assert.GreaterOrEqual(t, time.Since(from), 60*time.Millisecond)
}

func TestHalfCloseEndsTheRepliesOnly(t *testing.T) {
	p, server := world(t)
	c := dial(t, p)
	c.says("one")
	c.hears("one")
	p.Set(netfault.HalfClose)
	c.ends(io.EOF)
	c.says("two")
	server.hears(t, "one", "two")
	fresh := dial(t, p)
	fresh.ends(io.EOF)
	fresh.says("three")
	server.hears(t, "one", "two", "three")
}

func TestHalfOpenTellsTheServerOnly(t *testing.T) {
	p, server := world(t)
	c := dial(t, p)
	c.says("one")
	c.hears("one")
	p.Set(netfault.HalfOpen)
	c.says("two")
	c.hearsNothing()
	fresh := dial(t, p)
	fresh.says("three")
	fresh.hearsNothing()
	p.Heal()
	c.ends(syscall.ECONNRESET)
	fresh.ends(syscall.ECONNRESET)
	server.hears(t, "one")
}

func TestCutResetsWhatStandsAndServesTheNext(t *testing.T) {
	p, _ := world(t)
	c := dial(t, p)
	c.says("one")
	c.hears("one")
	other := newPeer(t)
	p.Retarget(other.Addr().String())
	c.says("two")
	c.hears("two")
	p.Cut()
	c.ends(syscall.ECONNRESET)
	c = dial(t, p)
	c.says("three")
	c.hears("three")
	other.hears(t, "three")
}

func TestATargetThatIsGoneResetsItsCallers(t *testing.T) {
	p, server := world(t)
	require.NoError(t, server.Close())
	c, err := net.Dial("tcp", p.Addr())
	if err == nil { // the reset may come while it is still dialling
		defer func() { _ = c.Close() }()
		_, err = c.Read(make([]byte, 1))
	}
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Eventually(t, func() bool { return p.Open() == 0 }, 5*time.Second, time.Millisecond)
}

// Whatever fault stands, Close ends all of it; goleak sees what stays.
func TestCloseEndsWhateverStands(t *testing.T) {
	for _, f := range []netfault.Fault{{}, netfault.Refuse, netfault.Blackhole, netfault.DropReplies, netfault.HalfClose, netfault.HalfOpen, netfault.Delay(time.Hour)} {
		p, _ := world(t)
		c := dial(t, p)
		c.says("one")
		c.hears("one")
		p.Set(f)
		_, err := io.WriteString(c, "two\n")
		if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			require.NoError(t, err)
		}
		if f != netfault.Refuse {
			dial(t, p).says("three")
		}
		p.Close()
		assert.Zero(t, p.Open())
		_, err = net.Dial("tcp", p.Addr())
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}
