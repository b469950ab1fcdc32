// Command controller keeps standing agents and hands them work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules name IANA zones, and an image has none

	"github.com/hearthdev/hearth/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := act(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// act is the controller, or with the one argument check the question whether one answers.
func act(ctx context.Context, args []string) int {
	if len(args) == 1 && args[0] == "check" {
		return said(check(ctx, os.Getenv, os.Stdout), 1)
	}
	o, err := parse(args, os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return said(err, 2)
	}
	if o.version {
		fmt.Println(version.Of())
		return 0
	}
	return said(serve(ctx, o), 1)
}

// said tells an error, and is the exit code.
func said(err error, code int) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "controller:", err)
	return code
}
