package dial

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds and defaults of an endpoint's address.
const (
	maxURLBytes      = 256
	defaultPath      = "/acp"
	defaultGooseHost = "127.0.0.1" // of goose serve, …
	defaultGoosePort = "3284"      // … as its help says
)

// Endpoint is where an agent's server listens on this host. The zero value is none.
type Endpoint struct {
	address netip.AddrPort
	path    string
}

// IsZero tells whether it is none.
func (e Endpoint) IsZero() bool { return e == Endpoint{} }

// String is the URL, as in ws://127.0.0.1:4001/acp; "" for none.
func (e Endpoint) String() string {
	if e.IsZero() {
		return ""
	}
	return "ws://" + e.address.String() + e.path
}

// errNoEndpoint says what an endpoint is. What was given is not repeated: it may hold somebody's key.
var errNoEndpoint = errors.New("expected an address such as ws://127.0.0.1:4001/acp")

// ParseEndpoint reads an endpoint's URL: ws, a loopback address, a port and perhaps a path. The errors name the part that is wrong.
func ParseEndpoint(text string) (Endpoint, error) {
	if len(text) > maxURLBytes {
		return Endpoint{}, fmt.Errorf("%w, of at most %d bytes", errNoEndpoint, maxURLBytes)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "":
		return Endpoint{}, errNoEndpoint
	case u.Scheme != "ws":
		return Endpoint{}, fmt.Errorf("scheme: %w; nothing is encrypted within a Pod", errNoEndpoint)
	case u.User != nil:
		return Endpoint{}, fmt.Errorf("user: %w, without user and password", errNoEndpoint)
	case u.RawQuery != "" || u.ForceQuery:
		return Endpoint{}, fmt.Errorf("query: %w, without a query; a key is given as %s", errNoEndpoint, KeyVariable)
	case strings.Contains(text, "#"):
		return Endpoint{}, fmt.Errorf("fragment: %w, without one", errNoEndpoint)
	}
	address, err := loopback(u.Hostname(), u.Port())
	if err != nil {
		return Endpoint{}, err
	}
	path := u.EscapedPath()
	if path == "" || path == "/" {
		path = defaultPath
	}
	return Endpoint{address: address, path: path}, nil
}

// loopback refuses what is not this host: who listens elsewhere is not the Pod's agent, and the key would leave the Pod. Names
// are not resolved, because somebody else may say what they mean.
func loopback(host, port string) (netip.AddrPort, error) {
	if host == "localhost" {
		host = defaultGooseHost
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().IsLoopback() || ip.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("host: %w, on a loopback address", errNoEndpoint)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return netip.AddrPort{}, fmt.Errorf("port: %w, with a port from 1 to 65535", errNoEndpoint)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

// Served is the endpoint of a command that is known to be a server, goose serve; none for every other. The error says that others
// than this Pod could reach it.
func Served(command []string) (Endpoint, error) {
	if len(command) < 2 || filepath.Base(command[0]) != "goose" || command[1] != "serve" {
		return Endpoint{}, nil
	}
	host, port := defaultGooseHost, defaultGoosePort
	for i, word := range command {
		for flag, into := range map[string]*string{"--host": &host, "--port": &port} {
			if value, ok := strings.CutPrefix(word, flag+"="); ok {
				*into = value
			} else if word == flag && i+1 < len(command) {
				*into = command[i+1]
			}
		}
	}
	e, err := ParseEndpoint("ws://" + net.JoinHostPort(host, port) + defaultPath)
	if err != nil {
		return Endpoint{}, fmt.Errorf("--host and --port of goose serve: %w", err)
	}
	return e, nil
}
