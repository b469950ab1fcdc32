package endpoint

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/attach"
)

// HeaderSession is the session that a request or a stream is about (the transport's RFD).
const HeaderSession = "Acp-Session-Id"

// maxNameBytes bounds the header that names a session.
const maxNameBytes = 1 << 10

// Codes of problems that only clients of the agent get.
const (
	codeNoRoom    wire.Code = "no_room"
	codeTaken     wire.Code = "stream_taken"
	codeBatch     wire.Code = "batch"
	codeTimeout   wire.Code = "timeout"
	mediaJSON               = "application/json"
	mediaEvents             = "text/event-stream"
	methodInitial           = "initialize"
)

// streamable is the transport by HTTP requests: the client posts its messages and reads the agent's from event streams.
type streamable struct {
	*Endpoint

	mu   sync.Mutex
	open map[string]*connection
}

func (s *streamable) serve(w http.ResponseWriter, r *http.Request, access attach.Access) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r, access)
	case http.MethodGet:
		s.get(w, r, access)
	case http.MethodDelete:
		if c := s.find(w, r, access); c != nil {
			c.end(errLeft)
			<-c.over
			w.WriteHeader(http.StatusAccepted)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		turnAway(w, r, http.StatusMethodNotAllowed, wire.CodeMethodNotAllowed, "expected GET, POST or DELETE")
	}
}

// find is the connection that a request names, with the key that it was made with; without one it has answered.
func (s *streamable) find(w http.ResponseWriter, r *http.Request, access attach.Access) *connection {
	id := r.Header.Get(HeaderConnection)
	if id == "" {
		turnAway(w, r, http.StatusBadRequest, wire.CodeMalformed, HeaderConnection+": expected the one that the answer to initialize had")
		return nil
	}
	if len(r.Header.Get(HeaderSession)) > maxNameBytes {
		turnAway(w, r, http.StatusBadRequest, wire.CodeMalformed, HeaderSession+": expected a session's id")
		return nil
	}
	s.mu.Lock()
	c := s.open[id]
	s.mu.Unlock()
	if c == nil || c.access != access || c.ctx.Err() != nil {
		turnAway(w, r, http.StatusNotFound, wire.CodeUnknown, HeaderConnection+": no such connection: it has ended, or was made with another key")
		return nil
	}
	return c
}

// get opens a stream: the connection's, or that of one session.
func (s *streamable) get(w http.ResponseWriter, r *http.Request, access attach.Access) {
	if !accepts(r, mediaEvents) {
		turnAway(w, r, http.StatusNotAcceptable, "not_acceptable", "expected Accept: "+mediaEvents+", or a WebSocket upgrade")
		return
	}
	c := s.find(w, r, access)
	if c == nil {
		return
	}
	st := c.take(r.Header.Get(HeaderSession))
	if st == nil {
		turnAway(w, r, http.StatusConflict, codeTaken, "this stream is open already")
		return
	}
	defer c.drop(st)
	(&events{w: w, flow: http.NewResponseController(w), now: s.cfg.Now, pace: s.cfg.pace}).serve(r.Context(), c, st)
}

func accepts(r *http.Request, media string) bool {
	for _, value := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(value, ",") {
			if got, _, err := mime.ParseMediaType(one); err == nil && got == media {
				return true
			}
		}
	}
	return false
}

