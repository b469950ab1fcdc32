package endpoint

import (
	"net/http"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Paths of the endpoint.
const (
	PathACP    = "/acp"
	PathHealth = "/healthz"
)

func handler(keys Keys) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(PathHealth, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc(PathACP, func(w http.ResponseWriter, r *http.Request) {
		if foreign(r) {
			refuse(w, http.StatusForbidden, "foreign_origin", "Origin: expected none, or this host: pages of other sites may not connect")
			return
		}
		if keys.access(r) == none {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, wire.CodeUnauthenticated, "expected the view or the steer key as "+HeaderKey+", Authorization: Bearer or ?token=")
			return
		}
		refuse(w, http.StatusNotImplemented, "not_implemented", "this harness does not serve clients of the Agent Client Protocol; goals reach its agent by delivery")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, wire.CodeNotFound, "no such endpoint; there are "+PathHealth+" and "+PathACP)
	})
	return mux
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
