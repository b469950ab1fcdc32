package dial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hearthdev/hearth/runtime/process"
)

// KeyVariable is the environment variable that goose's server reads its key from.
const KeyVariable = "GOOSE_SERVER__SECRET_KEY"

// While a server starts it is asked again after a pause, which is doubled.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 250 * time.Millisecond
	exitLag    = time.Second // how long a process that is ending may outlive its connection
)

// Spec says how an agent is reached: a Command alone speaks on stdin and stdout; a Command with an Endpoint is a server that
// listens there; an Endpoint alone is the server of somebody else.
type Spec struct {
	Command  []string
	Env      []string // of the command, whole
	Marker   string   // see process.Spec
	Endpoint Endpoint
	// Key is that of somebody else's server; "" presents none. A server of ours gets a random one.
	Key string
	// Grace is what a process whose connection is lost has between SIGTERM and SIGKILL.
	Grace time.Duration
}

// Line is the way to one agent.
type Line struct {
	In  io.ReadCloser  // lines of the agent
	Out io.WriteCloser // lines to it; a Write that ends with a newline is a message
	// KeyLeft says why the key could not be taken out of the environment of a server of ours; nil if it was.
	KeyLeft error

	spec   Spec
	proc   *process.Process // nil for somebody else's server
	stream *stream          // nil for stdin and stdout
	cut    atomic.Bool      // the process lived on without its connection
}

// Open starts what is to be started and connects. It returns when a server answers; ctx bounds the waiting. The error is the
// process's end, the server's refusal, or what the last try failed with.
func Open(ctx context.Context, spec Spec) (*Line, error) {
	l := &Line{spec: spec}
	var err error
	switch {
	case spec.Endpoint.IsZero():
		err = l.start()
		if err == nil {
			l.In, l.Out = l.proc.Stdout, l.proc.Stdin
		}
		return l, err
	case len(spec.Command) > 0:
		err = l.serve(ctx)
	default:
		err = l.reach(ctx, spec.Key)
	}
	if err != nil {
		return nil, err
	}
	l.In, l.Out = l.stream, l.stream
	return l, nil
}

func (l *Line) start() (err error) {
	l.proc, err = process.Start(process.Spec{Command: l.spec.Command, Env: l.spec.Env, Marker: l.spec.Marker})
	return err
}

// serve starts the server with a key that nobody else has, and connects.
func (l *Line) serve(ctx context.Context) error {
	if err := vacant(ctx, l.spec.Endpoint); err != nil {
		return err
	}
	key := rand.Text()
	l.spec.Env = append(slices.Clone(l.spec.Env), KeyVariable+"="+key)
	if err := l.start(); err != nil {
		return err
	}
	go func() { // a server has nothing to say there, and must not wait for a reader
		_, _ = io.Copy(io.Discard, l.proc.Stdout)
		_ = l.proc.Stdout.Close()
	}()
	if err := l.reach(ctx, key); err != nil {
		return errors.Join(err, l.proc.End(context.WithoutCancel(ctx), l.spec.Grace))
	}
	l.KeyLeft = l.proc.Overwrite(KeyVariable)
	return nil
}

// vacant makes sure that whoever answers there later is the server that was started, and not one that was there before.
func vacant(ctx context.Context, e Endpoint) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", e.address.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("endpoint %s: the port is in use by another process", e)
	}
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", e, err)
	}
	return listener.Close()
}

// reach connects as soon as the server answers.
func (l *Line) reach(ctx context.Context, key string) error {
	pause := firstPause
	for {
		s, err := connect(ctx, l.spec.Endpoint, key, pingEvery)
		if err == nil {
			l.stream = s
			return nil
		}
		var refused *refusedError
		if errors.As(err, &refused) && refused.final() {
			return fmt.Errorf("agent at %s: %w", l.spec.Endpoint, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, maxPause)
		case <-l.Exited():
			timer.Stop()
			<-l.proc.Done()
			return l.proc.Err()
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("agent at %s: %w: %w", l.spec.Endpoint, context.Cause(ctx), err)
		}
	}
}

// Process is the agent's process; nil for somebody else's server.
func (l *Line) Process() *process.Process { return l.proc }

// Exited is closed when the agent's process has exited; never, for somebody else's server.
func (l *Line) Exited() <-chan struct{} {
	if l.proc == nil {
		return nil
	}
	return l.proc.Exited()
}

// Cause says why the line ended, once In has; it ends the process if that still lives, which is of no use without its line.
func (l *Line) Cause() error {
	if l.proc == nil {
		return fmt.Errorf("agent at %s: %w", l.spec.Endpoint, l.lost())
	}
	if l.stream != nil && !within(exitLag, l.proc.Exited()) {
		l.cut.Store(true)
		err := l.proc.End(context.Background(), l.spec.Grace)
		return errors.Join(fmt.Errorf("agent at %s: %w; its process was ended", l.spec.Endpoint, l.lost()), err)
	}
	if !within(l.spec.Grace, l.proc.Done()) {
		_ = l.proc.End(context.Background(), 0)
	}
	if err := l.proc.Err(); err != nil {
		return err
	}
	return errors.New("agent process closed its output and could not be ended")
}

// within waits for the event that long, and tells whether it came.
func within(d time.Duration, event <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-event:
		return true
	case <-timer.C:
		return false
	}
}

// lost is why the connection ended.
func (l *Line) lost() error {
	if why := l.stream.why(); errors.Is(why, errClosed) {
		return why
	} else if why != nil {
		return fmt.Errorf("the connection was lost: %w", why)
	}
	return errors.New("the connection was lost")
}

// How describes the end without the agent's own words, which may quote a goal.
func (l *Line) How() string {
	if l.proc == nil {
		return l.lost().Error()
	}
	var exit *process.ExitError
	switch {
	case l.cut.Load():
		return l.lost().Error()
	case errors.As(l.proc.Err(), &exit):
		return exit.Exit.String()
	default:
		return "unknown"
	}
}

// ErrBeside says what ending somebody else's server cannot do.
var ErrBeside = errors.New("the connection to the agent was closed; its server is not ours to end, so a tool that ran may still finish")

// End ends the agent: its process with everything it started, with SIGTERM and grace before SIGKILL, or the connection to
// somebody else's server; then the error is ErrBeside.
func (l *Line) End(ctx context.Context, grace time.Duration) error {
	if l.proc == nil {
		return errors.Join(ErrBeside, l.stream.Close())
	}
	return l.proc.End(ctx, grace)
}
