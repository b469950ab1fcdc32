package forward

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
)

// HeaderKey presents a key, to the harness and to goose's own server.
const HeaderKey = "X-Secret-Key"

// DialACP opens a WebSocket and says in words why it could not. It follows no redirect: the key is for the address that was given.
func DialACP(ctx context.Context, url, key string, through *http.Client) (*websocket.Conn, error) {
	client := *through
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	conn, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &client, HTTPHeader: http.Header{HeaderKey: {key}}})
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
