package endpoint

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/hearthdev/hearth/runtime/attach"
)

// Bounds of a client's message.
const (
	MaxMessageBytes     = 64 << 20
	MaxViewMessageBytes = 64 << 10 // who only watches has nothing long to say
	maxReasonBytes      = 123      // of a close frame
)

// HeaderConnection is what a connection is called (the transport's RFD).
const HeaderConnection = "Acp-Connection-Id"

// messageLimit is how long a message of a client may be.
func (e *Endpoint) messageLimit(access attach.Access) int64 {
	if access == attach.Steer {
		return e.cfg.longest
	}
	return min(e.cfg.longest, MaxViewMessageBytes)
}

// socket serves one client by WebSocket: a JSON-RPC message a text frame, from the first frame to the last.
func (e *Endpoint) socket(w http.ResponseWriter, r *http.Request, access attach.Access) {
	in, err := e.guests.enter(r, access, byWebSocket)
	if err != nil {
		turnAway(w, r, http.StatusServiceUnavailable, codeNoRoom, err.Error())
		return
	}
	defer e.guests.leave(in)
	s := &socket{guest: in, pace: e.cfg.pace, room: e.rooms.of(access), line: &line{now: e.cfg.Now, stall: e.cfg.pace.stall}, written: make(chan struct{})}
	w.Header().Set(HeaderConnection, in.id)
	s.conn, err = websocket.Accept(&takeover{w, s.line}, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it has answered
	}
	s.conn.SetReadLimit(e.messageLimit(access))
	var work sync.WaitGroup
	work.Go(s.write)
	work.Go(s.ping)
	work.Go(s.part)
	s.read()
	work.Wait()
}

// socket is one client's WebSocket. Whoever notices its end says why by ending the guest's context; part does the rest.
type socket struct {
	*guest
	pace pace
	room *room
	line *line
	conn *websocket.Conn
	// written is closed when nothing more is written for the agent.
	written chan struct{}
}

// read takes the client's messages until the connection ends.
func (s *socket) read() {
	hello := time.AfterFunc(s.pace.hello, func() { s.end(errHello) })
	defer hello.Stop()
	for {
		if err := s.take(hello); err != nil {
			s.end(readParting(err))
			return
		}
	}
}

// take takes the next message.
func (s *socket) take(hello *time.Timer) error {
	kind, body, err := s.conn.Reader(context.WithoutCancel(s.ctx))
	if err != nil {
		return err //nolint:wrapcheck // readParting tells them apart
	}
	message, taken, err := s.room.readAll(body)
	defer taken()
	switch {
	case err != nil:
		return err
	case kind != websocket.MessageText, s.ctx.Err() != nil:
		return nil // until part has said goodbye
	case !utf8.Valid(message):
		return errText
	}
	hello.Stop()
	s.Receive(message)
	return nil
}

func readParting(err error) *parting {
	var p *parting
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, websocket.ErrMessageTooBig):
		return &parting{websocket.StatusMessageTooBig, "the message is longer than this key may send"}
	default:
		return errLeft
	}
}

// write sends what there is for the client: messages that wait behind one another in one piece. The last of them writes it, within
// conn.Write: a ping must not come between, which would end the connection if it had to wait for long.
func (s *socket) write() {
	defer close(s.written)
	for {
		message, err := s.next()
		if err != nil {
			_ = s.line.release() // it ended between two messages
			return
		}
		left := len(message.Data) // and its frame is longer
		if s.More() {
			left = math.MaxInt
		}
		s.line.hold(left)
		err = s.conn.Write(context.WithoutCancel(s.ctx), websocket.MessageText, message.Data)
		if err != nil {
			s.end(errStalled)
			return
		}
	}
}

// ping asks for signs of life, so that proxies see some and the dead are noticed.
func (s *socket) ping() {
	every := time.NewTicker(s.pace.ping)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-s.ctx.Done():
			return
		}
		reads, behind := s.line.reads.Load(), s.line.writing.Load()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.pace.pong)
		err := s.conn.Ping(ctx)
		cancel()
		// A pong waits behind what the client is sending, and a ping behind what it is taking: the next one has the whole time.
		if err != nil && s.line.reads.Load() == reads && !behind && !s.line.writing.Load() {
			s.end(errDead)
			return
		}
	}
}

// part ends the connection once somebody said why. Who does not say goodbye in turn is not waited for.
func (s *socket) part() {
	<-s.ctx.Done()
	limit := time.AfterFunc(closeTimeout, func() { _ = s.line.Close() })
	defer limit.Stop()
	select {
	case <-s.written: // the last words
	case <-time.After(closeTimeout / 2):
	}
	why := s.why()
	_ = s.conn.Close(why.code, cut(why.text, maxReasonBytes))
	_ = s.line.Close()
}

// cut shortens a text to so many bytes of whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
