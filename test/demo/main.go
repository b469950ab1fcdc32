// Command demo hands three runs to a standing goose on a real cluster and shows when what happened.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hearthdev/hearth/test/cluster"
)

const (
	exitFailed      = 1
	exitInterrupted = 130
	explainLimit    = 20 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	provider, err := readProvider(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitFailed
	}
	c, err := cluster.Ensure(ctx, ".", os.Getenv, os.Stderr)
	if err == nil {
		err = play(ctx, c, provider, os.Stdout)
	}
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted; what was made stays: make demo goes on from there, make demo-down removes it")
		return exitInterrupted
	}
	if c != nil {
		fmt.Fprintln(os.Stderr, "\nwhat the cluster says:")
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainLimit)
		defer cancel()
		c.Explain(ctx, os.Stderr, systemNamespace, demoNamespace)
	}
	fmt.Fprintln(os.Stderr, "\ndemo:", err)
	return exitFailed
}
