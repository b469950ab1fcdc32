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
)

// EnvKey holds the key of an endpoint that is given by its URL.
const EnvKey = "HEARTH_ACP_KEY"

// headerKey presents it, to the harness and to goose's own server.
const headerKey = "X-Secret-Key"

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
		return nil, Final{err}
	}
	return dial(ctx, e.url, key, &http.Client{Transport: plain})
}

// maxHeaderBytes bounds what an endpoint may say before it is one.
const maxHeaderBytes = 64 << 10

// plain makes a connection for each dial: one that is kept would read, and log, what a server says that nobody asked for.
var plain = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes}

// dial opens a WebSocket and says in words why it could not. It follows no redirect: the key is for the address that was given.
func dial(ctx context.Context, url, key string, through *http.Client) (*websocket.Conn, error) {
	client := *through
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	conn, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &client, HTTPHeader: http.Header{headerKey: {key}}})
	if response != nil && response.Body != nil {
		_ = response.Body.Close() // of an upgrade it is not the connection
	}
	switch {
	case err == nil:
		return conn, nil
	case response == nil:
		return nil, fmt.Errorf("dial %s: %w", url, err)
	case response.StatusCode == http.StatusUnauthorized:
		return nil, Final{errors.New("the endpoint refused the key")}
	case response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500 && response.StatusCode != http.StatusNotImplemented:
		return nil, fmt.Errorf("the endpoint answered %s", response.Status)
	default:
		return nil, Final{fmt.Errorf("expected an ACP endpoint at %s, got the answer %s", url, response.Status)}
	}
}
