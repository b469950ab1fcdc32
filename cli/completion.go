package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

// completeTime is how long a person waits for names after a tab.
const completeTime = 3 * time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// kubectlScript is what kubectl calls to complete the words after kubectl hearth.
const kubectlScript = `#!/bin/sh
# kubectl calls this to complete the words after "kubectl hearth". Save it as kubectl_complete-hearth on your PATH, executable.
exec kubectl-hearth __complete "$@"
`

// addKubectlCompletion adds to completion what kubectl wants.
func addKubectlCompletion(root *cobra.Command, env *kube.Env) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.AddCommand(&cobra.Command{
				Use: "kubectl", Short: "print the script with which kubectl completes kubectl hearth", Args: cobra.NoArgs,
				Long: `kubectl prints a script that kubectl calls to complete the words after "kubectl hearth". Save it as kubectl_complete-hearth in a
directory of your PATH, beside kubectl-hearth, and make it executable.`,
				RunE: func(*cobra.Command, []string) error {
					_, err := fmt.Fprint(env.Out, kubectlScript)
					return err
				},
			})
		}
	}
}

// names lists something in the namespace that the command line says; of errors a shell shows nothing.
func names(c *cobra.Command, env *kube.Env, list client.ObjectList, within bool) bool {
	ctx, cancel := context.WithTimeout(c.Context(), completeTime)
	defer cancel()
	cluster, err := env.Client()
	if err != nil {
		return false
	}
	var options []client.ListOption
	if within {
		namespace, err := env.Namespace()
		if err != nil {
			return false
		}
		options = append(options, client.InNamespace(namespace))
	}
	return cluster.List(ctx, list, options...) == nil
}

// described is a word with what a shell may show beside it.
func described(word, about string) string { return word + "\t" + kube.Line(about) }

// completeAgents completes the first argument with the names of Agents.
func completeAgents(env *kube.Env, has func(*hearthv1.Agent) bool) completer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		var agents hearthv1.AgentList
		var words []string
		if len(args) == 0 && names(c, env, &agents, true) {
			for i := range agents.Items {
				if a := &agents.Items[i]; has(a) && strings.HasPrefix(a.Name, typed) {
					words = append(words, described(a.Name, string(a.Spec.Mode)))
				}
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRuns completes with the names of runs, as many as the command takes; 0 is for any number.
func completeRuns(env *kube.Env, most int, has func(*hearthv1.AgentRun) bool) completer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		var runs hearthv1.AgentRunList
		var words []string
		if (most == 0 || len(args) < most) && names(c, env, &runs, true) {
			tell.Oldest(runs.Items)
			slices.Reverse(runs.Items)
			for i := range runs.Items {
				if r := &runs.Items[i]; has(r) && strings.HasPrefix(r.Name, typed) && !slices.Contains(args, r.Name) {
					words = append(words, described(r.Name, tell.Word(r)))
				}
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeParameters completes -p with the names of the Agent's parameters.
func completeParameters(env *kube.Env) completer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		var agents hearthv1.AgentList
		if strings.Contains(typed, "=") || len(args) == 0 || !names(c, env, &agents, true) {
			return nil, directive
		}
		var words []string
		for i := range agents.Items {
			a := &agents.Items[i]
			if a.Name != agentName(args[0]) {
				continue
			}
			for _, p := range a.Spec.Parameters {
				words = append(words, described(p.Name+"=", p.Description))
			}
			if len(words) == 0 {
				for _, name := range tell.Placeholders(a.Spec.GoalTemplate) {
					words = append(words, name+"=")
				}
			}
		}
		slices.Sort(words)
		return slices.DeleteFunc(slices.Compact(words), func(w string) bool { return !strings.HasPrefix(w, typed) }), directive
	}
}

// completeNamespaces completes -n.
func completeNamespaces(env *kube.Env) completer {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var all corev1.NamespaceList
		var words []string
		if names(c, env, &all, false) {
			for _, n := range all.Items {
				if strings.HasPrefix(n.Name, typed) {
					words = append(words, n.Name)
				}
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeContexts completes --context with those of the kubeconfig.
func completeContexts(env *kube.Env) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var words []string
		if raw, err := env.Flags.ToRawKubeConfigLoader().RawConfig(); err == nil {
			for name := range raw.Contexts {
				if strings.HasPrefix(name, typed) {
					words = append(words, name)
				}
			}
		}
		slices.Sort(words)
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
