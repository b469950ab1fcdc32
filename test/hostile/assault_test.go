package hostile

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

const (
	// maxSockets is what both gates let in, and one each that is about to be let in.
	maxSockets = server.MaxConnections + endpoint.MaxConnections + 2
	// maxGrowth bounds the resident memory that any attack may cost, in bytes: what fits beside an agent in a small Pod.
	maxGrowth = 128 << 20
	// filesOfARun are files that a run may leave open for a moment: a pipe, a connection, the journal's.
	filesOfARun = 8
	probes      = 10
	// maxTries is how often a caller may be pushed out before its challenge has arrived; with nobody there it never is.
	maxTries = 10
	// tick is the pace of slow clients; again is when one that was thrown out comes again.
	tick  = time.Second
	again = 2 * tick
)

// attack is one way to be hostile. Begin returns when it is in full swing; it goes on until the assault's context ends.
type attack struct {
	name  string
	lasts time.Duration // at least, once in full swing
	begin func(*assault)
}

// assault is one attack under way.
type assault struct {
	*pod
	ctx     context.Context
	work    sync.WaitGroup
	clients atomic.Int64 // connections made
}

// raw connects without a handshake. The connection ends with the assault.
func (a *assault) raw(address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(a.ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	a.clients.Add(1)
	context.AfterFunc(a.ctx, func() { _ = conn.Close() })
	return conn, nil
}

// dial connects as far as somebody comes who has no secret: on the delivery port through the handshake, whoever is there.
func (a *assault) dial(address string) (net.Conn, error) {
	conn, err := a.raw(address)
	if err != nil || a.scheme == string(wire.SchemeHTTP) || address != a.delivery {
		return conn, err
	}
	shaken := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // a stranger
	if err := shaken.HandshakeContext(a.ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return shaken, nil
}

// front is one port and how many come to it.
type front struct {
	address string
	clients int
}

// both is as many at either port.
func (a *assault) both(n int) []front { return a.fronts(front{a.acp, n}, front{a.delivery, n}) }

// full is somewhat more at either port than it has room for.
func (a *assault) full() []front {
	return a.fronts(front{a.acp, endpoint.MaxConnections * 9 / 8}, front{a.delivery, server.MaxConnections * 9 / 8})
}

// fronts leaves port 4000 out where the scheme is HTTP: it is the same under both.
func (a *assault) fronts(all ...front) []front {
	if a.scheme == string(wire.SchemeHTTP) {
		return all[1:]
	}
	return all
}

// alone is as many at the delivery port.
func (a *assault) alone(n int) []front { return []front{{a.delivery, n}} }

// crowd is many clients. Each connects, acts, and when that ended comes again a while later. It returns when each has tried once.
func (a *assault) crowd(fronts []front, dial func(string) (net.Conn, error), act func(net.Conn)) {
	var tried sync.WaitGroup
	room := make(chan struct{}, 64) // handshakes at once: it is the harness that is to suffer
	for _, f := range fronts {
		for range f.clients {
			tried.Add(1)
			a.work.Go(func() {
				once := sync.OnceFunc(tried.Done)
				defer once()
				for a.ctx.Err() == nil {
					room <- struct{}{}
					conn, err := dial(f.address)
					<-room
					once()
					if err == nil {
						act(conn)
						_ = conn.Close()
					}
					a.pause(again)
				}
			})
		}
	}
	tried.Wait()
}

func (a *assault) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}

// suffer lets a pod endure an attack while probes and a run go on, and returns what it cost.
func (p *pod) suffer(t *testing.T, k attack) row {
	t.Helper()
	p.t = t
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := &assault{pod: p, ctx: ctx}
	r := row{attack: k.name, scheme: p.scheme, before: p.settled(measure{files: -1})}
	watched := make(chan measure, 1)
	go func() { watched <- p.watch(ctx) }()

	k.begin(a)
	swing := time.After(k.lasts)
	for range probes {
		took, err := p.probe()
		require.NoError(t, err, "a probe failed")
		r.slowestProbe = max(r.slowestProbe, took)
	}
	limit, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var err error
	r.tries, err = p.deliver(limit)
	require.NoError(t, err, p.log.String())
	assert.LessOrEqual(t, r.tries, maxTries, "strangers keep a caller out")
	require.NoError(t, p.healthy(limit), "port 4000 answers nobody")
	require.NoError(t, p.steers(limit), "who may steer does not get in")
	<-swing
	for range probes {
		took, err := p.probe()
		require.NoError(t, err, "a probe failed")
		r.slowestProbe = max(r.slowestProbe, took)
	}
	cancel()
	a.work.Wait()
	r.during, r.after, r.clients = <-watched, p.settled(r.before), int(a.clients.Load())

	require.True(t, p.alive(), "the harness ended: %s", p.log)
	assert.Len(t, agenttest.Effects(t, p.effects), p.runs, "the agent got what was delivered, and nothing else")
	assert.LessOrEqual(t, r.during.files, max(r.before.files, 0)+maxSockets+filesOfARun)
	assert.LessOrEqual(t, max(r.during.memory, r.after.memory)-r.before.memory, int64(maxGrowth), "bytes")
	return r
}

// watch measures until the context ends, and returns the highest of each.
func (p *pod) watch(ctx context.Context) measure {
	var most measure
	for {
		m := p.measure()
		most.files, most.memory = max(most.files, m.files), max(most.memory, m.memory)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return most
		}
	}
}

// settled waits until nobody is connected any more and the open files are those of before.
func (p *pod) settled(before measure) measure {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		m, sockets := p.measure(), p.sockets()
		if sockets == 0 && (before.files < 0 || m.files <= before.files+filesOfARun) {
			return m
		}
		require.True(p.t, time.Now().Before(deadline), "%d connections stay: %+v, before %+v", sockets, m, before)
		time.Sleep(10 * time.Millisecond)
	}
}
