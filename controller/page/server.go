package page

import (
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hearthdev/hearth/internal/gate"
)

// What one server serves at most. A person has a few windows open; whoever wants more waits.
const (
	maxConnections    = 64
	maxStreams        = 32
	maxHeaderBytes    = 16 << 10
	maxQueryBytes     = 2 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = time.Minute
	closeTimeout      = 2 * time.Second
)

// policy lets a page load this server's own style, script, icon and changes, and nothing else from anywhere.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// server is the page's HTTP server, without its listener. Streams end when it shuts down.
func (s *site) server() *http.Server {
	server := &http.Server{
		Handler: s.guard(s.routes()), MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, ConnContext: gate.With, ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.stop)
	return server
}

// guard is in front of everything: headers, whose name the page is asked by, and that it only reads.
func (s *site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !s.mayBeCalled(r.Host): // a page elsewhere whose name was made to mean this address must not read it (DNS rebinding)
			s.plain(w, http.StatusMisdirectedRequest, "expected the Host localhost, 127.0.0.1 or [::1], or one of --page-hosts; open http://localhost:8090/")
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			s.plain(w, http.StatusMethodNotAllowed, "this page only reads: expected GET or HEAD")
		case len(r.URL.RawQuery) > maxQueryBytes:
			s.plain(w, http.StatusRequestURITooLong, "the query is too long: expected namespace, agent and phase")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// mayBeCalled tells whether the page answers to the name, with any port.
func (s *site) mayBeCalled(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return name == "localhost" || name == "127.0.0.1" || name == "::1" || slices.Contains(s.options.Hosts, name)
}

func (s *site) plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n"))
}
