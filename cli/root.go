// Package cli is what the program hearth does, a file a command (R55).
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hearthdev/hearth/cli/connect"
	"github.com/hearthdev/hearth/cli/doctor"
	"github.com/hearthdev/hearth/cli/kube"
)

// commands are hearth's, each made of what they share.
var commands = []func(*kube.Env) *cobra.Command{
	connect.NewCommand,
	doctor.NewCommand,
	newVersion,
}

const long = `hearth makes runs of the agents that Hearth keeps on a Kubernetes cluster, and shows what comes of them.

It uses your kubeconfig as kubectl does. As kubectl-hearth on the PATH it is also kubectl hearth.`

// NewCommand is the program's command line.
func NewCommand(env *kube.Env) *cobra.Command {
	root := &cobra.Command{
		Use: "hearth", Short: "run work on the agents that Hearth keeps, and watch it", Long: long,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: env.Program},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return kube.Usage("%w", err) })
	env.Bind(root.PersistentFlags())
	for _, make := range commands {
		root.AddCommand(make(env))
	}
	calledAs(root, env.Program)
	return root
}

// calledAs has the examples say what the person types.
func calledAs(c *cobra.Command, program string) {
	c.Example = strings.ReplaceAll(c.Example, " hearth ", " "+program+" ")
	for _, sub := range c.Commands() {
		calledAs(sub, program)
	}
}

// Run carries out a command line, says what went wrong and what to do next, and gives the exit code.
func Run(ctx context.Context, env *kube.Env, args []string) int {
	root := NewCommand(env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code := kube.Code(err)
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return code
	}
	_, _ = fmt.Fprintf(env.ErrOut, "%s: %s\n", env.Program, kube.Line(err.Error()))
	var failure *kube.Failure
	if errors.As(err, &failure) && failure.Next != "" {
		_, _ = fmt.Fprintf(env.ErrOut, "  next: %s\n", kube.Line(failure.Next))
	}
	return code
}
