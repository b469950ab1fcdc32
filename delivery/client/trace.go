package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/hearthdev/hearth/challenge/pinned"
)

// traced tells whether a request was ever given a connection. Before that no byte of it can have left; after that nobody knows.
func traced(req *http.Request) (*http.Request, *atomic.Bool) {
	had := &atomic.Bool{}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { had.Store(true) }}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), trace)), had
}

// quiet keeps errors that are ours or the network's, and leaves out those of net/http that quote a peer's bytes.
func quiet(err error) error {
	var network net.Error
	var operation *net.OpError
	var refused refusal
	switch {
	case errors.Is(err, ErrNoAnswer), errors.Is(err, pinned.ErrOtherKey), errors.Is(err, errNoTLS), errors.Is(err, errNoHandshake), errors.Is(err, errBootChanged), errors.Is(err, errNotVerified), errors.Is(err, errClosed),
		errors.As(err, &refused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &network), errors.As(err, &operation):
		return err
	default:
		return withoutBytes(err)
	}
}
