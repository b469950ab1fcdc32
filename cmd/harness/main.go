// Command harness keeps an agent standing in its Pod and takes deliveries for it, or does one goal and exits (SPEC.md, Harness).
//
//	harness serve [flags] -- goose acp
//	harness run [flags] -- goose acp
//	harness check [flags] -- goose acp
//	harness version
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/internal/version"
)

func main() {
	// Somebody who no longer reads the log must not end what it tells of: writes fail then, as others do. Agents do not inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	signals := make(chan os.Signal, 2)
	var err error
	switch command, args := arguments(os.Args); command {
	case "run":
		signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
		os.Exit(runOnce(args, signals, os.Stdout, log))
	case "serve":
		signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
		err = serve(args, signals, log)
	case "check":
		os.Exit(checkImage(args, os.Stdout))
	case "version", "--version":
		_, err = fmt.Println(version.Of())
	case "help", "-h", "--help":
		_, err = fmt.Print(usage)
	case "":
		err = fmt.Errorf("no command: expected serve, run, check or version (%w)", errUsage)
	default:
		err = fmt.Errorf("unknown command %.32q: expected serve, run, check or version (%w)", command, errUsage)
	}
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "harness: %s\n%s", oneLine(err), usage)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "harness:", oneLine(err))
		os.Exit(1)
	}
}
