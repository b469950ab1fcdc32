package endpoint

import (
	"net/http"
	"strings"
	"time"

	"github.com/hearthdev/hearth/internal/gate"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/attach"
)

// Paths of the endpoint.
const (
	PathACP    = "/acp"
	PathHealth = "/healthz"
)

// handler knows its paths as they are written: nothing is cleaned, and nobody is sent elsewhere.
func (e *Endpoint) handler() http.Handler {
	web := &streamable{Endpoint: e, open: map[string]*connection{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := gate.Enter(r.Context())
		if !ok {
			return // the connection is closed
		}
		defer leave()
		if r.ProtoMajor > 1 { // an answer that nobody takes is still under way
			defer func() { _ = http.NewResponseController(w).Flush() }()
		}
		switch r.URL.Path {
		case PathHealth:
			unread(w, r)
			w.WriteHeader(http.StatusOK)
		case PathACP:
			if access, ok := e.admit(w, r); ok {
				e.acp(w, r, access, web) //nolint:contextcheck // a client's context is not its request's
			}
		default:
			if uid, is := transcriptPath(r.URL.Path); !is {
				turnAway(w, r, http.StatusNotFound, wire.CodeNotFound, "no such endpoint; there are "+PathHealth+", "+PathACP+" and "+pathRuns+"{uid}"+pathTranscript)
			} else if _, ok := e.admit(w, r); ok {
				e.transcript(w, r, uid)
			}
		}
	})
}

// admit finds out what a caller may do, and refuses the rest.
func (e *Endpoint) admit(w http.ResponseWriter, r *http.Request) (attach.Access, bool) {
	if foreign(r) {
		turnAway(w, r, http.StatusForbidden, "foreign_origin", "Origin: expected none, or this host: pages of other sites may not connect")
		return attach.None, false
	}
	access := e.cfg.Keys.access(r)
	if access == attach.None {
		w.Header().Set("WWW-Authenticate", "Bearer")
		turnAway(w, r, http.StatusUnauthorized, wire.CodeUnauthenticated, "expected the view or the steer key as "+HeaderKey+", Authorization: Bearer or ?token=")
		return attach.None, false
	}
	if access == attach.Steer {
		gate.Proven(r.Context())
	} else {
		gate.ProvenLesser(r.Context())
	}
	return access, true
}

func (e *Endpoint) acp(w http.ResponseWriter, r *http.Request, access attach.Access, web *streamable) {
	switch {
	case e.cfg.Clients == nil:
		turnAway(w, r, http.StatusNotImplemented, "not_implemented", "nobody can attach to this agent")
	case upgrades(r):
		e.socket(w, r, access)
	default:
		web.serve(w, r, access)
	}
}

// upgrades tells whether a request wants to become a WebSocket; websocket.Accept says what else it lacks.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(strings.ToLower(r.Header.Get("Upgrade")), "websocket")
}

// turnAway is refuse before the body was read. The request, headers included, would stay in memory until it came; what has come is
// still read.
func turnAway(w http.ResponseWriter, r *http.Request, status int, code wire.Code, detail string) {
	unread(w, r)
	refuse(w, status, code, detail)
}

func unread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	if r.ProtoMajor == 1 { // with HTTP/2 other requests are on the connection, and the rest of the body is no part of them
		w.Header().Set("Connection", "close")
	}
}

// refuse answers with a problem (RFC 9457).
func refuse(w http.ResponseWriter, status int, code wire.Code, detail string) {
	body, err := wire.Encode(wire.Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code})
	if err != nil {
		http.Error(w, detail, status)
		return
	}
	w.Header().Set("Content-Type", wire.ProblemMediaType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
