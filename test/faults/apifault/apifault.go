// Package apifault is an HTTP proxy in front of the API server that spoils what a controller asks of it: it fails requests, lets
// them be done and says that they were not, cuts and delays them, holds watch events back, and answers lists with what was true
// before. Tests put it between a controller process and a real API server (docs/faults.md).
package apifault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/hearthdev/hearth/test/faults/netfault"
)

const (
	readHeaderWithin = 10 * time.Second
	closeWithin      = 10 * time.Second
	maxBody          = 8 << 20 // of a request; the API server takes 3 MiB
	maxRequests      = 1 << 20 // that are remembered
)

// API is one such proxy. Its methods may be called from everywhere.
type API struct {
	// Network is the TCP proxy before it; Down and Up use it, and it has more ways to fail.
	Network *netfault.Proxy

	target *url.URL
	own    http.RoundTripper
	proxy  *httputil.ReverseProxy
	server *http.Server
	end    context.CancelFunc // of all requests
	served sync.WaitGroup

	mu       sync.Mutex
	rules    []*Rule
	requests []Request
	held     map[string]bool
	stale    map[string]string // resource -> the resource version that lists show
	lists    map[string]string // resource -> the path where it was listed or watched last
	changed  chan struct{}     // closed when held or stale change
}

// New starts a proxy on loopback that passes requests on with the credentials of cfg. Close ends it.
func New(cfg *rest.Config) (*API, error) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("credentials for the API server: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // Close ends it
	if err != nil {
		return nil, fmt.Errorf("API fault proxy: %w", err)
	}
	network, err := netfault.New("127.0.0.1:0", l.Addr().String())
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("API fault proxy: %w", err)
	}
	a := &API{Network: network, target: target, own: transport, held: map[string]bool{}, stale: map[string]string{}, lists: map[string]string{}, changed: make(chan struct{})}
	a.proxy = &httputil.ReverseProxy{Rewrite: a.rewrite, Transport: transport, FlushInterval: -1, ModifyResponse: a.answered, ErrorHandler: a.failed,
		ErrorLog: log.New(io.Discard, "", 0)}
	life, end := context.WithCancel(context.Background())
	a.end = end
	a.server = &http.Server{BaseContext: func(net.Listener) context.Context { return life }, Handler: http.HandlerFunc(a.serve), ReadHeaderTimeout: readHeaderWithin, ErrorLog: log.New(io.Discard, "", 0)}
	a.served.Go(func() { _ = a.server.Serve(l) })
	return a, nil
}

// Close ends it and everything that goes through it.
func (a *API) Close() {
	a.Network.Close()
	a.end()
	within, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = a.server.Shutdown(within)
	a.served.Wait()
}

// Config is for clients in this process.
func (a *API) Config() *rest.Config { return &rest.Config{Host: "http://" + a.Network.Addr(), QPS: -1} }

// Kubeconfig writes a file for clients in other processes and returns its path.
func (a *API) Kubeconfig(dir string) (string, error) {
	const name = "faults"
	path := filepath.Join(dir, "kubeconfig")
	return path, clientcmd.WriteToFile(clientcmdapi.Config{ //nolint:wrapcheck // says it all
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: a.Config().Host}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name}},
		CurrentContext: name,
	}, path)
}

// Down resets all connections and refuses new ones until Up.
func (a *API) Down() { a.Network.Set(netfault.Refuse) }

// Up ends Down.
func (a *API) Up() { a.Network.Heal() }

// HoldWatches keeps the events of a resource ("agentruns") back, in watches that stand and in new ones, until ReleaseWatches: the
// caches that are fed by them stay as they are. Their order is kept.
func (a *API) HoldWatches(resource string) { a.set(func() { a.held[resource] = true }) }

// ReleaseWatches lets all events go on that were held back.
func (a *API) ReleaseWatches() { a.set(func() { clear(a.held) }) }

// Stale answers lists of a resource with what is true now, whatever comes, until Fresh; a controller that is started meanwhile
// begins with that. Reads of one object stay true. Watches go on from where a list was: hold them too. Somebody must have listed
// or watched the resource before.
func (a *API) Stale(ctx context.Context, resource string) error {
	version, err := a.version(ctx, resource)
	if err != nil {
		return err
	}
	a.set(func() { a.stale[resource] = version })
	return nil
}

// Fresh ends Stale for all resources.
func (a *API) Fresh() { a.set(func() { clear(a.stale) }) }

func (a *API) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	close(a.changed)
	a.changed = make(chan struct{})
}

// Requests returns what was asked so far, in the order in which it was answered.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Request(nil), a.requests...)
}

// Count counts what was asked so far. The match's Body is not looked at.
func (a *API) Count(m Match) (n int) {
	for _, r := range a.Requests() {
		if m.matches(r) {
			n++
		}
	}
	return n
}

func (a *API) remember(r Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.requests) < maxRequests {
		a.requests = append(a.requests, r)
	}
}

// isHeld tells whether a resource's events are held, and what is closed when that may have changed.
func (a *API) isHeld(resource string) (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[resource], a.changed
}

var errCut = errors.New("the connection is cut")
