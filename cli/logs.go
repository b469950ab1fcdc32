package cli

import (
	"context"

	"github.com/spf13/cobra"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/attach"
	"github.com/hearthdev/hearth/cli/connect"
	"github.com/hearthdev/hearth/cli/forward"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

func newLogs(env *kube.Env) *cobra.Command {
	var (
		logs  attach.Logs
		times bool
	)
	c := &cobra.Command{
		Use:   "logs RUN",
		Short: "print what was said in a run, also after its end",
		Long: `logs prints the transcript of a run's newest attempt, which its Pod keeps: the prompt, the agent's words, its tools, questions and
who answered how. A run that has a Pod of its own loses it with the Pod's end; then the Pod's log is printed, and stderr says so.`,
		Example: `  hearth logs review-x7k2p
  hearth logs review-x7k2p -f
  hearth logs review-x7k2p --raw > review.jsonl`,
		Args:              exactly(whichRun+": "+env.Command("runs")+" lists them", 1),
		ValidArgsFunction: completeRuns(env, 1, func(r *hearthv1.AgentRun) bool { return !r.Standing() }),
		RunE: func(c *cobra.Command, args []string) error {
			if err := connect.CheckRetryFor(logs.RetryFor); err != nil {
				return err
			}
			run, err := worker(c.Context(), env, args[0])
			if err != nil {
				return err
			}
			logs.View = viewOn(env.Out)
			logs.View.Times = times
			return printLogs(c.Context(), env, run, &logs)
		},
	}
	f := c.Flags()
	f.BoolVarP(&logs.Follow, "follow", "f", false, "go on until the run has ended; one that waits is waited for")
	f.BoolVar(&logs.Raw, "raw", false, "print the transcript's own lines of JSON, byte by byte")
	f.Uint64Var(&logs.After, "since-entry", 0, "begin behind the entry of this number (seq, in --raw)")
	f.BoolVar(&times, "timestamps", false, "begin each line with the time of day")
	f.DurationVar(&logs.RetryFor, "retry-for", connect.DefaultRetryFor, "how long to ask again after the connection was lost")
	return c
}

func printLogs(ctx context.Context, env *kube.Env, run *hearthv1.AgentRun, logs *attach.Logs) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cluster, err := forward.In(env, env.Say)
	if err != nil {
		return err
	}
	var story tell.Story
	logs.Archive, logs.Out, logs.Say, logs.Terminal = &cluster, env.Out, env.Say, kube.IsTerminal(env.Out)
	logs.Story = func(run *hearthv1.AgentRun) []string { return story.See(run, env.Now()) }
	if logs.Follow {
		logs.Changes = changes(ctx, env, run)
	}
	return unseen(env, logs.Print(ctx, run))
}
