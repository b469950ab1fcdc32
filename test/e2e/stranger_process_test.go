//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// The kinds of stranger, and the files each writes.
const (
	kindPlain  = "plain"  // answers each request in plain HTTP, as friendly as can be
	kindSilent = "silent" // accepts and says nothing
	kindRelay  = "relay"  // ends TLS with a key of its own and passes on what it reads to the real harness

	heardFile       = "heard"
	requestsFile    = "requests"
	connectionsFile = "connections"
	answerBytes     = 32
	tryEvery        = time.Millisecond
)

// beStranger is the stranger's main: it takes a port once it is free, keeps every byte it hears in dir, and serves each connection
// as its kind does.
func beStranger(dir string) int {
	if err := listenAsStranger(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, "stranger:", err)
		return 1
	}
	return 0
}

func listenAsStranger(ctx context.Context, dir string) error {
	ear := &ear{}
	for name, file := range map[string]**os.File{heardFile: &ear.heard, requestsFile: &ear.requests, connectionsFile: &ear.connections} {
		opened, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		*file = opened
	}
	serve, err := ear.server(os.Getenv(envStrangerKind))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "started"), nil, 0o600); err != nil {
		return err
	}
	listener, err := takePort(ctx, ":"+os.Getenv(envStrangerPort))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "listening"), nil, 0o600); err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			ear.note(ear.connections, "one\n")
			serve(overheard{conn, ear})
		}()
	}
}

// takePort tries until the port is free: kubelet starts the harness again within a second, so there is no time to be told.
func takePort(ctx context.Context, address string) (net.Listener, error) {
	tries := time.NewTicker(tryEvery)
	defer tries.Stop()
	for {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
		<-tries.C
	}
}

// ear writes down what connections say.
type ear struct {
	mu                           sync.Mutex
	heard, requests, connections *os.File
}

func (e *ear) server(kind string) (func(net.Conn), error) {
	switch kind {
	case kindPlain:
		return e.plain, nil
	case kindSilent:
		return func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, nil
	case kindRelay:
		return e.relay()
	default:
		return nil, fmt.Errorf("no stranger is of kind %q", kind)
	}
}

func (e *ear) note(file *os.File, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = file.WriteString(text)
}

// overheard is a connection of which every byte read is kept.
type overheard struct {
	net.Conn
	by *ear
}

func (c overheard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.note(c.by.heard, string(p[:n]))
	return n, err
}

// plain answers at once what is no HTTP, as web servers do.
func (e *ear) plain(conn net.Conn) {
	from := bufio.NewReader(conn)
	for {
		first, err := from.Peek(1)
		if err != nil {
			return
		}
		var request *http.Request
		if first[0] >= 'A' && first[0] <= 'Z' {
			request, err = http.ReadRequest(from)
		}
		if err != nil || request == nil {
			_, _ = io.WriteString(conn, lie(""))
			_, _ = io.Copy(io.Discard, from) // what is no request is kept too
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		e.note(e.requests, fmt.Sprintf("%s %s\n", request.Method, request.URL.Path))
		if _, err := io.WriteString(conn, lie(request.URL.Path)); err != nil {
			return
		}
	}
}

// lie is the friendliest answer to a request of that path.
func lie(path string) string {
	var body any = wire.Attempt{State: wire.StateFinished, Envelope: &wire.Envelope{Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted}}
	if strings.HasSuffix(path, "/challenge") {
		body = wire.ChallengeAnswer{
			APIVersion: wire.APIVersion,
			Identity:   wire.Identity{Namespace: os.Getenv("POD_NAMESPACE"), PodName: os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID")},
			Boot:       rand.Text(), Journal: rand.Text(),
			Agent:    wire.AgentInfo{Name: "goose", State: wire.AgentReady},
			Capacity: wire.Capacity{Concurrency: 1, Queue: 1},
			Versions: []string{wire.APIVersion},
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // types of ours
	}
	guess := make([]byte, answerBytes)
	_, _ = rand.Read(guess)
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nHearth-Answer: %s\r\nContent-Length: %d\r\n\r\n%s",
		base64.RawURLEncoding.EncodeToString(guess), len(text), text)
}
