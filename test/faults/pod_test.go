//go:build faults

package faults_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Somebody else answers at the Pod's address, in the middle of a run and for new ones: it hears no goal, the running one goes on, the
// new one waits and says so, and both are recorded once the Pod is back.
func TestRow27_AStrangerAtTheAddressHearsNothingAndIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	home := net.JoinHostPort(pod.IP, "14100")
	file := filepath.Join(t.TempDir(), "go")
	running := w.Run("reviewer", "wait: "+file+" ;; say: first")
	w.Await(running, hearthv1.ReasonRunning)

	stranger := newStranger(t)
	pod.Proxy.Retarget(stranger.addr)
	pod.Proxy.Cut()
	waiting := w.Run("reviewer", "say: second-goal")
	w.Await(waiting, hearthv1.ReasonTargetUnreachable)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Nil(t, w.Get(running).Status.CompletionTime)
	assert.NotEmpty(t, stranger.heard())
	for _, word := range []string{"second-goal", "agent-runs", "token"} {
		assert.NotContains(t, stranger.heard(), word)
	}
	pod.Proxy.Retarget(home)
	pod.Proxy.Cut()
	for _, run := range []*hearthv1.AgentRun{running, waiting} {
		w.Await(run, "Succeeded")
		assert.Len(t, w.EffectsOf(run), 1)
	}
}

// stranger answers everybody with 200 and keeps what it heard.
type stranger struct {
	addr string
	mu   sync.Mutex
	said bytes.Buffer
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &stranger{addr: l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(5 * time.Second))
				buffer := make([]byte, 64<<10)
				n, _ := c.Read(buffer)
				s.mu.Lock()
				s.said.Write(buffer[:n])
				s.mu.Unlock()
				_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return s
}

func (s *stranger) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// The Pod is evicted in the middle of a run: its object is still there, Failed. The run ends with that, not with its deadline.
func TestRow47_AnEvictedPodsRunIsLostAtOnce(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer")
	pod := w.Ready("reviewer", 1)[0]
	run := w.Run("reviewer", "mute:")
	w.Await(run, hearthv1.ReasonRunning)
	from := time.Now()
	pod.Evict()
	got := w.Await(run, "TargetLost")
	assert.Less(t, time.Since(from), 30*time.Second)
	assert.Equal(t, pod.UID, got.Status.Delivery.PodUID)
	assert.Len(t, w.EffectsOf(run), 1)
	next := w.Await(w.Run("reviewer", "say: next"), "Succeeded")
	assert.NotEqual(t, pod.UID, next.Status.Delivery.PodUID)
}
