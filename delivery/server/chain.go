package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/internal/gate"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Handler answers the wire contract. Its whole chain, in the contract's order (SPEC.md, Endpoints, order of checks), is
// ServeHTTP below and the handlers that routes lists: challenge well-formed, Host, size, proof, boot, [route] media type,
// version, decoding, target, journal, known attempt, draining, agent, capacity, disk.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.NotFound(problem(wire.NewProblem(wire.CodeNotFound, "no such endpoint")))
	r.MethodNotAllowed(problem(wire.NewProblem(wire.CodeMethodNotAllowed, "the endpoint knows no such method")))
	r.Post(wire.ChallengePath, s.challenge)
	r.Post(wire.RunsPath, s.deliver)
	r.Get(wire.RunsPath, s.changes)
	r.Get(wire.RunsPath+"/{uid}", s.attempt)
	r.Delete(wire.RunsPath+"/{uid}", s.cancel)
	r.Post(wire.RunsPath+"/{uid}"+wire.RecordedSuffix, s.recorded)
	return r
}

// serve buffers the response of the chain, because the answer covers its status and body, and signs it: refusals, unknown
// endpoints and recovered panics included. Only a request without a well-formed challenge gets no answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close") // net/http does not say whether there was a Content-Length, too (RFC 9112, 6.3)
	}
	nonces := r.Header.Values(wire.HeaderChallenge)
	if len(nonces) != 1 || !challenge.Valid(nonces[0]) {
		p := wire.Malformed(wire.HeaderChallenge, fmt.Sprintf("one challenge of %d characters", challenge.Length))
		reply := newResponse()
		writeProblem(reply, p)
		reply.send(w)
		s.cfg.Answered(endpoint(r), reply.status)
		return
	}
	asked := challenge.Request{
		Method: r.Method, Target: r.RequestURI, Challenge: nonces[0], Boot: r.Header.Get(wire.HeaderBoot),
		PodName: s.cfg.Identity.PodName, PodUID: s.cfg.Identity.PodUID,
	}
	reply := newResponse()
	defer func() { s.cfg.Answered(endpoint(r), reply.status) }()
	s.guarded(reply, w, r, asked)
	if r.Method == http.MethodHead {
		reply.body.Reset() // it is not sent, so the answer must not cover it
	}
	reply.Header().Set(wire.HeaderAnswer, s.cfg.Keys.Answer(asked, reply.status, reply.body.Bytes()))
	if crashpoint.Enabled {
		crashpoint.Reach(crashpoint.BeforeReply(kind(r)))
		defer crashpoint.Reach(crashpoint.AfterReply(kind(r)))
		defer func() { _ = http.NewResponseController(w).Flush() }()
	}
	reply.send(w)
}

// kind names a request as crash points do.
func kind(r *http.Request) string {
	switch {
	case r.URL.Path == wire.ChallengePath:
		return "challenge"
	case strings.HasSuffix(r.URL.Path, wire.RecordedSuffix):
		return "recorded"
	case r.Method == http.MethodPost:
		return "deliver"
	case r.Method == http.MethodDelete:
		return "cancel"
	case r.URL.Path == wire.RunsPath:
		return "changes"
	default:
		return "attempt"
	}
}

// endpoint names the call that a request is, whoever makes it.
func endpoint(r *http.Request) string {
	below := strings.HasPrefix(r.URL.Path, wire.RunsPath+"/")
	switch {
	case r.URL.Path == wire.ChallengePath && r.Method == http.MethodPost, r.URL.Path == wire.RunsPath && r.Method == http.MethodPost,
		r.URL.Path == wire.RunsPath && r.Method == http.MethodGet, below && (r.Method == http.MethodGet || r.Method == http.MethodDelete),
		below && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, wire.RecordedSuffix):
		return kind(r)
	}
	return "other"
}

// guarded turns a panic into a signed 500; the process lives (row 42). What panicked may hold a goal: only its type is logged.
func (s *Server) guarded(reply *response, w http.ResponseWriter, r *http.Request, asked challenge.Request) {
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("panic in a request", "method", r.Method, "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			*reply = *newResponse()
			writeProblem(reply, wire.NewProblem(wire.CodeInternal, "the harness failed"))
		}
	}()
	if p := s.authenticate(w, r, asked); p != nil {
		writeProblem(reply, p)
		return
	}
	s.handler.ServeHTTP(reply, r)
}

// authenticate does every check up to and including the boot. It leaves the body in memory as r.Body.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, asked challenge.Request) *wire.Problem {
	if gate.HostOf(r.Host) != s.cfg.Identity.PodName {
		return wire.NewProblem(wire.CodeMisdirected, "Host: expected the name of this Pod")
	}
	defer gate.Release(r.Context())
	body, err := gate.Body(w, r, wire.MaxBodyBytes)
	switch {
	case errors.Is(err, gate.ErrTooLarge):
		return wire.NewProblem(wire.CodeTooLarge, fmt.Sprintf("body: expected at most %d bytes", wire.MaxBodyBytes))
	case err != nil: // what did not arrive cannot be authenticated; 401 is never terminal for the caller
		return wire.NewProblem(wire.CodeUnauthenticated, "body: expected all of it")
	}
	asked.Body = body
	proofs := r.Header.Values(wire.HeaderProof)
	if len(proofs) != 1 || !s.cfg.Keys.VerifyProof(asked, proofs[0]) {
		return wire.NewProblem(wire.CodeUnauthenticated, wire.HeaderProof+": expected a valid proof of this request")
	}
	gate.Proven(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case r.URL.Path == wire.ChallengePath && asked.Boot != "":
		return wire.Malformed(wire.HeaderBoot, "none on a challenge")
	case r.URL.Path != wire.ChallengePath && asked.Boot != s.boot:
		return wire.NewProblem(wire.CodeBootChanged, "this is another boot of the harness: challenge again, then look")
	}
	return nil
}

// jsonBody is the body of a request that must be JSON (415 otherwise).
func jsonBody(r *http.Request) ([]byte, *wire.Problem) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != jsonMediaType || r.Header.Get("Content-Encoding") != "" {
		return nil, wire.NewProblem(wire.CodeUnsupportedMedia, "Content-Type: expected "+jsonMediaType+" without a Content-Encoding")
	}
	return allOf(r), nil
}

// noBody refuses a body where none is expected.
func noBody(r *http.Request) *wire.Problem {
	if len(allOf(r)) != 0 {
		return wire.Malformed("body", "none")
	}
	return nil
}

// allOf reads a body that authenticate left in memory.
func allOf(r *http.Request) []byte {
	b, _ := io.ReadAll(r.Body) // memory does not fail
	return b
}

// hold waits for a change, for at most a time, as long as few enough requests are held. False when there is nothing to wait for.
func (s *Server) hold(ctx context.Context, wait time.Duration, done func() bool) {
	if wait <= 0 || done() {
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return // a preference may be ignored (RFC 7240)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		changed := s.cfg.Journal.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-s.life.Done():
			return
		}
	}
}
