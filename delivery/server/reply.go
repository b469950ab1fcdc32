package server

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const jsonMediaType = "application/json"

// What a caller is asked to wait before it comes again, in seconds.
const (
	retryBusy        = 1
	retryUnavailable = 2
	retryDraining    = 5
	retryFull        = 30
)

// response is a response in memory: the answer covers all of it.
type response struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func newResponse() *response { return &response{header: http.Header{}, status: http.StatusOK} }

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
}

func (r *response) Write(b []byte) (int, error) {
	r.wrote = true
	return r.body.Write(b) //nolint:wrapcheck // memory does not fail
}

func (r *response) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	if r.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(r.body.Len()))
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()) // a caller that left is not an error
}

func write(w http.ResponseWriter, status int, mediaType string, v any) {
	b, err := wire.Encode(v)
	if err != nil {
		panic(err) // our own types always encode; the chain makes it a 500
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(b) //nolint:gosec // into memory, and it is JSON
}

func writeJSON(w http.ResponseWriter, status int, v any) { write(w, status, jsonMediaType, v) }

func writeProblem(w http.ResponseWriter, p *wire.Problem) {
	if seconds := retryAfter(p.Code); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	write(w, p.Status, wire.ProblemMediaType, p)
}

func problem(p *wire.Problem) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, p) }
}

func retryAfter(c wire.Code) int {
	switch c { //nolint:exhaustive // the others have no time after which it is worth asking again
	case wire.CodeBusy:
		return retryBusy
	case wire.CodeAgentUnavailable:
		return retryUnavailable
	case wire.CodeDraining:
		return retryDraining
	case wire.CodeJournalFull:
		return retryFull
	default:
		return 0
	}
}

// fault turns a journal's error into a refusal. Its text may name paths, so only the log has it.
func (s *Server) fault(err error) *wire.Problem {
	if errors.Is(err, journal.ErrFull) {
		s.cfg.Log.Error("the journal is full", "cause", err)
		return wire.NewProblem(wire.CodeJournalFull, "the journal is full; nothing was journalled")
	}
	s.cfg.Log.Error("the journal failed", "cause", err)
	return wire.NewProblem(wire.CodeInternal, "the journal failed")
}
