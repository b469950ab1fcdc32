// Command harness keeps an agent standing in its Pod and takes deliveries for it (SPEC.md, Harness).
//
//	harness serve [flags] -- goose acp
//	harness version
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

const usage = `usage: harness serve [flags] -- COMMAND [ARGUMENT...]
       harness version
`

// errUsage marks what the caller typed wrong; it exits with 2.
var errUsage = errors.New("see harness serve --help")

func main() {
	err := run(os.Args[1:], os.Stdout)
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

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command: expected serve or version (%w)", errUsage)
	}
	switch args[0] {
	case "serve":
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
		return serve(args[1:], signals, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	case "version":
		_, err := fmt.Fprintln(out, version())
		return err
	case "help", "-h", "--help":
		_, err := fmt.Fprint(out, usage)
		return err
	default:
		return fmt.Errorf("unknown command %.32q: expected serve or version (%w)", args[0], errUsage)
	}
}
