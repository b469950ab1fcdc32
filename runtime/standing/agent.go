package standing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coder/acp-go-sdk"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/dial"
	"github.com/hearthdev/hearth/runtime/process"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
)

// agent is one agent that was greeted, with the session that the next goal gets.
type agent struct {
	cfg   *Config
	home  *workshop
	line  *dial.Line
	conn  *router.Conn
	info  router.Agent
	born  time.Time
	ended atomic.Bool // by us, and not by itself

	session *router.Session // opened ahead for a goal in a fresh one; nil: none is
	dir     string          // its directory
	talk    *talk           // the standing session; nil: nobody has asked for one yet
	before  []process.ID    // what ran beside the agent when the session was opened, or the goal begun
	ask     func(question *router.Request, otherwise func())
}

// raise starts an agent and brings it to its first session.
func raise(ctx context.Context, cfg *Config, home *workshop, n int) (*agent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout, fmt.Errorf("no answer within %s", cfg.StartTimeout))
	defer cancel()
	a, err := reachAgent(ctx, cfg, home, n)
	if err != nil {
		return nil, err
	}
	if err := a.greet(ctx); err != nil {
		broken := a.conn.Broken()
		if ended := a.end(context.WithoutCancel(ctx)); !errors.Is(ended, dial.ErrBeside) {
			err = errors.Join(err, ended)
		}
		if broken > 0 {
			err = fmt.Errorf("%w (%d lines of its output were no messages of the Agent Client Protocol)", err, broken)
		}
		return nil, err
	}
	return a, nil
}

// reachAgent starts an agent, or finds it, and opens the connection.
func reachAgent(ctx context.Context, cfg *Config, home *workshop, n int) (*agent, error) {
	dir, err := home.home(n)
	if err != nil {
		return nil, err
	}
	line, err := dial.Open(ctx, dial.Spec{
		Command: cfg.Command, Env: environment(cfg, dir), Marker: fmt.Sprintf("%d-%s", n, rand.Text()),
		Endpoint: cfg.Endpoint, Key: cfg.EndpointKey, Grace: cfg.EndGrace,
	})
	if err != nil {
		return nil, err
	}
	if line.KeyLeft != nil {
		cfg.Log.Warn("agent: what it starts can read the key of its server", "cause", line.KeyLeft)
	}
	a := &agent{cfg: cfg, home: home, line: line, born: cfg.Now(), ask: func(r *router.Request, otherwise func()) { cfg.Guests.Ask(n, r, otherwise) }}
	a.conn = router.Open(router.Config{
		In: line.In, Out: line.Out, Cause: line.Cause, Now: cfg.Now, Watcher: cfg.Guests.Watch(n), Prefix: prefix(cfg, n),
		Settled: cfg.Signals.settled,
	})
	return a, nil
}

// prefix tells the sessions of several agents apart, who number them each for itself.
func prefix(cfg *Config, slot int) string {
	if cfg.Concurrency == 1 {
		return ""
	}
	return fmt.Sprintf("%d.", slot)
}

// greet brings the agent to its first session. The directory of a fresh one is made while the agent starts.
func (a *agent) greet(ctx context.Context) (err error) {
	dir := ""
	if a.cfg.Session != wire.SessionStanding {
		if dir, err = a.home.open(); err != nil {
			return err
		}
	}
	if a.info, err = a.conn.Initialize(ctx, a.cfg.Version); err != nil {
		if dir != "" {
			a.home.discard(dir)
		}
		return err
	}
	if a.info.Name == "" {
		a.info.Name = program(a.cfg)
	}
	if dir == "" {
		return a.resume(ctx)
	}
	return a.openSessionIn(ctx, dir)
}

// environment is the agent's: what was given, a HOME of its own, and what makes it ask for permission. Of two values for one
// name the later counts.
func environment(cfg *Config, home string) []string {
	return slices.Concat(cfg.Env, []string{"HOME=" + home}, turn.Environment(program(cfg), cfg.Env))
}

// program is what the agent is known by before it says its name.
func program(cfg *Config) string {
	if len(cfg.Command) == 0 {
		return cfg.Endpoint.String()
	}
	return filepath.Base(cfg.Command[0])
}

// openSession opens the session that the next goal in a fresh one gets, and notes what runs beside the agent then.
func (a *agent) openSession(ctx context.Context) error {
	dir, err := a.home.open()
	if err != nil {
		return err
	}
	if err := a.openSessionIn(ctx, dir); err != nil {
		return err
	}
	a.before = a.processes()
	return nil
}

func (a *agent) openSessionIn(ctx context.Context, dir string) error {
	session, err := a.conn.NewSession(ctx, dir)
	if err != nil {
		a.home.discard(dir)
		return err
	}
	a.session, a.dir = session, dir
	return nil
}

// takeSession is the session that was opened ahead, or a new one.
func (a *agent) takeSession(ctx context.Context) (*router.Session, string, error) {
	if a.session == nil {
		if err := a.openSession(ctx); err != nil {
			return nil, "", err
		}
	}
	session, dir := a.session, a.dir
	a.session, a.dir = nil, ""
	return session, dir, nil
}

// closeSession lets go of a session that was used, at the agent too if it can.
func (a *agent) closeSession(ctx context.Context, session *router.Session, dir string) {
	a.home.close(dir)
	if !a.info.Closes {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	_, _ = a.conn.Call(ctx, acp.AgentMethodSessionClose, acp.CloseSessionRequest{SessionId: acp.SessionId(session.ID)})
}

// end ends the process with everything it started, or leaves somebody else's server; it is bounded in time. The error is
// dial.ErrBeside in the second case.
func (a *agent) end(ctx context.Context) error {
	if !a.gone() {
		a.ended.Store(true)
	}
	err := a.line.End(ctx, a.cfg.EndGrace)
	a.conn.Close()
	<-a.conn.Done()
	return err
}

// gone tells whether the agent has ended by itself, so that a goal is not given to one that cannot even begin.
func (a *agent) gone() bool {
	select {
	case <-a.line.Exited():
		return true
	case <-a.conn.Done():
		return true
	default:
		return false
	}
}

// pid is the number of the agent's process; 0 for somebody else's server.
func (a *agent) pid() int {
	if p := a.line.Process(); p != nil {
		return p.PID()
	}
	return 0
}

// processes are those that run beside the agent; none that can be seen, for somebody else's server.
func (a *agent) processes() []process.ID {
	if p := a.line.Process(); p != nil {
		return p.Descendants()
	}
	return nil
}

// seat is the place of a turn in a session; memory is nil where it is used once.
func (a *agent) seat(session *router.Session, memory *turn.Memory) turn.Seat {
	return turn.Seat{
		Session: session, Memory: memory, Agent: a.info.Name, LastHeard: a.conn.LastHeard, Census: a.census, Settled: a.settled, End: a.end, Ask: a.ask,
	}
}

func (a *agent) census() { a.processes() }

// settled waits a moment until nothing runs that was not there when the session was opened, and tells whether that came.
func (a *agent) settled(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		strays := slices.ContainsFunc(a.processes(), func(id process.ID) bool { return !slices.Contains(a.before, id) })
		if !strays {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}
