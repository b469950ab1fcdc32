package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

func newAgents(env *kube.Env) *cobra.Command {
	l := &listing{env: env, output: kube.NewOutput(true)}
	c := &cobra.Command{
		Use:   "agents",
		Short: "list agents: whether they can take work, what stands, what waits",
		Long: `agents lists the agents of a namespace. STANDING is how many of the runs that keep an agent's Pods can take work, of how many are
wanted; BUSY how many runs are carried out, and WAITING how many have not started.`,
		Example: `  hearth agents
  hearth agents -A -o wide`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return l.agents(c.Context()) },
	}
	c.Flags().BoolVarP(&l.everywhere, "all-namespaces", "A", false, "of all namespaces")
	l.output.Bind(c)
	return c
}

func (l *listing) agents(ctx context.Context) error {
	if err := l.output.Check(); err != nil {
		return err
	}
	options, where, err := l.within()
	if err != nil {
		return err
	}
	c, err := l.env.Client()
	if err != nil {
		return err
	}
	var agents hearthv1.AgentList
	if err := c.List(ctx, &agents, options...); err != nil {
		return l.env.Explain(err)
	}
	if table, _ := l.output.Table(); !table {
		if agents.Items == nil {
			agents.Items = []hearthv1.Agent{}
		}
		return l.output.Object(l.env, &agents)
	}
	if len(agents.Items) == 0 {
		l.env.Say("no agents %s", where)
		return nil
	}
	var runs hearthv1.AgentRunList
	var waiting map[string]int // nil if they may not be listed
	if err := c.List(ctx, &runs, options...); err == nil {
		waiting = tell.Waiting(runs.Items)
	}
	slices.SortFunc(agents.Items, func(a, b hearthv1.Agent) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	table := &metav1.Table{ColumnDefinitions: tell.AgentColumns(l.everywhere)}
	for i := range agents.Items {
		agent, wait := &agents.Items[i], -1
		if waiting != nil {
			wait = waiting[agent.Namespace+"/"+agent.Name]
		}
		table.Rows = append(table.Rows, tell.AgentRow(agent, wait, l.everywhere, l.env.Now()))
	}
	return l.output.Rows(l.env, true, table)
}
