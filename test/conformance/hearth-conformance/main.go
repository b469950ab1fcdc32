// Command hearth-conformance checks a runtime against the delivery contract (SPEC.md; docs/runtime-authors.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/test/conformance"
)

// Exit codes.
const (
	conforms = iota
	doesNot  // a case failed, or was not run
	cannot   // wrong arguments, or nothing answers
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "hearth-conformance:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (int, error) {
	o, out, err := parse(args)
	if err != nil {
		return cannot, err
	}
	kit, err := conformance.New(o)
	if err != nil {
		return cannot, err
	}
	report, err := kit.Run(ctx)
	if err != nil {
		return cannot, err
	}
	if err := out.write(report); err != nil {
		return cannot, err
	}
	if !report.Conforms(out.allowNotRun) {
		return doesNot, nil
	}
	return conforms, nil
}
