package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hearthdev/hearth/cli/forward"
)

// Limits of a bridge.
const (
	// DefaultRetryFor is how long a lost connection is dialled again.
	DefaultRetryFor = 5 * time.Minute

	inLimit      = MaxMessage // of lines that wait for the connection
	outLimit     = 16 << 20   // of messages that wait for the client to read them
	firstRetry   = 250 * time.Millisecond
	lastRetry    = 10 * time.Second
	dialTimeout  = 30 * time.Second
	loadTimeout  = time.Minute // for one step of coming back
	pingEvery    = 20 * time.Second
	stableAfter  = 10 * time.Second // a connection that lasted so long begins the count of tries again
	lingerAtEnd  = 2 * time.Second  // for answers that are under way when stdin ends
	closeTimeout = time.Second
	maxFrameSize = MaxMessage + 1<<20
)

// Target is an ACP endpoint.
type Target interface {
	// Dial connects to it. An error that trying again cannot cure is a Final one.
	Dial(ctx context.Context) (*websocket.Conn, error)
}

// placed is a Target that knows what its last connection leads to. Elsewhere a session of the same id may be another one.
type placed interface{ Place() string }

// Final is an error that trying again does not cure.
type Final = forward.Final

// Bridge copies messages between a client's stdin and stdout and an endpoint, and dials the endpoint again when the connection is lost.
type Bridge struct {
	Target Target
	// RetryFor is how long it tries to get a connection back; 0 for not at all.
	RetryFor time.Duration
	// Say takes what a person should know. It never gets what messages hold.
	Say func(format string, args ...any)

	mu     sync.Mutex
	memory *memory
	in     *queue
	out    *queue
	place  string // where the last connection led to, if that is known
}

// Run ends with stdin (nil), with the context, when stdout cannot be written, or when there is no connection to be had. It writes each
// message whole, in one call.
func (b *Bridge) Run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.memory, b.in, b.out = newMemory(), newQueue(inLimit), newQueue(outLimit)
	written := make(chan struct{})
	go func() {
		defer close(written)
		cancel(writeLines(ctx, b.out, stdout))
	}()
	go func() { // it may wait for stdin without end; the process's end is its end
		if err := readLines(ctx, stdin, b.in, func(answer []byte) error { return b.out.put(ctx, answer) }); err != nil {
			cancel(err)
		}
	}()
	err := b.serve(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	b.out.close()
	select {
	case <-written: // all was written
	case <-time.After(lingerAtEnd):
	}
	return err
}

// serve connects and copies until stdin ends.
func (b *Bridge) serve(ctx context.Context) error {
	tries := 0
	deadline, cancel := b.patience(ctx)
	defer func() { cancel() }()
	for lives := 0; ; lives++ {
		conn, err := b.connect(ctx, deadline, lives > 0, &tries)
		if err != nil {
			b.tell(ctx, b.disconnected())
			if errors.Is(err, errEnded) {
				return nil
			}
			return err
		}
		stable := make(chan struct{})
		timer := time.AfterFunc(stableAfter, func() { close(stable) })
		err = b.copy(ctx, conn)
		timer.Stop()
		if errors.Is(err, errEnded) {
			return nil
		}
		b.tell(ctx, b.disconnected())
		if ctx.Err() != nil || errors.As(err, new(Final)) || b.RetryFor == 0 {
			return err
		}
		b.Say("connection lost: %v", err)
		select {
		case <-stable:
			cancel()
			tries = 0
			deadline, cancel = b.patience(ctx)
		default:
		}
		if err := b.out.drained(ctx); err != nil { // who does not read is not shown more
			return err
		}
	}
}

// patience is how long a connection is tried for, from now on.
func (b *Bridge) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cmp.Or(b.RetryFor, dialTimeout), errors.New("--retry-for is over"))
}

