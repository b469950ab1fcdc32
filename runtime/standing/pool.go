// Package standing keeps agents standing: a pool of agent processes, each with its own process group, HOME and connection, that
// are started, greeted, given a session ahead of the next goal, and restarted when they end (SPEC.md, Harness).
package standing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/dial"
	"github.com/hearthdev/hearth/runtime/process"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
)

// Defaults and bounds of a pool.
const (
	MaxConcurrency         = 64
	DefaultStartTimeout    = time.Minute     // from the start of the process to its first session
	DefaultEndGrace        = 5 * time.Second // between SIGTERM and SIGKILL
	DefaultFirstBackoff    = time.Second     // before the first restart, doubled each time …
	DefaultMaxBackoff      = time.Minute     // … up to this
	DefaultMaxFailedStarts = 10              // of every slot in a row; then the pool gives up …
	DefaultMaxFirstStarts  = 3               // … sooner while no agent has ever stood: then it is the command, and people should be told
	healthyAfter           = time.Minute     // an agent that stood so long is restarted as if it had never failed
	settleLimit            = 2 * time.Second // how long processes of a cancelled turn may take to go away
	settleEvery            = 20 * time.Millisecond
	closeLimit             = 10 * time.Second // how long an agent may take to close a session that is over
)

// Config says which agent stands, and how. Zero durations and counts stand for the defaults.
type Config struct {
	Command     []string       // the agent's program and arguments; none: Endpoint is somebody else's server
	Env         []string       // its whole environment; HOME, the slot's marker and what makes the agent ask are added
	Endpoint    dial.Endpoint  // where Command listens, or somebody else's server; zero: Command speaks on stdin and stdout
	EndpointKey string         // of somebody else's server
	DataDir     string         // absolute; slots/ and work/ below it are the pool's
	Concurrency int            // agent processes, 1 to MaxConcurrency
	Permissions turn.Policy    // what permission questions are answered with
	Output      turn.MediaType // what a goal's output is to be; "" is text
	// Session is the session of a goal that asks for none; "" is a fresh one. Standing needs a concurrency of 1.
	Session wire.SessionMode
	Silence time.Duration
	Log     *slog.Logger
	Now     func() time.Time
	Version string // the harness's, told to the agent
	// Guests is where people attach; nil: nowhere.
	Guests Guests
	// Signals hear what becomes of agents and turns.
	Signals Signals
	// Opened is closed once agents may be announced and be given goals; until then they are started and greeted. nil: at once.
	Opened <-chan struct{}
	// OnChange is told every change of State, in order, one at a time. It must not call End.
	OnChange func(wire.AgentInfo)

	StartTimeout, CancelGrace, EndGrace, FirstBackoff, MaxBackoff time.Duration
	MaxFailedStarts, MaxFirstStarts                               int

	late time.Duration // lateWindow; longer where a test's agent is to be late on a busy machine
}

// Signals are told of agents and turns, for metrics and traces. What is nil hears nothing; none of them may block.
type Signals struct {
	Tracer    trace.Tracer                                            // of turns; nil: contexts are passed on as they came
	Up        func(agents int)                                        // that answer
	Restarted func()                                                  // an agent process is started that was started before
	Decided   func(decision, by string)                               // a permission question was answered: turn.Decision
	Turned    func(e wire.Envelope, took time.Duration, trace string) // turn.Runner.Turned
}

func (s Signals) settled(r *router.Request, result jsontext.Value, by any) {
	if s.Decided == nil {
		return
	}
	if decision, who := turn.Decision(r, result, by != nil); decision != "" {
		s.Decided(decision, who)
	}
}

func (c *Config) check() error {
	if len(c.Command) > 0 || c.Endpoint.IsZero() {
		if _, err := process.Look(c.Command, c.Env); err != nil {
			return err
		}
	}
	switch {
	case !c.Endpoint.IsZero() && c.Concurrency != 1:
		return fmt.Errorf("concurrency %d: expected 1 with an endpoint, which is one agent", c.Concurrency)
	case !filepath.IsAbs(c.DataDir):
		return fmt.Errorf("data directory %q: expected an absolute path", c.DataDir)
	case c.Concurrency < 1 || c.Concurrency > MaxConcurrency:
		return fmt.Errorf("concurrency %d: expected 1 to %d", c.Concurrency, MaxConcurrency)
	case c.Log == nil || c.Now == nil:
		return errors.New("a pool needs a log and a clock")
	}
	if err := c.checkSession(); err != nil {
		return err
	}
	policy, err := turn.ParsePolicy(string(c.Permissions))
	if err != nil {
		return err
	}
	output, err := turn.ParseMediaType(string(c.Output))
	if err != nil {
		return err
	}
	c.Permissions, c.Output = policy, output
	if c.Guests == nil {
		c.Guests = nobody{}
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.Silence, turn.DefaultSilence}, {&c.CancelGrace, turn.DefaultCancelGrace}, {&c.StartTimeout, DefaultStartTimeout},
		{&c.EndGrace, DefaultEndGrace}, {&c.FirstBackoff, DefaultFirstBackoff}, {&c.MaxBackoff, DefaultMaxBackoff}, {&c.late, lateWindow},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if c.MaxFailedStarts <= 0 {
		c.MaxFailedStarts = DefaultMaxFailedStarts
	}
	if c.MaxFirstStarts <= 0 {
		c.MaxFirstStarts = min(DefaultMaxFirstStarts, c.MaxFailedStarts)
	}
	return nil
}

