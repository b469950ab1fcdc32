// Package llm is a model that does what the goal says: an OpenAI-compatible chat server for tests and the
// demo, scripted by directives in the last user text. README.md lists them.
package llm

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	modelName = "test-model"
	maxBody   = 32 << 20
	titleText = "scripted conversation"
)

// Options configure a Server; the zero value is a server without a key, at real speed.
type Options struct {
	// APIKey, when set, is the bearer token without which requests are answered 401.
	APIKey string
	// Second is how long a second of slow takes; 0 means a second.
	Second time.Duration
}

// Server is the scripted model; it serves /v1/models, /v1/chat/completions, /gates/{name}, /tallies/{name}, /marks/{name} and /healthz.
type Server struct {
	options Options
	gates   gates
	tallies tallies
	marks   marks
	mux     *http.ServeMux
	turns   atomic.Int64
	answers atomic.Int64
}

// New returns a server that keeps nothing between requests but its open gates, tallies, marks and counters.
func New(options Options) *Server {
	if options.Second == 0 {
		options.Second = time.Second
	}
	s := &Server{options: options, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	s.mux.HandleFunc("GET /v1/models", s.keyed(s.models))
	s.mux.HandleFunc("POST /v1/chat/completions", s.keyed(s.complete))
	s.mux.HandleFunc("POST /gates/{name}", s.openGate)
	s.mux.HandleFunc("POST /tallies/{name}", s.tallies.add)
	s.mux.HandleFunc("GET /tallies/{name}", s.tallies.get)
	s.mux.HandleFunc("GET /marks/{name}", s.marks.get)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Sprintf("no %s %s here", r.Method, r.URL.Path))
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Turns counts the first requests of a script, so without those that carry tool results and without titles:
// how many goals were asked of this model. A client's retries count.
func (s *Server) Turns() int { return int(s.turns.Load()) }

// Open lets every script pass that waits or will wait at the gate of that name.
func (s *Server) Open(name string) { s.gates.open(name) }

func (s *Server) openGate(w http.ResponseWriter, r *http.Request) {
	if !s.gates.open(r.PathValue("name")) {
		writeError(w, http.StatusInsufficientStorage, "gate: too many gates")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) keyed(next http.HandlerFunc) http.HandlerFunc {
	want := []byte("Bearer " + s.options.APIKey)
	return func(w http.ResponseWriter, r *http.Request) {
		if s.options.APIKey != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			writeError(w, http.StatusUnauthorized, "Authorization: expected the server's key as bearer token")
			return
		}
		next(w, r)
	}
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	model := map[string]any{"id": modelName, "object": "model", "created": 0, "owned_by": "hearth"}
	// The client may be gone; nothing is left to tell it.
	_ = writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{model}})
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	asked := time.Now()
	var req request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&req); err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		writeError(w, status, "body: "+err.Error())
		return
	}
	goal, results := req.goal()
	if goal == "" {
		writeError(w, http.StatusBadRequest, "messages: expected a user message with text")
		return
	}
	script, err := s.script(goal, len(results))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	p := player{server: s, request: &req, asked: asked, sink: s.sink(w, &req)}
	if err := p.play(r.Context(), script, results); err != nil {
		s.broken(w, p.sink, err)
	}
}

func (s *Server) script(goal string, results int) ([]Directive, error) {
	if strings.Contains(goal, titleMark) {
		return []Directive{{Verb: VerbSay, Text: titleText}}, nil
	}
	if results == 0 {
		s.turns.Add(1)
	}
	return Parse(goal)
}

func (s *Server) sink(w http.ResponseWriter, req *request) sink {
	id := fmt.Sprintf("chatcmpl-%d", s.answers.Add(1))
	if req.Stream {
		return &streamed{w: w, head: newHead(id, "chat.completion.chunk", req.Model), withUse: req.StreamOptions.IncludeUsage}
	}
	return &whole{w: w, head: newHead(id, "chat.completion", req.Model)}
}

// broken ends an answer that failed: with its status while there is still time, else by cutting the
// connection, as a dying provider does.
func (s *Server) broken(w http.ResponseWriter, out sink, err error) {
	var failed statusError
	if errors.As(err, &failed) && !out.started() {
		writeError(w, failed.status, failed.text)
		return
	}
	panic(http.ErrAbortHandler)
}
