package endpoint

import (
	"net/http"
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
func handler(keys Keys) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Nobody here reads a body. The request, headers included, would stay in memory until it came; what has come is still read.
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			w.Header().Set("Connection", "close")
		}
		switch r.URL.Path {
		case PathHealth:
			w.WriteHeader(http.StatusOK)
		case PathACP:
			acp(w, r, keys)
		default:
			refuse(w, http.StatusNotFound, wire.CodeNotFound, "no such endpoint; there are "+PathHealth+" and "+PathACP)
		}
	})
}

func acp(w http.ResponseWriter, r *http.Request, keys Keys) {
	if foreign(r) {
		refuse(w, http.StatusForbidden, "foreign_origin", "Origin: expected none, or this host: pages of other sites may not connect")
		return
	}
	if keys.access(r) == attach.None {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, wire.CodeUnauthenticated, "expected the view or the steer key as "+HeaderKey+", Authorization: Bearer or ?token=")
		return
	}
	gate.Proven(r.Context())
	refuse(w, http.StatusNotImplemented, "not_implemented", "this harness does not serve clients of the Agent Client Protocol; goals reach its agent by delivery")
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
