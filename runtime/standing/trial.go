package standing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/hearthdev/hearth/runtime/dial"
	"github.com/hearthdev/hearth/runtime/process"
	"github.com/hearthdev/hearth/runtime/router"
)

// Trial is what came of starting an agent once, step by step as a pool does it, and of ending it. After the step that failed
// there are no more but the end.
type Trial struct {
	Start      error // it could not be started, or nobody answers at its endpoint
	Greeting   error // initialize was not answered as it has to be
	Agent      router.Agent
	Session    error // session/new was not
	Closing    error // session/close was not, by an agent that says it understands it
	KeyLeft    error // see dial.Line
	Broken     int64 // lines of its output that were no messages of the protocol
	Answered   bool  // it was greeted
	Opened     bool  // it has opened a session
	Ready      time.Duration
	Terminated time.Duration // from SIGTERM to its end with everything it started
	Killed     bool          // it had to be killed
	End        error         // something of it is left
	Gone       bool          // it had ended by itself before that
	Beside     bool          // it is somebody else's server, which was left
}

// Try starts an agent of this configuration once and ends it. Its home and work directories are thrown away. The error says that
// it could not even be tried.
func Try(ctx context.Context, cfg Config) (Trial, error) {
	if err := cfg.check(); err != nil {
		return Trial{}, err
	}
	dir, err := os.MkdirTemp(cfg.DataDir, "check-")
	if err != nil {
		return Trial{}, fmt.Errorf("data directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	reaped := make(chan error, 1)
	go func() { reaped <- process.Reap(reaping) }()
	t := try(ctx, &cfg, newWorkshop(dir))
	stopReaping()
	return t, <-reaped
}

func try(ctx context.Context, cfg *Config, home *workshop) (t Trial) {
	starting, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout, fmt.Errorf("no answer within %s", cfg.StartTimeout))
	defer cancel()
	began := cfg.Now()
	a, err := reachAgent(starting, cfg, home, 0)
	if err != nil {
		t.Start = err
		return t
	}
	defer func() { a.conclude(context.WithoutCancel(ctx), &t) }()
	t.KeyLeft = a.line.KeyLeft
	if t.Agent, t.Greeting = a.conn.Initialize(starting, cfg.Version); t.Greeting != nil {
		return t
	}
	t.Answered, a.info = true, t.Agent
	if t.Session = a.openSession(starting); t.Session != nil {
		return t
	}
	t.Opened, t.Ready = true, cfg.Now().Sub(began)
	if a.info.Closes {
		closing, stop := context.WithTimeoutCause(ctx, closeLimit, fmt.Errorf("no answer within %s", closeLimit))
		defer stop()
		_, t.Closing = a.conn.Call(closing, acp.AgentMethodSessionClose, acp.CloseSessionRequest{SessionId: acp.SessionId(a.session.ID)})
	}
	return t
}

// conclude ends the agent and tells how that went.
func (a *agent) conclude(ctx context.Context, t *Trial) {
	began := a.cfg.Now()
	t.Gone = a.gone()
	t.End = a.end(ctx)
	t.Terminated = a.cfg.Now().Sub(began)
	t.Broken = a.conn.Broken()
	if errors.Is(t.End, dial.ErrBeside) {
		t.Beside, t.End = true, nil
		return
	}
	var exit *process.ExitError
	t.Killed = !t.Gone && errors.As(a.line.Process().Err(), &exit) && exit.Exit.Signal == syscall.SIGKILL
}
