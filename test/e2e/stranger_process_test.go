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

const (
	heardFile    = "heard"
	requestsFile = "requests"
	answerBytes  = 32
	tryEvery     = time.Millisecond
)

// beStranger is the stranger's main: it takes port 4100 once it is free, keeps every byte it hears in dir, and answers each request
// 200 with what a harness would say, but for the proof that it is one.
func beStranger(dir string) int {
	if err := listenAsStranger(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, "stranger:", err)
		return 1
	}
	return 0
}

func listenAsStranger(ctx context.Context, dir string) error {
	heard, err := os.OpenFile(filepath.Join(dir, heardFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	requests, err := os.OpenFile(filepath.Join(dir, requestsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
	ear := &ear{heard: heard, requests: requests}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go ear.hear(conn)
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
	mu              sync.Mutex
	heard, requests *os.File
}

func (e *ear) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard.Write(p)
}

func (e *ear) hear(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	from := bufio.NewReader(io.TeeReader(conn, e))
	for {
		request, err := http.ReadRequest(from)
		if err != nil {
			_, _ = io.Copy(io.Discard, from) // what is no request is kept too
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		e.mu.Lock()
		_, _ = fmt.Fprintf(e.requests, "%s %s\n", request.Method, request.URL.Path)
		e.mu.Unlock()
		if _, err := io.WriteString(conn, lie(request)); err != nil {
			return
		}
	}
}

// lie is the friendliest answer to a request.
func lie(request *http.Request) string {
	var body any = wire.Attempt{State: wire.StateFinished, Envelope: &wire.Envelope{Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted}}
	if strings.HasSuffix(request.URL.Path, "/challenge") {
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
