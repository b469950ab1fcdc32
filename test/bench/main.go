// Command bench measures Hearth against what the machine can do at most (docs/performance.md), and is each of the processes that it takes
// beside the controller and the API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hearthdev/hearth/test/bench/load"
	"github.com/hearthdev/hearth/test/bench/node"
)

func main() {
	switch {
	case node.Asked():
		os.Exit(node.Main())
	case load.Asked():
		os.Exit(load.Main())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := act(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func act(ctx context.Context, args []string) int {
	o, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	if err := measure(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