// connect dials until there is a connection on which the client's sessions are open again. The error is errEnded when the client
// went away meanwhile.
func (b *Bridge) connect(ctx, deadline context.Context, again bool, tries *int) (*websocket.Conn, error) {
	deadline, cancel := context.WithCancelCause(deadline)
	defer cancel(nil)
	if again {
		go func() {
			if b.in.over(deadline) == nil {
				cancel(errEnded)
			}
		}()
	}
	for ; ; *tries++ {
		if *tries > 0 {
			wait := min(firstRetry<<min(*tries-1, 16), lastRetry)
			select {
			case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // so that many do not come at once
			case <-deadline.Done():
				return nil, context.Cause(deadline)
			}
		}
		conn, err := b.attempt(ctx, deadline, again)
		if err == nil {
			*tries++
			return conn, nil
		}
		if cause := context.Cause(deadline); cause != nil {
			return nil, fmt.Errorf("%w: %w", cause, err)
		}
		if errors.As(err, new(Final)) || b.RetryFor == 0 {
			return nil, err
		}
		b.Say("%v; trying again", err)
	}
}

func (b *Bridge) attempt(ctx, deadline context.Context, again bool) (*websocket.Conn, error) {
	dialCtx, cancel := context.WithTimeout(deadline, dialTimeout)
	defer cancel()
	conn, err := b.Target.Dial(dialCtx)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxFrameSize)
	place := b.place
	if t, ok := b.Target.(placed); ok {
		place = t.Place()
	}
	if again {
		if err := b.restore(ctx, deadline, conn, place != b.place); err != nil {
			_ = conn.CloseNow()
			return nil, err
		}
	}
	b.place = place
	return conn, nil
}

// copy copies both ways until one of them ends.
func (b *Bridge) copy(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	runs := []func(context.Context, *websocket.Conn) error{b.receive, b.send, ping(b.out)}
	ends := make(chan error, len(runs))
	var wait sync.WaitGroup
	for _, run := range runs {
		wait.Go(func() { ends <- run(ctx, conn) })
	}
	err := <-ends
	if errors.Is(err, errEnded) {
		late := time.AfterFunc(closeTimeout, cancel) // that ends the connection
		_ = conn.Close(websocket.StatusNormalClosure, "the client went away")
		late.Stop()
	}
	cancel()
	_ = conn.CloseNow()
	wait.Wait()
	return err
}

// receive takes what the endpoint sends. A client that does not read makes it stop reading.
func (b *Bridge) receive(ctx context.Context, conn *websocket.Conn) error {
	for {
		if _, err := b.receiveOne(ctx, conn); err != nil {
			return err
		}
	}
}

func (b *Bridge) receiveOne(ctx context.Context, conn *websocket.Conn) (frame, error) {
	kind, message, err := conn.Read(ctx)
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return frame{}, forward.Finally(fmt.Errorf("the endpoint sent a message of more than %d bytes", MaxMessage))
	case err != nil:
		return frame{}, err
	case kind != websocket.MessageText:
		return frame{}, nil
	}
	b.mu.Lock()
	f, shown := b.memory.fromServer(message)
	b.mu.Unlock()
	if shown != nil {
		err = b.out.put(ctx, shown)
	}
	return f, err
}

// send sends what the client says; at its end it waits a little for what is still to come.
func (b *Bridge) send(ctx context.Context, conn *websocket.Conn) error {
	for {
		line, err := b.in.take(ctx)
		if errors.Is(err, errEnded) {
			b.linger(ctx)
			return err
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		send, answer := b.memory.fromClient(line)
		b.mu.Unlock()
		if answer != nil {
			err = b.out.put(ctx, answer)
		}
		if send != nil {
			err = conn.Write(ctx, websocket.MessageText, send)
		}
		b.in.done()
		if err != nil {
			return err
		}
	}
}

// linger waits until the client's requests are answered, for a short while.
func (b *Bridge) linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lingerAtEnd)
	defer cancel()
	_ = b.out.wait(ctx, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.memory.quiet()
	})
}

func (b *Bridge) disconnected() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory.disconnected()
}

// tell shows the client messages of the bridge's own.
func (b *Bridge) tell(ctx context.Context, messages [][]byte) {
	for _, m := range messages {
		if b.out.put(ctx, m) != nil {
			return
		}
	}
}

// ping notices a connection that is none any more. A client that does not read keeps the answers from being read, and is no reason.
func ping(out *queue) func(context.Context, *websocket.Conn) error {
	return func(ctx context.Context, conn *websocket.Conn) error {
		ticks := time.NewTicker(pingEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			if out.stalled() {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, pingEvery)
			err := conn.Ping(limited)
			cancel()
			if err != nil && !out.stalled() {
				return fmt.Errorf("no answer to a ping: %w", err)
			}
		}
	}
}
