package rig

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/internal/crashpoint"
)

// holds are the crash points at which processes are to be stopped: those of a World's controllers, or of one Pod.
type holds struct {
	mu   sync.Mutex
	held []*Hold
	seen map[crashpoint.Point]int
}

// Hold stops the next process that reaches a point, once.
type Hold struct {
	t     testing.TB
	point crashpoint.Point
	hit   chan *Hit
}

// Hit is a process that stands at a point.
type Hit struct {
	Point crashpoint.Point
	// Controller is the process if it is a controller, Pod its Pod if it is a harness.
	Controller *Controller
	Pod        *Pod

	process *process
	conn    net.Conn
	once    sync.Once
}

func (h *holds) hold(t testing.TB, p crashpoint.Point) *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := &Hold{t: t, point: p, hit: make(chan *Hit, 1)}
	h.held = append(h.held, held)
	return held
}

// take is the hold for a point, if there is one; it holds no more.
func (h *holds) take(p crashpoint.Point) *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[crashpoint.Point]int{}
	}
	h.seen[p]++
	i := slices.IndexFunc(h.held, func(x *Hold) bool { return x.point == p })
	if i < 0 {
		return nil
	}
	held := h.held[i]
	h.held = slices.Delete(h.held, i, i+1)
	return held
}

// count is how often a point was reached.
func (h *holds) count(p crashpoint.Point) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[p]
}

// Wait waits until a process stands at the point.
func (h *Hold) Wait() *Hit {
	h.t.Helper()
	select {
	case hit := <-h.hit:
		return hit
	case <-time.After(patience):
		require.Fail(h.t, fmt.Sprintf("no process came to %s", h.point))
		return nil
	}
}

// Go lets the process go on.
func (h *Hit) Go() { h.once.Do(func() { _, _ = h.conn.Write([]byte("go\n")); _ = h.conn.Close() }) }

// Panic has the code panic that stands at the point.
func (h *Hit) Panic() {
	h.once.Do(func() { _, _ = h.conn.Write([]byte("panic\n")); _ = h.conn.Close() })
}

// Kill ends the process where it stands, with SIGKILL.
func (h *Hit) Kill() {
	h.process.kill()
	h.once.Do(func() { _ = h.conn.Close() })
	if h.Controller != nil {
		h.Controller.ended()
	}
}

// socketVariable tells a process where to ask (crashpoint.Socket, which only builds for fault tests have).
const socketVariable = "CRASHPOINT_SOCKET"

// asks is the socket at which one process asks; it is served until ctx ends. meet says whose process it is.
func asks(ctx context.Context, dir string, meet func(*Hit), h *holds) (string, error) {
	path := filepath.Join(dir, "points")
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return "", fmt.Errorf("a crash point's socket: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn, meet, h)
		}
	}()
	return path, nil
}

// answer lets a process pass, or hands it to the test that holds the point.
func answer(conn net.Conn, meet func(*Hit), h *holds) {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		_ = conn.Close()
		return
	}
	hit := &Hit{Point: crashpoint.Point(strings.TrimSpace(line)), conn: conn}
	meet(hit)
	if held := h.take(hit.Point); held != nil {
		held.hit <- hit
		return
	}
	hit.Go()
}