func (c *Config) checkSession() error {
	switch c.Session {
	case "", wire.SessionFresh:
		return nil
	case wire.SessionStanding:
		if c.Concurrency != 1 {
			return fmt.Errorf("session standing: expected a concurrency of 1, got %d, because only one goal at a time can be remembered", c.Concurrency)
		}
		return nil
	}
	return fmt.Errorf("session %.32q: expected %s or %s", c.Session, wire.SessionFresh, wire.SessionStanding)
}

// Pool is the standing agents of one harness.
type Pool struct {
	cfg     Config
	turns   chan pending
	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
	home    *workshop

	hopeless atomic.Int32 // slots that failed to start an agent too many times in a row
	stood    atomic.Bool  // some agent has stood

	order sync.Mutex // held while a change is told, so that changes are told in order
	mu    sync.Mutex
	up    int // agents that answer
	info  wire.AgentInfo
}

// pending is one goal on its way to a free slot.
type pending struct {
	ctx    context.Context //nolint:containedctx // a turn belongs to its caller
	goal   turn.Goal
	start  func(session string) error
	answer chan answer
}

// answer is what a slot makes of it: the envelope, or that its agent is gone and another should take it.
type answer struct {
	envelope wire.Envelope
	again    bool
}

// New checks the configuration. It starts nothing. The errors name what is wrong and what was expected.
func New(cfg Config) (*Pool, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Pool{
		cfg: cfg, turns: make(chan pending), stop: make(chan struct{}), stopped: make(chan struct{}),
		home: newWorkshop(cfg.DataDir), info: wire.AgentInfo{State: wire.AgentStarting},
	}, nil
}

// errEnding is why turns end when the pool does.
var errEnding = errors.New("the harness is ending")

// Run starts the agents and keeps them standing. It returns nil after End or when ctx ends, with all agents ended; the
// error says that no slot could start an agent several times in a row, and why. It is called once.
func (p *Pool) Run(ctx context.Context) error {
	defer close(p.stopped)
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	reaped := make(chan error, 1)
	go func() { reaped <- process.Reap(reaping) }()
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.stop:
			cancel(errEnding)
		case <-running.Done():
		}
	}()
	group, groupCtx := errgroup.WithContext(running)
	for n := range p.cfg.Concurrency {
		group.Go(func() error { return newSlot(p, n).run(groupCtx) })
	}
	err := group.Wait()
	stopReaping()
	return errors.Join(err, <-reaped)
}

// End ends all agents, turns that run included, and waits until they are gone or ctx ends. Run must have been called.
func (p *Pool) End(ctx context.Context) error {
	p.once.Do(func() { close(p.stop) })
	select {
	case <-p.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the agents: %w", context.Cause(ctx))
	}
}

// errEnded is what goals get that come after the pool has ended.
var errEnded = errors.New("the agent is not available")

// Turn waits for a free agent and carries the goal out; see turn.Runner.Run. If ctx or the pool ends before there is an agent,
// start is not called and the envelope says so.
func (p *Pool) Turn(ctx context.Context, g turn.Goal, start func(session string) error) wire.Envelope {
	waiting := pending{ctx: ctx, goal: g, start: start, answer: make(chan answer, 1)}
	for ctx.Err() == nil {
		select {
		case p.turns <- waiting:
			if a := <-waiting.answer; !a.again { // bounded: the turn ends by ctx, and by the ladder
				return a.envelope
			}
			continue
		case <-ctx.Done():
		case <-p.stop:
		case <-p.stopped:
		}
		break
	}
	return turn.Unstarted(ctx, p.cfg.Now(), errEnded)
}

// State is what the agent says of itself and whether it can be given work.
func (p *Pool) State() wire.AgentInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// OpenDir makes a fresh directory for a session that is nobody's turn. It is kept until CloseDir and a while longer.
func (p *Pool) OpenDir() (string, error) { return p.home.open() }

// HoldDir says that a session that is nobody's turn is in this directory, whosever it is: until CloseDir it is not removed.
func (p *Pool) HoldDir(dir string) { p.home.hold(dir) }

// CloseDir takes one OpenDir or HoldDir back.
func (p *Pool) CloseDir(dir string) { p.home.close(dir) }

// rose and fell count the agents that answer.
func (p *Pool) rose(name, version string) {
	p.change(func() {
		p.up++
		p.info = wire.AgentInfo{Name: name, Version: version, State: wire.AgentReady}
	})
}

func (p *Pool) fell() {
	p.change(func() {
		if p.up--; p.up == 0 {
			p.info.State = wire.AgentDown
		}
	})
}

func (p *Pool) change(f func()) {
	p.order.Lock()
	defer p.order.Unlock()
	p.mu.Lock()
	before := p.info
	f()
	after, up := p.info, p.up
	p.mu.Unlock()
	if p.cfg.Signals.Up != nil {
		p.cfg.Signals.Up(up)
	}
	if after != before && p.cfg.OnChange != nil {
		p.cfg.OnChange(after)
	}
}
