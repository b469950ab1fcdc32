// Package bare speaks to an API server with as little as can be: JSON that is made beforehand goes out, and of what comes back only what is
// needed is read. What load and limit spend on themselves is taken from what they measure, on a machine that all share.
package bare

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

const (
	maxAnswer = 64 << 20
	// lineBuffer is what the beginning of a watch is read with; it grows to maxAnswer.
	lineBuffer = 64 << 10
	// maxSaid is how much of a refusal is repeated.
	maxSaid = 512
)

// Client sends requests over kept connections.
type Client struct {
	http *http.Client
	base string
}

// New is a client with a configuration's rights and without any throttling.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("bare client: %w", err)
	}
	return &Client{http: c, base: strings.TrimSuffix(config.Host, "/")}, nil
}

// Refused is an answer that is none of success.
type Refused struct {
	Code int
	Said string
}

// Error implements error.
func (r *Refused) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Said) }

// Do sends a body, nil for none, and gives the answer's.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, nil
}

func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = response.Body.Close() }()
		said, err := io.ReadAll(io.LimitReader(response.Body, maxSaid))
		return nil, errors.Join(&Refused{Code: response.StatusCode, Said: string(said)}, err)
	}
	return response, nil
}

// Version is the collection's resource version now: a Watch from there misses nothing.
func (c *Client) Version(ctx context.Context, path string) (string, error) {
	answer, err := c.Do(ctx, http.MethodGet, path+"?limit=1", nil)
	if err != nil {
		return "", err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return "", fmt.Errorf("list %s: %w", path, err)
	}
	return list.Metadata.ResourceVersion, nil
}

// Seen is what a Watch is told of a line.
type Seen struct {
	// Version is the object's resource version: a watch that the API server ended goes on from there.
	Version string
	// Enough ends the watch.
	Enough bool
}

// Watch gives each line of a watch to see, until that has seen enough. query is more of the request's, such as a selector. The API server
// ends a watch when it likes, among others a while after a CRD was changed; then another one follows.
func (c *Client) Watch(ctx context.Context, path, version, query string, see func(line []byte) (Seen, error)) error {
	for {
		enough, err := c.watch(ctx, path, &version, query, see)
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if enough {
			return nil
		}
	}
}

// watch is one request of a Watch.
func (c *Client) watch(ctx context.Context, path string, version *string, query string, see func(line []byte) (Seen, error)) (bool, error) {
	response, err := c.send(ctx, http.MethodGet, path+"?watch=true&timeoutSeconds=3600&resourceVersion="+*version+"&"+query, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, lineBuffer), maxAnswer)
	for lines.Scan() {
		seen, err := see(lines.Bytes())
		if err != nil || seen.Enough {
			return seen.Enough, err
		}
		*version = seen.Version
	}
	return false, lines.Err()
}
