package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

// exactly wants a number of arguments, and says what they are.
func exactly(what string, n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return kube.Usage("expected %s; got %d arguments", what, len(args))
		}
		return nil
	}
}

// some wants arguments, at least one.
func some(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return kube.Usage("expected %s", what)
		}
		return nil
	}
}

// get reads a run that somebody named, as NAME or with one of its kind's names before it.
func get(ctx context.Context, env *kube.Env, name string) (*hearthv1.AgentRun, error) {
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := env.Namespace()
	if err != nil {
		return nil, err
	}
	var run hearthv1.AgentRun
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: runName(name)}, &run); err != nil {
		return nil, missing(ctx, env, namespace, runName(name), err)
	}
	return &run, nil
}

// runName takes what other commands print before a run's name off it.
func runName(arg string) string {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok {
		return arg
	}
	switch strings.ToLower(kind) {
	case "run", "runs", "arun", "agentrun", "agentruns", "agentrun.hearth.dev", "agentruns.hearth.dev":
		return name
	}
	return arg
}

// agentName takes what other commands print before an Agent's name off it.
func agentName(arg string) string {
	for _, kind := range []string{"agent/", "agents/", "hagent/", "agent.hearth.dev/", "agents.hearth.dev/"} {
		if name, ok := strings.CutPrefix(arg, kind); ok {
			return name
		}
	}
	return arg
}

// missing explains that a run could not be read, and names those that may be meant.
func missing(ctx context.Context, env *kube.Env, namespace, name string, err error) error {
	explained := env.Explain(err)
	if !apierrors.IsNotFound(err) || kube.Code(explained) != kube.ExitFailed {
		return explained
	}
	var runs hearthv1.AgentRunList
	var names []string
	if c, err := env.Client(); err == nil && c.List(ctx, &runs, client.InNamespace(namespace)) == nil {
		for i := range runs.Items {
			names = append(names, runs.Items[i].Name)
		}
	}
	return &kube.Failure{Err: fmt.Errorf("there is no run %.64q in namespace %s%s", name, namespace, meant(name, names)), Next: env.Command("runs"), Code: kube.ExitFailed}
}

// meant asks whether a near name was meant.
func meant(name string, names []string) string {
	near := tell.Near(name, names)
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(near, ", or ") + "?"
}
