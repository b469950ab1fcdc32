//go:build faults

package faults_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// stranger answers as a Pod would that holds one attempt, with all that can be known of it but its keys, and keeps what it heard. It says
// that the attempt failed, and refuses every other one for good.
type stranger struct {
	addr     string
	met      atomic.Int64 // connections
	identity wire.Identity
	journal  string
	attempt  wire.Attempt

	mu   sync.Mutex
	said bytes.Buffer // what was said in HTTP
}

func newStranger(t *testing.T, pod *rig.Pod, run *hearthv1.AgentRun, scheme hearthv1.DeliveryScheme) *stranger {
	t.Helper()
	d, now := run.Status.Delivery, time.Now()
	s := &stranger{
		identity: wire.Identity{Namespace: run.Namespace, PodName: pod.Name, PodUID: string(pod.UID)}, journal: d.Journal,
		attempt: wire.Attempt{
			Run:     wire.RunRef{Namespace: run.Namespace, Name: run.Name, UID: string(run.UID)},
			Attempt: d.Attempt, Digest: d.Digest, State: wire.StateFinished, AcceptedAt: &now, StartedAt: &now, FinishedAt: &now,
			Envelope: &wire.Envelope{APIVersion: wire.ResultAPIVersion, Outcome: wire.OutcomeFailed, Reason: wire.ReasonRefused},
		},
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	l = counted{l, &s.met}
	if scheme == hearthv1.DeliveryHTTPS {
		keys, err := challenge.Derive(bytes.Repeat([]byte{7}, 32), s.identity.PodUID)
		require.NoError(t, err)
		l = tls.NewListener(l, pinned.Server(keys))
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(overheard{l, s}) })
	t.Cleanup(func() { _ = server.Close(); serving.Wait() })
	return s
}

// ServeHTTP answers what would change everything, were it believed.
func (s *stranger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	agent, capacity := wire.AgentInfo{State: wire.AgentReady}, wire.Capacity{Concurrency: 4, Queue: 4}
	status, answer := http.StatusOK, any(s.attempt)
	switch {
	case r.URL.Path == wire.ChallengePath:
		answer = wire.ChallengeAnswer{APIVersion: wire.APIVersion, Identity: s.identity, Boot: "another", Journal: s.journal,
			Agent: agent, Capacity: capacity, Versions: []string{wire.APIVersion}}
	case r.URL.Path == wire.RunsPath && r.Method == http.MethodGet:
		told := s.attempt
		told.Envelope = nil
		answer = wire.Changes{Revision: 1, Agent: agent, Capacity: capacity, Runs: []wire.Attempt{told}}
	case r.URL.Path == wire.RunsPath:
		status, answer = http.StatusBadRequest, wire.Malformed("/goal", "another one")
	}
	body, err := wire.Encode(answer)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (s *stranger) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// counted counts the connections that come.
type counted struct {
	net.Listener
	met *atomic.Int64
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.met.Add(1)
	}
	return c, err //nolint:wrapcheck // it is a listener, too
}

// overheard keeps what is read from connections, without their TLS.
type overheard struct {
	net.Listener
	by *stranger
}

func (l overheard) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // it is a listener, too
	}
	return ear{c, l.by}, nil
}

type ear struct {
	net.Conn
	by *stranger
}

func (c ear) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.said.Write(p[:n])
	return n, err //nolint:wrapcheck // it is a connection, too
}
