package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

// stopping is what cancel and delete have in common: runs, and whether to wait until their work has stopped.
type stopping struct {
	env     *kube.Env
	waits   bool
	timeout time.Duration
}

func (s *stopping) bind(c *cobra.Command, usage string) {
	c.Flags().BoolVarP(&s.waits, "wait", "w", false, usage)
	c.Flags().DurationVar(&s.timeout, "timeout", 0, "with --wait: how long, such as 2m; 0 is for as long as it takes")
}

func newCancel(env *kube.Env) *cobra.Command {
	s := &stopping{env: env}
	c := &cobra.Command{
		Use:   "cancel RUN...",
		Short: "stop runs, and keep their records",
		Long: `cancel asks for runs to be stopped. It cannot be taken back. With --wait it returns when their work has stopped, which takes at most
half a minute where the agent's Pod can be reached.`,
		Example: `  hearth cancel review-x7k2p
  hearth cancel review-x7k2p review-b4nd8 --wait`,
		Args:              some("RUN..., the names of runs: " + env.Command("runs") + " lists them"),
		ValidArgsFunction: completeRuns(env, 0, func(r *hearthv1.AgentRun) bool { return !r.Ended() && !r.Standing() }),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkTimeout(s.timeout, s.waits); err != nil {
				return err
			}
			runs, failed := s.cancel(c.Context(), args)
			if s.waits && len(runs) > 0 {
				_, err := s.stopped(c.Context(), runs)
				failed = errors.Join(failed, err)
			}
			return first(failed)
		},
	}
	s.bind(c, "wait until their work has stopped")
	return c
}

// cancel asks for each to be stopped, and gives those that have not ended.
func (s *stopping) cancel(ctx context.Context, names []string) (runs []*hearthv1.AgentRun, failed error) {
	for _, name := range names {
		run, err := get(ctx, s.env, name)
		if err == nil && run.Ended() {
			s.env.Say("%s", tell.Already(run))
			continue
		}
		if err == nil {
			err = s.ask(ctx, run)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		runs = append(runs, run)
	}
	return runs, failed
}

// ask sets spec.cancel of this run, and of no other that has got its name.
func (s *stopping) ask(ctx context.Context, run *hearthv1.AgentRun) error {
	c, err := s.env.Client()
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"cancel":true}}`, run.UID)
	if err := c.Patch(ctx, run.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return s.env.Explain(err)
	}
	s.env.Say("agentrun.%s/%s is to be cancelled", hearthv1.GroupVersion.Group, run.Name)
	return nil
}

// stopped waits until all have ended or are gone, says how, and gives those that are still there.
func (s *stopping) stopped(ctx context.Context, runs []*hearthv1.AgentRun) (ended []*hearthv1.AgentRun, err error) {
	all := ctx
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	for _, run := range runs {
		w := waiting{env: s.env}
		screen := newProgress(s.env)
		last, err := w.watch(ctx, run, screen)
		screen.clear()
		switch {
		case errors.Is(err, errDeleted):
			s.env.Say("%s is deleted", run.Name)
			continue
		case kube.Stopped(err):
			s.env.Say("%s has not stopped yet: it was asked to, and will", run.Name)
			s.env.Say("  come back: %s", s.env.Command("wait", run.Name))
			code := kube.ExitWaiting
			if all.Err() != nil {
				code = kube.ExitInterrupted
			}
			return ended, &kube.Failure{Code: code}
		case err != nil:
			return ended, err
		}
		phase, _, _ := tell.State(last)
		screen.end(phase, tell.Ended(last))
		ended = append(ended, last)
	}
	return ended, nil
}

// first says all errors, with what to do about the first and its exit code. Of one whose all was said before, that is all it adds.
func first(failed error) error {
	all := flat(failed)
	if len(all) < 2 {
		return failed
	}
	out := &kube.Failure{Code: kube.Code(all[0])}
	for i, err := range all {
		failure := &kube.Failure{Err: err}
		errors.As(err, &failure)
		if i == 0 {
			out.Next = failure.Next
		}
		if failure.Err != nil {
			out.Err = errors.Join(out.Err, err)
		}
	}
	return out
}

// flat are the errors that errors.Join put together.
func flat(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // of errors.Join
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flat(e)...)
	}
	return all
}