// post takes one message. An initialize without a connection begins one.
func (s *streamable) post(w http.ResponseWriter, r *http.Request, access attach.Access) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != mediaJSON {
		turnAway(w, r, http.StatusUnsupportedMediaType, wire.CodeUnsupportedMedia, "Content-Type: expected "+mediaJSON)
		return
	}
	var c *connection
	if len(r.Header.Values(HeaderConnection)) > 0 {
		if c = s.find(w, r, access); c == nil {
			return
		}
	}
	body, taken, ok := s.body(w, r, access)
	defer taken()
	if !ok {
		return
	}
	m, err := parseMessage(body)
	switch {
	case errors.Is(err, errBatch):
		refuse(w, http.StatusNotImplemented, codeBatch, err.Error())
	case err != nil:
		refuse(w, http.StatusBadRequest, wire.CodeMalformed, err.Error())
	case c == nil && (m.method != methodInitial || !m.id):
		refuse(w, http.StatusBadRequest, wire.CodeMalformed, HeaderConnection+": expected the one that the answer to initialize had; only initialize, with an id, comes without")
	case c == nil:
		s.initialize(w, r, access, body)
	case m.method == methodInitial:
		refuse(w, http.StatusBadRequest, wire.CodeMalformed, HeaderConnection+": this connection is initialized already")
	case m.session != "" && m.session != r.Header.Get(HeaderSession):
		refuse(w, http.StatusBadRequest, wire.CodeMalformed, HeaderSession+": expected the message's sessionId")
	default:
		c.receive(body)
		w.WriteHeader(http.StatusAccepted)
	}
}

// body reads a message; without one it has answered.
func (s *streamable) body(w http.ResponseWriter, r *http.Request, access attach.Access) (body []byte, taken func(), ok bool) {
	limit := s.messageLimit(access)
	if r.ContentLength > limit {
		turnAway(w, r, http.StatusRequestEntityTooLarge, wire.CodeTooLarge, fmt.Sprintf("expected at most %d bytes with this key", limit))
		return nil, func() {}, false
	}
	flow := http.NewResponseController(w)
	_ = flow.SetReadDeadline(s.cfg.Now().Add(s.cfg.pace.body))
	body, taken, err := s.rooms.of(access).readAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, taken, true
	case errors.As(err, &tooLarge):
		turnAway(w, r, http.StatusRequestEntityTooLarge, wire.CodeTooLarge, fmt.Sprintf("expected at most %d bytes with this key", limit))
	case errors.Is(err, errCrowded):
		w.Header().Set("Retry-After", "1")
		turnAway(w, r, http.StatusServiceUnavailable, codeNoRoom, errCrowded.text)
	case errors.Is(err, os.ErrDeadlineExceeded):
		turnAway(w, r, http.StatusRequestTimeout, codeTimeout, "the message did not arrive in time")
	default:
		turnAway(w, r, http.StatusBadRequest, wire.CodeMalformed, "the message did not arrive whole")
	}
	return nil, taken, false
}

// initialize begins a connection and answers with the agent's answer.
func (s *streamable) initialize(w http.ResponseWriter, r *http.Request, access attach.Access, body []byte) {
	in, err := s.guests.enter(r, access, byStreamable)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, codeNoRoom, err.Error())
		return
	}
	c := newConnection(in, s.cfg.pace)
	s.mu.Lock()
	s.open[in.id] = c
	s.mu.Unlock()
	go func() { //nolint:contextcheck // a client outlives its request
		c.pump()
		s.mu.Lock()
		delete(s.open, in.id)
		s.mu.Unlock()
		s.guests.leave(in)
		close(c.over)
	}()
	c.receive(body)
	timeout := time.NewTimer(s.cfg.pace.hello)
	defer timeout.Stop()
	var answer []byte
	select {
	case answer = <-c.first:
	case <-timeout.C:
		c.end(errHello)
	case <-r.Context().Done():
		c.end(errLeft)
	case <-c.ctx.Done():
	}
	if answer == nil {
		refuse(w, http.StatusServiceUnavailable, wire.CodeAgentUnavailable, c.why().text)
		return
	}
	w.Header().Set(HeaderConnection, in.id)
	w.Header().Set("Content-Type", mediaJSON)
	w.Header().Set("Cache-Control", "no-store")
	if err := writeAll(w, http.NewResponseController(w), s.cfg.Now, s.cfg.pace.stall, answer); err != nil {
		c.end(errLeft) // it does not know what its connection is called
	}
}

// writeAll writes in pieces, each of which the client has to take in time.
func writeAll(w io.Writer, flow *http.ResponseController, now func() time.Time, stall time.Duration, data []byte) error {
	for piece := range slices.Chunk(data, pieceBytes) {
		if err := flow.SetWriteDeadline(now().Add(stall)); err != nil {
			return fmt.Errorf("deadline: %w", err)
		}
		if _, err := w.Write(piece); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
