package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

// fieldAgent is what runs can be chosen by (SPEC.md, Resources).
const fieldAgent = "spec.agentRef.name"

type listing struct {
	env        *kube.Env
	output     *kube.Output
	everywhere bool
	watch      bool
	filter     tell.Filter
}

func newRuns(env *kube.Env) *cobra.Command {
	l := &listing{env: env, output: kube.NewOutput(true)}
	c := &cobra.Command{
		Use:   "runs [AGENT]",
		Short: "list runs, the newest last",
		Long: `runs lists the runs of a namespace, or of one agent, with where they are or how they ended. The runs that keep an agent's Pods
standing are no work, and are listed with --standing only.`,
		Example: `  hearth runs
  hearth runs reviewer --phase Pending,Running -w
  hearth runs -A --reason TargetLost,OutcomeUnknown -o wide`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return kube.Usage("expected at most one AGENT, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeAgents(env, func(*hearthv1.Agent) bool { return true }),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				l.filter.Agent = agentName(args[0])
			}
			return l.list(c.Context())
		},
	}
	f := c.Flags()
	f.BoolVarP(&l.everywhere, "all-namespaces", "A", false, "of all namespaces")
	f.BoolVarP(&l.watch, "watch", "w", false, "go on, with a line for each change")
	f.StringSliceVar(&l.filter.Phases, "phase", nil, "those in one of these phases: Pending, Running, Succeeded, Failed")
	f.StringSliceVar(&l.filter.Reasons, "reason", nil, "those with one of these reasons, such as TargetBusy")
	f.BoolVar(&l.filter.Standing, "standing", false, "also the runs that keep an agent's Pods standing")
	l.output.Bind(c)
	must(c.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions(phases(), cobra.ShellCompDirectiveNoFileComp)))
	must(c.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(tell.Reasons(), cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func phases() []string {
	return []string{string(hearthv1.PhasePending), string(hearthv1.PhaseRunning), string(hearthv1.PhaseSucceeded), string(hearthv1.PhaseFailed)}
}

func (l *listing) list(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	options, where, err := l.within()
	if err != nil {
		return err
	}
	if l.filter.Agent != "" {
		options = append(options, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(fieldAgent, l.filter.Agent)})
	}
	if l.watch {
		return l.follow(ctx, options)
	}
	c, err := l.env.Client()
	if err != nil {
		return err
	}
	var all, chosen hearthv1.AgentRunList
	if err := c.List(ctx, &all, options...); err != nil {
		return l.env.Explain(err)
	}
	chosen.ListMeta = all.ListMeta
	chosen.Items = []hearthv1.AgentRun{} // a list in JSON, also of nothing
	for i := range all.Items {
		if l.filter.Has(&all.Items[i]) {
			chosen.Items = append(chosen.Items, all.Items[i])
		}
	}
	tell.Oldest(chosen.Items)
	if table, _ := l.output.Table(); !table {
		return l.output.Object(l.env, &chosen)
	}
	if len(chosen.Items) == 0 {
		l.env.Say("no runs %s", where)
		return nil
	}
	return l.rows(true, chosen.Items)
}

func (l *listing) check() error {
	for _, phase := range l.filter.Phases {
		if !slices.ContainsFunc(phases(), func(p string) bool { return strings.EqualFold(p, phase) }) {
			return kube.Usage("--phase: expected %s, got %.32q", strings.Join(phases(), ", "), phase)
		}
	}
	return l.output.Check()
}

// within says which namespace to list, and in words for when there is nothing in it.
func (l *listing) within() ([]client.ListOption, string, error) {
	if l.everywhere {
		return nil, "in any namespace", nil
	}
	namespace, err := l.env.Namespace()
	if err != nil {
		return nil, "", err
	}
	return []client.ListOption{client.InNamespace(namespace)}, "in namespace " + namespace, nil
}

func (l *listing) rows(headers bool, runs []hearthv1.AgentRun) error {
	table := &metav1.Table{ColumnDefinitions: tell.RunColumns(l.everywhere)}
	for i := range runs {
		table.Rows = append(table.Rows, tell.RunRow(&runs[i], l.everywhere, false, l.env.Now()))
	}
	return l.output.Rows(l.env, headers, table)
}

// follow lists, and then writes each change, until it is told to end.
func (l *listing) follow(ctx context.Context, options []client.ListOption) error {
	table, _ := l.output.Table()
	var first []hearthv1.AgentRun // until all are there
	var failed error
	listed := false
	watch := kube.Watch{
		Options: options,
		Listed: func() {
			listed = true
			tell.Oldest(first)
			for i := range first {
				if !table && failed == nil {
					failed = l.output.Object(l.env, &first[i])
				}
			}
			if table {
				failed = l.rows(true, first)
			}
			first = nil
		},
		See: func(run *hearthv1.AgentRun, gone bool) bool {
			switch {
			case failed != nil:
			case !l.filter.Has(run):
			case !listed:
				first = append(first, *run)
			case table:
				one := &metav1.Table{ColumnDefinitions: tell.RunColumns(l.everywhere)}
				one.Rows = append(one.Rows, tell.RunRow(run, l.everywhere, gone, l.env.Now()))
				failed = l.output.Rows(l.env, false, one)
			default:
				failed = l.output.Object(l.env, run.DeepCopy())
			}
			return failed != nil // nobody reads
		},
		Trouble: func(err error) { l.env.Say("%s", troubled(err)) },
	}
	if err := watch.Run(ctx, l.env); err != nil && !kube.Stopped(err) {
		return err
	}
	if failed != nil {
		return fmt.Errorf("print: %w", failed)
	}
	return nil
}
