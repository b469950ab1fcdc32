package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/coder/websocket"

	"github.com/hearthdev/hearth/cli/forward"
)

// EnvKey holds the key of an endpoint that is given by its URL.
const EnvKey = "HEARTH_ACP_KEY"

const maxKeyBytes = 4 << 10

// endpoint is an ACP endpoint at a URL.
type endpoint struct {
	url string
	key func() (string, error)
}

// atURL reads a URL and where its key is. The key is read at each dial, so that a new one is found.
func atURL(raw, keyFile string) (Target, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("expected a URL such as ws://host:4000/acp")
	case u.Scheme != "ws" && u.Scheme != "wss" && u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("expected a URL with ws, wss, http or https, got %.16q", u.Scheme)
	case u.User != nil || u.Query().Has("token"):
		return nil, fmt.Errorf("a key on the command line can be read by everybody on this machine: expected --key-file or %s", EnvKey)
	}
	u.Path = cmp.Or(strings.TrimSuffix(u.Path, "/"), "/acp")
	return endpoint{url: u.String(), key: func() (string, error) { return readKey(keyFile) }}, nil
}

func readKey(file string) (string, error) {
	key := os.Getenv(EnvKey)
	if file != "" {
		content, err := os.ReadFile(file) //nolint:gosec // the user's own choice
		if err != nil {
			return "", fmt.Errorf("--key-file: %w", err)
		}
		key = string(content)
	}
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", fmt.Errorf("no key: expected one in --key-file or %s", EnvKey)
	case len(key) > maxKeyBytes || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		return "", fmt.Errorf("--key-file or %s: expected one line of printable ASCII", EnvKey)
	}
	return key, nil
}

func (e endpoint) Dial(ctx context.Context) (*websocket.Conn, error) {
	key, err := e.key()
	if err != nil {
		return nil, forward.Finally(err)
	}
	return forward.DialACP(ctx, e.url, key, &http.Client{Transport: plain})
}

// maxHeaderBytes bounds what an endpoint may say before it is one.
const maxHeaderBytes = 64 << 10

// plain makes a connection for each dial: one that is kept would read, and log, what a server says that nobody asked for.
var plain = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes}
