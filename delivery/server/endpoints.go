package server

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// challenge answers who this is, in which boot, and what it can take.
func (s *Server) challenge(w http.ResponseWriter, r *http.Request) {
	body, p := jsonBody(r)
	if p != nil {
		writeProblem(w, p)
		return
	}
	request, p := wire.DecodeChallenge(body)
	if p == nil {
		_, p = query(r)
	}
	if p == nil {
		p = delivery.Misdirected(s.cfg.Identity, request.Target)
	}
	if p != nil {
		writeProblem(w, p)
		return
	}
	writeJSON(w, http.StatusOK, wire.ChallengeAnswer{
		APIVersion: wire.APIVersion, Identity: s.cfg.Identity, Boot: s.boot, Journal: s.cfg.Journal.ID(),
		Harness: wire.HarnessInfo{Version: s.cfg.Version}, Agent: s.agent(), Capacity: s.capacity(), Versions: []string{wire.APIVersion},
	})
}

// changes is the feed: held, when preferred, until something changed.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	q, p := query(r, wire.QuerySince)
	if p == nil {
		p = noBody(r)
	}
	var since int64
	if text, given := q[wire.QuerySince]; given && p == nil {
		var err error
		if since, err = strconv.ParseInt(text, 10, 64); err != nil || since < 0 || since > s.cfg.Journal.Revision() {
			p = wire.Malformed(wire.QuerySince, "a revision of this boot, or 0")
		}
	}
	if p != nil {
		writeProblem(w, p)
		return
	}
	s.hold(r.Context(), preferredWait(r), func() bool { return s.cfg.Journal.Revision() > since })
	agent, capacity := s.agent(), s.capacity()
	page, err := s.cfg.Journal.Changes(since, wire.MaxPageBytes-frameBytes)
	if err != nil {
		writeProblem(w, s.fault(err))
		return
	}
	writeJSON(w, http.StatusOK, wire.Changes{Revision: page.Revision, Agent: agent, Capacity: capacity, Runs: page.Runs, More: page.More})
}

// frameBytes is room for everything in a page that is not a run.
const frameBytes = 16 << 10

// attempt is one attempt, with its envelope when finished.
func (s *Server) attempt(w http.ResponseWriter, r *http.Request) {
	key, _, p := attemptKey(r)
	if p == nil {
		p = noBody(r)
	}
	if p != nil {
		writeProblem(w, p)
		return
	}
	s.writeAttempt(w, http.StatusOK, key)
}

func (s *Server) writeAttempt(w http.ResponseWriter, status int, key journal.Key) {
	entry, err := s.cfg.Journal.Get(key)
	switch {
	case errors.Is(err, journal.ErrUnknown):
		writeProblem(w, s.unknown())
	case err != nil:
		writeProblem(w, s.fault(err))
	default:
		writeJSON(w, status, entry.Attempt)
	}
}

// unknown carries the journal's ID: unknown in another journal does not mean that it never ran.
func (s *Server) unknown() *wire.Problem {
	p := wire.NewProblem(wire.CodeUnknown, "no such attempt")
	p.Journal = s.cfg.Journal.ID()
	return p
}

// recorded marks an attempt as recorded.
func (s *Server) recorded(w http.ResponseWriter, r *http.Request) {
	key, _, p := attemptKey(r)
	if p == nil {
		p = noBody(r)
	}
	if p == nil {
		p = s.record(key)
	}
	if p != nil {
		writeProblem(w, p)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) record(key journal.Key) *wire.Problem {
	defer s.runs.lock(key.RunUID)()
	held, err := s.held(key)
	if err != nil {
		return s.fault(err)
	}
	if p := delivery.Record(held); p != nil {
		if p.Code == wire.CodeUnknown {
			return s.unknown()
		}
		return p
	}
	if err := s.cfg.Journal.Recorded(key); err != nil {
		return s.fault(err)
	}
	return nil
}

// location is where an attempt is found.
func location(key journal.Key) string {
	return wire.RunsPath + "/" + url.PathEscape(key.RunUID) + "?" + wire.QueryAttempt + "=" + strconv.FormatInt(key.Attempt, 10)
}
