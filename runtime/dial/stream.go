package dial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Bounds of a connection to an agent's server. How long a message may be is the reader's business: lines are read in parts.
const (
	pingEvery  = 20 * time.Second // a server that is asked and does not answer …
	maxMissed  = 3                // … so many times in a row, and sends nothing meanwhile, is gone
	writeLimit = time.Minute      // a part of a message that the server does not take
	frameBytes = 1 << 20          // a message is sent in frames of this size: goose takes none of more than 16 MiB
)

// headerKey is where goose's server reads its key from.
const headerKey = "X-Secret-Key"

// errClosed is why a stream ended that was closed on this side.
var errClosed = errors.New("the connection to the agent was closed")

// stream makes lines of a WebSocket's messages, and messages of lines.
type stream struct {
	conn  *websocket.Conn
	ctx   context.Context //nolint:containedctx // the connection's own life
	end   context.CancelCauseFunc
	moved atomic.Int64 // parts of messages read and written

	message io.Reader // being read
	newline bool      // is due after it
	part    []byte    // of a line that is being written
	life    sync.WaitGroup
}

// refusedError is an answer that is no WebSocket.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		return fmt.Sprintf("the server refused the key, %d %s: expected the same %s in both environments", e.status, http.StatusText(e.status), KeyVariable)
	}
	return fmt.Sprintf("the server answered %d %s instead of a WebSocket", e.status, http.StatusText(e.status))
}

// final tells an answer that will not change by itself.
func (e *refusedError) final() bool { return e.status >= 400 && e.status < 500 }

// client dials nothing but the address that it is given: no proxy, no redirect, and a connection of its own.
func client(e Endpoint) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, e.address.String())
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// connect opens a connection to the server; ctx bounds the handshake only.
func connect(ctx context.Context, e Endpoint, key string, every time.Duration) (*stream, error) {
	header := http.Header{}
	if key != "" {
		header.Set(headerKey, key)
	}
	conn, response, err := websocket.Dial(ctx, e.String(), &websocket.DialOptions{HTTPClient: client(e), HTTPHeader: header}) //nolint:bodyclose // its documentation: never needed
	if err != nil {
		if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
			return nil, &refusedError{status: response.StatusCode}
		}
		var op *net.OpError
		if errors.As(err, &op) { // without the library's own words around it
			err = op
		}
		return nil, err
	}
	conn.SetReadLimit(-1)
	s := &stream{conn: conn}
	s.ctx, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	s.life.Go(func() { s.watch(every) }) //nolint:contextcheck // it is the connection's own
	return s, nil
}

// Read reads messages as lines. Newlines within a message are white space of JSON's, and become spaces; what is no text is left out.
func (s *stream) Read(p []byte) (int, error) {
	for {
		switch {
		case len(p) == 0:
			return 0, nil
		case s.newline:
			s.newline, p[0] = false, '\n'
			return 1, nil
		case s.message == nil:
			kind, message, err := s.conn.Reader(s.ctx)
			if err != nil {
				return 0, s.lost(err)
			}
			if kind != websocket.MessageText {
				if _, err := io.Copy(io.Discard, message); err != nil {
					return 0, s.lost(err)
				}
				continue
			}
			s.message = message
		}
		n, err := s.message.Read(p)
		s.moved.Add(1)
		for i, b := range p[:n] {
			if b == '\n' || b == '\r' {
				p[i] = ' '
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			s.message, s.newline = nil, true
		case err != nil:
			return n, s.lost(err)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// Write sends each whole line as a message. It is called by one goroutine.
func (s *stream) Write(p []byte) (int, error) {
	rest := p
	for {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			s.part = append(s.part, rest...)
			return len(p), nil
		}
		if len(s.part) > 0 {
			line = append(s.part, line...)
			s.part = nil
		}
		if err := s.send(line); err != nil {
			return 0, s.lost(err)
		}
		rest = after
	}
}

// Close ends the connection at once; what it waits for is only its own.
func (s *stream) Close() error {
	s.end(errClosed)
	err := s.conn.CloseNow()
	s.life.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// why is the reason that the connection ended, after a Read or Write has failed.
func (s *stream) why() error { return context.Cause(s.ctx) }

// lost notes the first reason.
func (s *stream) lost(err error) error {
	var frame websocket.CloseError
	switch {
	case errors.As(err, &frame):
		err = fmt.Errorf("the server closed it with status %d", frame.Code)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		err = errors.New("the server closed it")
	}
	s.end(err)
	return io.ErrClosedPipe
}

// watch asks the server now and then whether it is there.
func (s *stream) watch(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		before := s.moved.Load()
		ctx, cancel := context.WithTimeout(s.ctx, every)
		err := s.conn.Ping(ctx)
		cancel()
		if err == nil || s.moved.Load() != before {
			missed = 0
			continue
		}
		if missed++; missed == maxMissed {
			s.end(fmt.Errorf("the server answered no ping for %s", maxMissed*every))
			_ = s.conn.CloseNow()
			return
		}
	}
}

// send sends one message in frames.
func (s *stream) send(line []byte) error {
	ctx, cancel := context.WithTimeoutCause(s.ctx, writeLimit, fmt.Errorf("the server took no part of a message for %s", writeLimit))
	defer cancel()
	if len(line) <= frameBytes {
		defer s.moved.Add(1)
		return s.conn.Write(ctx, websocket.MessageText, line)
	}
	w, err := s.conn.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for len(line) > 0 {
		n := min(len(line), frameBytes)
		if _, err := w.Write(line[:n]); err != nil {
			return err
		}
		s.moved.Add(1)
		line = line[n:]
	}
	return w.Close()
}
