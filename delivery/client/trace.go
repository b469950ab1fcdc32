package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"github.com/hearthdev/hearth/challenge/pinned"
	"github.com/hearthdev/hearth/internal/crashpoint"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// traced tells whether a request was ever given a connection. Before that no byte of it can have left; after that nobody knows.
func traced(req *http.Request) (*http.Request, *atomic.Bool) {
	had := &atomic.Bool{}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { had.Store(true) }}
	if crashpoint.Enabled && req.Method == http.MethodPost && req.URL.Path == wire.RunsPath {
		// Not WroteRequest, which comes before the buffer is flushed.
		trace.GotFirstResponseByte = func() { crashpoint.Reach(crashpoint.AfterBytesSent) }
	}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), trace)), had
}

// ours are errors that have nothing of a peer in them.
var ours = []error{
	ErrNoAnswer, pinned.ErrOtherKey, errNoTLS, errNoHandshake, errBootChanged, errNotVerified, errClosed, context.Canceled, context.DeadlineExceeded,
}

// quiet keeps errors that are ours or the network's, and leaves out those of net/http that quote a peer's bytes.
func quiet(err error) error {
	var network net.Error
	var operation *net.OpError
	var refused refusal
	switch {
	case slices.ContainsFunc(ours, func(known error) bool { return errors.Is(err, known) }), errors.As(err, &refused):
		return err
	case errors.As(err, &network), errors.As(err, &operation):
		return err
	default:
		return withoutBytes(err)
	}
}
