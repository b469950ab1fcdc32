package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

func newDelete(env *kube.Env) *cobra.Command {
	s := &stopping{env: env}
	c := &cobra.Command{
		Use:   "delete RUN...",
		Short: "delete runs with their records; with --wait only when their work has stopped",
		Long: `delete deletes runs at once, whatever their agents do; their work is cancelled right after, and nobody is told when it has stopped.
With --wait it cancels them, waits until their work has stopped, and deletes them then.`,
		Example: `  hearth delete review-x7k2p
  hearth delete review-x7k2p --wait`,
		Args:              some("RUN..., the names of runs: " + env.Command("runs") + " lists them"),
		ValidArgsFunction: completeRuns(env, 0, func(r *hearthv1.AgentRun) bool { return !r.Standing() }),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkTimeout(s.timeout, s.waits); err != nil {
				return err
			}
			return first(s.delete(c.Context(), args))
		},
	}
	s.bind(c, "cancel, wait until the work has stopped, then delete")
	return c
}

func (s *stopping) delete(ctx context.Context, names []string) (failed error) {
	var ended, living []*hearthv1.AgentRun
	for _, name := range names {
		run, err := get(ctx, s.env, name)
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case run.Ended() || !s.waits:
			ended = append(ended, run)
		default:
			if err := s.ask(ctx, run); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			living = append(living, run)
		}
	}
	for _, run := range ended {
		failed = errors.Join(failed, s.remove(ctx, run))
	}
	if len(living) == 0 {
		return failed
	}
	stopped, err := s.stopped(ctx, living)
	for _, run := range stopped {
		failed = errors.Join(failed, s.remove(ctx, run))
	}
	if err != nil && len(stopped) < len(living) {
		s.env.Say("what has not stopped is not deleted")
	}
	return errors.Join(failed, err)
}

// remove deletes this run, and no other that has got its name.
func (s *stopping) remove(ctx context.Context, run *hearthv1.AgentRun) error {
	c, err := s.env.Client()
	if err != nil {
		return err
	}
	err = c.Delete(ctx, run, client.Preconditions{UID: &run.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return s.env.Explain(err)
	}
	after := ""
	if !run.Ended() {
		after = "; its work is cancelled right after"
	}
	s.env.Say("agentrun.%s/%s deleted%s", hearthv1.GroupVersion.Group, run.Name, after)
	return nil
}
