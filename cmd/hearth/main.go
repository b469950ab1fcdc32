// Command hearth is for people who work with agents that Hearth keeps. As kubectl-hearth on the PATH it is kubectl hearth.
//
//	hearth run AGENT -p NAME=VALUE --wait
//	hearth runs
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hearthdev/hearth/cli"
	"github.com/hearthdev/hearth/cli/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	env := kube.New(os.Args[0], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	os.Exit(cli.Run(ctx, env, os.Args[1:]))
}
