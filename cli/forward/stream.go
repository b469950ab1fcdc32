package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

const maxForwardError = 4 << 10

// Conn connects to a port of a Pod through the API server, as kubectl port-forward does, but opens no port on this machine.
func Conn(ctx context.Context, config *rest.Config, namespace, name string, port int) (net.Conn, error) {
	dialer, err := forwardDialer(config, namespace, name)
	if err != nil {
		return nil, err
	}
	type dialed struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialed, 1)
	go func() { // it knows no context
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		if err == nil && ctx.Err() != nil {
			_ = conn.Close()
		}
		done <- dialed{conn, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case d := <-done:
		if d.err != nil {
			return nil, refusedForward(fmt.Errorf("port-forward to Pod %s: %w", name, d.err))
		}
		return open(d.conn, name, port)
	}
}

// refusedForward makes final what the API server refuses. Of its answer to an upgrade only the text is left.
func refusedForward(err error) error {
	if text := err.Error(); strings.Contains(text, "forbidden") || strings.Contains(text, "Unauthorized") {
		return Final{err}
	}
	return err
}

// forwardDialer tunnels through a WebSocket, and falls back to SPDY where there is a proxy or an API server that does not.
func forwardDialer(config *rest.Config, namespace, name string) (httpstream.Dialer, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	url := server.JoinPath("api", "v1", "namespaces", namespace, "pods", name, "portforward")
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunnel, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// open begins one connection within a port-forward.
func open(conn httpstream.Connection, name string, port int) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := conn.CreateStream(headers)
	if err == nil {
		_ = failures.Close() // nothing is written to it
		headers.Set(corev1.StreamType, corev1.StreamTypeData)
		var data httpstream.Stream
		if data, err = conn.CreateStream(headers); err == nil {
			f := &forwarded{Stream: data, conn: conn, pod: name, failed: make(chan struct{})}
			go f.listen(failures)
			return f, nil
		}
	}
	_ = conn.Close()
	return nil, fmt.Errorf("port-forward to Pod %s: %w", name, err)
}

// forwarded is a port-forward's stream as a connection. It has no deadlines: who waits on it closes it.
type forwarded struct {
	httpstream.Stream
	conn   httpstream.Connection
	pod    string
	once   sync.Once
	failed chan struct{} // closed when the error is known
	err    error
}

// listen reads why the far end could not connect, which comes on a stream of its own.
func (f *forwarded) listen(failures io.Reader) {
	message, _ := io.ReadAll(io.LimitReader(failures, maxForwardError))
	if len(message) > 0 {
		f.err = fmt.Errorf("port-forward to Pod %s: %s", f.pod, farEnd(string(message)))
	}
	close(f.failed)
	if f.err != nil {
		_ = f.Close()
	}
}

// farEnd is what the node says, without its own names for the Pod and the ways that it tried, where it says the usual thing.
func farEnd(message string) string {
	if strings.Contains(message, "connection refused") {
		return "nothing listens there now: its agent does not answer"
	}
	return strings.TrimSpace(message)
}

func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Stream.Read(p)
	if err == nil {
		return n, nil
	}
	select {
	case <-f.failed:
		if f.err != nil {
			err = f.err
		}
	case <-f.conn.CloseChan():
	}
	return n, err
}

func (f *forwarded) Close() error {
	var err error
	f.once.Do(func() { err = errors.Join(f.Reset(), f.conn.Close()) })
	return err
}

type address string

func (a address) Network() string { return "port-forward" }
func (a address) String() string  { return string(a) }

func (f *forwarded) LocalAddr() net.Addr              { return address("here") }
func (f *forwarded) RemoteAddr() net.Addr             { return address("Pod " + f.pod) }
func (f *forwarded) SetDeadline(time.Time) error      { return nil }
func (f *forwarded) SetReadDeadline(time.Time) error  { return nil }
func (f *forwarded) SetWriteDeadline(time.Time) error { return nil }
