package kontext

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/hearthdev/hearth/internal/gate"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const jsonMediaType = "application/json"

// Handler answers the older contract. Its caller takes every status but 200 as the end of the run, and a connection that breaks
// as a reason to come again; so what is refused for now (busy, draining, no agent, not started) gets no answer at all.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// exchange is one request and what its answer needs.
type exchange struct {
	w         http.ResponseWriter
	r         *http.Request
	challenge string
	runUID    string // "" until it is known; an answer without a run is not signed
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r}
	defer func() {
		p := recover()
		switch err, _ := p.(error); {
		case p == nil:
		case errors.Is(err, http.ErrAbortHandler):
			panic(p) // hangs up
		default: // what panicked may hold a goal: only its type is logged
			s.cfg.Log.Error("panic in a request", "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			s.refuse(x, wire.NewProblem(wire.CodeInternal, "the harness failed"))
		}
	}()
	if len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close") // net/http does not say whether there was a Content-Length, too (RFC 9112, 6.3)
	}
	request, p := s.read(x) //nolint:contextcheck // the request's own, in x
	if p != nil {
		s.refuse(x, p)
		return
	}
	x.runUID = request.Run.UID
	select {
	case s.held <- struct{}{}:
		defer func() { <-s.held }()
	default:
		s.hangUp(x, errors.New("too many callers wait"))
	}
	// Nobody proves anything in this contract. Who waits for a run does not make room for others all the same: a flood of idle
	// connections would end runs. They are at most MaxHeld, and each ends with its answer.
	gate.Proven(r.Context())
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	envelope, err := s.deliver(r.Context(), request)
	switch problem := (*wire.Problem)(nil); {
	case err == nil:
		s.send(x, http.StatusOK, jsonMediaType, Encode(envelope))
	case errors.As(err, &problem):
		s.refuse(x, problem)
	default:
		s.hangUp(x, err)
	}
}

// read does every check that needs no journal, in the order of the wire's own: place, challenge, Host, size, media type, version,
// decoding, target.
func (s *Server) read(x *exchange) (Request, *wire.Problem) {
	r := x.r
	switch {
	case r.URL.Path != Path:
		return Request{}, wire.NewProblem(wire.CodeNotFound, "no such endpoint")
	case r.Method != http.MethodPost:
		x.w.Header().Set("Allow", http.MethodPost)
		return Request{}, wire.NewProblem(wire.CodeMethodNotAllowed, "the endpoint knows no such method")
	}
	nonces := r.Header.Values(HeaderChallenge)
	if len(nonces) != 1 || nonces[0] == "" || len(nonces[0]) > MaxChallengeBytes || !visible(nonces[0]) {
		return Request{}, wire.Malformed(HeaderChallenge, fmt.Sprintf("one challenge of 1 to %d visible ASCII characters", MaxChallengeBytes))
	}
	x.challenge = nonces[0]
	if gate.HostOf(r.Host) != s.cfg.Hostname {
		return Request{}, wire.NewProblem(wire.CodeMisdirected, "Host: expected the hostname of this Pod")
	}
	defer gate.Release(r.Context())
	body, err := gate.Body(x.w, r, wire.MaxBodyBytes)
	switch {
	case errors.Is(err, gate.ErrTooLarge):
		return Request{}, wire.NewProblem(wire.CodeTooLarge, fmt.Sprintf("body: expected at most %d bytes", wire.MaxBodyBytes))
	case err != nil:
		return Request{}, wire.Malformed("body", "all of it")
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != jsonMediaType || r.Header.Get("Content-Encoding") != "" {
		return Request{}, wire.NewProblem(wire.CodeUnsupportedMedia, "Content-Type: expected "+jsonMediaType+" without a Content-Encoding")
	}
	if r.URL.RawQuery != "" {
		return Request{}, wire.Malformed("query", "none")
	}
	request, p := Decode(body)
	if p == nil && request.Target.Name != s.cfg.Hostname {
		x.runUID = request.Run.UID
		p = wire.NewProblem(wire.CodeMisdirected, "/target/name: expected the hostname of this Pod")
	}
	return request, p
}

func (s *Server) refuse(x *exchange, p *wire.Problem) {
	body, err := wire.Encode(p)
	if err != nil {
		panic(err) // our own types always encode
	}
	s.send(x, p.Status, wire.ProblemMediaType, body)
}

// send answers, signed as soon as the run is known.
func (s *Server) send(x *exchange, status int, mediaType string, body []byte) {
	h := x.w.Header()
	if x.runUID != "" {
		h.Set(HeaderSignature, Sign(s.cfg.Token, x.challenge, x.runUID, body))
	}
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	_ = http.NewResponseController(x.w).SetWriteDeadline(s.cfg.Now().Add(writeTimeout))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) //nolint:gosec // JSON, and a caller that left is not an error
}

// hangUp breaks the connection without an answer, which makes the caller come again.
func (s *Server) hangUp(x *exchange, why error) {
	s.cfg.Log.Debug("hung up on a caller, who may come again", "runUID", x.runUID, "cause", why)
	panic(http.ErrAbortHandler)
}
