// Package cli is what the program hearth does, a file a command (R55).
package cli

import (
	"context"
	"errors"
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
	newRun,
	newWait,
	newAttach,
	newLogs,
	newRuns,
	newAgents,
	newCancel,
	newDelete,
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
	addKubectlCompletion(root, env)
	calledAs(root, env.Program)
	must(root.RegisterFlagCompletionFunc("namespace", completeNamespaces(env)))
	must(root.RegisterFlagCompletionFunc("context", completeContexts(env)))
	return root
}

// calledAs has the examples say what the person types.
func calledAs(c *cobra.Command, program string) {
	c.Example = strings.ReplaceAll(c.Example, " hearth ", " "+program+" ")
	for _, sub := range c.Commands() {
		calledAs(sub, program)
	}
}

// mark notes when a command begins: its line is right then.
func mark(c *cobra.Command, begun *bool) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*begun = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		mark(sub, begun)
	}
}

// Run carries out a command line, says what went wrong and what to do next, and gives the exit code.
func Run(ctx context.Context, env *kube.Env, args []string) int {
	root, begun := NewCommand(env), false //nolint:contextcheck // completion has its command's own context
	mark(root, &begun)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !begun && !errors.As(err, new(*kube.Failure)) {
		err = kube.Usage("%w", err) // what cobra finds wrong with a command line
	}
	code := kube.Code(err)
	var failure *kube.Failure
	explained := errors.As(err, &failure)
	if err == nil || explained && failure.Err == nil || !explained && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return code
	}
	env.Say("%s: %s", env.Program, strings.TrimSpace(err.Error()))
	if failure != nil && failure.Next != "" {
		env.Say("  next: %s", failure.Next)
	}
	return code
}
