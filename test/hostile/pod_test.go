// Package hostile attacks the harness as a process of its own, on both its ports, and looks whether probes pass, work is still
// delivered, and what the attack cost (R31, R57; fault row 40; SPEC.md, Limits).
package hostile

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/test/agent/agenttest"
	"github.com/hearthdev/hearth/test/process"
)

const (
	patience = process.Patience
	viewKey  = "view-key-0123456789-0123456789-0123456789"
	steerKey = "steer-key-0123456789-0123456789-0123456789"
	// neededFiles is what the largest crowd takes in this process, both ports together.
	neededFiles = 5120
)

var binary string

func TestMain(m *testing.M) { process.Main(m, &binary) }

// moreFiles lets this process hold a crowd.
func moreFiles(t *testing.T) {
	t.Helper()
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur >= neededFiles {
		return
	}
	limit.Cur, limit.Max = neededFiles, max(limit.Max, neededFiles)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit), "this test needs %d open files: raise the hard limit", neededFiles)
}

// pod is one harness process with a scripted agent.
type pod struct {
	process.Pod
	t             *testing.T
	scheme        string
	cmd           *exec.Cmd
	log           *process.Output
	exit          chan struct{} // closed when it ended
	acp, delivery string        // addresses
	boot, effects string
	runs          int // delivered so far
}

func start(t *testing.T, scheme string) *pod {
	t.Helper()
	p := &pod{
		Pod: process.NewPod(t), t: t, scheme: scheme, log: process.NewOutput(), exit: make(chan struct{}), effects: filepath.Join(t.TempDir(), "effects"),
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, "serve", "--delivery-scheme", scheme, "--", agenttest.Build(t))
	p.cmd.Env = append(p.Environ(), "AGENT_EFFECTS_FILE="+p.effects, "HEARTH_ACP_VIEW_KEY="+viewKey, "HEARTH_ACP_STEER_KEY="+steerKey)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p.log, p.log, 5*time.Second
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.exit)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exit
		for _, secret := range []string{process.Token, viewKey, steerKey} {
			assert.NotContains(t, p.log.String(), secret, "I8")
		}
	})
	p.delivery = p.log.Await(t, `delivery: listening"? addr=(\S+)`)
	p.acp = p.log.Await(t, `acp: listening"? addr=(\S+)`)
	return p
}

// alive tells whether the process that was started still runs.
func (p *pod) alive() bool {
	select {
	case <-p.exit:
		return false
	default:
		return true
	}
}

// probe is what kubelet does: a TCP connection to port 4000. It returns how long it took.
func (p *pod) probe() (time.Duration, error) {
	began := time.Now()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(p.t.Context(), "tcp", p.acp)
	if err != nil {
		return 0, err
	}
	return time.Since(began), conn.Close()
}

// healthy waits until port 4000 answers, which a connection alone does not show: the kernel completes it. On that port everybody
// without a key is a stranger, so the one who asks may be thrown out, and asks again.
func (p *pod) healthy(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.acp+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("/healthz answered %d", response.StatusCode)
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// steers waits until who may steer gets in and is answered, whoever else is there. Until the key has arrived it may be thrown out.
func (p *pod) steers(ctx context.Context) error {
	for {
		err := p.steer(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (p *pod) steer(ctx context.Context) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+p.acp+endpoint.PathACP+"?token="+steerKey, nil) //nolint:bodyclose // websocket.Dial says that it needs no closing
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)); err != nil {
		return err
	}
	_, _, err = conn.Read(ctx)
	return err
}
