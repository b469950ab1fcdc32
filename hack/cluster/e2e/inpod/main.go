// Command inpod is what the cluster's own tests run in Pods: a server, and clients of what a Pod should reach.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	timeout = 5 * time.Second
	account = "/var/run/secrets/kubernetes.io/serviceaccount/"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "inpod:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 2 && args[0] == "dial":
		return dial(args[1])
	case len(args) == 2 && args[0] == "api":
		return api(args[1])
	}
	return errors.New("usage: inpod serve ADDRESS | dial ADDRESS | api URL")
}

// serve tells everybody the Pod's name.
func serve(address string) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("serving on", address)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		fmt.Fprint(conn, os.Getenv("HOSTNAME"))
		_ = conn.Close()
	}
}

// dial prints what the server says.
func dial(address string) error {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(context.Background(), "tcp", address) // #nosec G704 -- the test says what to reach
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	fmt.Print(string(answer))
	return errors.Join(err, conn.Close())
}

// api asks the API server as the Pod's service account and prints the status.
func api(url string) error {
	token, tokenErr := os.ReadFile(account + "token")
	ca, caErr := os.ReadFile(account + "ca.crt")
	if err := errors.Join(tokenErr, caErr); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil) // #nosec G704 -- the test says what to reach
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	response, err := client.Do(request) // #nosec G704 -- the test says what to reach
	if err != nil {
		return err
	}
	fmt.Print(response.Status)
	return response.Body.Close()
}
