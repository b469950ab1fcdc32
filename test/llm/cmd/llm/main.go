// llm serves the scripted model of package test/llm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hearthdev/hearth/test/llm"
)

const (
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	stopTimeout   = 2 * time.Second
)

func main() {
	listen := flag.String("listen", ":8080", "`address` to serve on; port 0 picks a free one, which is printed")
	flag.Parse()
	if err := serve(*listen, os.Getenv("LLM_API_KEY")); err != nil {
		fmt.Fprintln(os.Stderr, "llm:", err)
		os.Exit(1)
	}
}

func serve(address, key string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	fmt.Println("llm: listening on", listener.Addr())
	server := &http.Server{
		Handler:           llm.New(llm.Options{APIKey: key}),
		ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes:    maxHeader,
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		// Slow and hanging answers would wait for ever: after a moment they are cut.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(end) != nil {
			_ = server.Close()
		}
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}
