package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/attach"
	"github.com/hearthdev/hearth/cli/attach/view"
	"github.com/hearthdev/hearth/cli/connect"
	"github.com/hearthdev/hearth/cli/forward"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

const whichRun = "RUN, the name of a run, or agent/NAME for the newest one of an Agent"

func newAttach(env *kube.Env) *cobra.Command {
	a := attaching{env: env}
	c := &cobra.Command{
		Use:   "attach RUN",
		Short: "watch what the agent of a run says and does, and answer its questions",
		Long: `attach shows all that was said in a run's session, then what is said from there on, until the run has ended: the agent's words, its
tools and what came of them, its plan, and how the run ended. A run that waits is waited for. The exit code is that of hearth wait.

It goes through the API server's port-forward with the key that may watch. With --steer it takes the key that may steer: questions of
the agent are put to you, and a digit answers them; a line that you type goes to the agent, where the Agent allows it
(runtime.steering: Steer). Ctrl-C leaves; the run goes on.`,
		Example: `  hearth attach review-x7k2p
  hearth attach review-x7k2p --steer
  hearth attach agent/reviewer`,
		Args:              exactly(whichRun+": "+env.Command("runs")+" lists them", 1),
		ValidArgsFunction: completeRuns(env, 1, func(r *hearthv1.AgentRun) bool { return !r.Standing() && !r.Ended() }),
		RunE:              func(c *cobra.Command, args []string) error { return a.attach(c.Context(), args[0]) },
	}
	c.Flags().BoolVar(&a.steer, "steer", false, "take the key that may steer: answer questions, and say something")
	c.Flags().DurationVar(&a.retryFor, "retry-for", connect.DefaultRetryFor, "how long to dial again after the connection was lost; 0 ends with it")
	return c
}

type attaching struct {
	env      *kube.Env
	steer    bool
	retryFor time.Duration
}

func (a *attaching) attach(ctx context.Context, arg string) error {
	if err := connect.CheckRetryFor(a.retryFor); err != nil {
		return err
	}
	run, err := worker(ctx, a.env, arg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT) // the terminal is given back first
	defer stop()
	screen, restore, err := attach.OpenScreen(ctx, a.env.In, a.env.Out, a.steer, kube.Width(a.env.Out))
	if err != nil {
		return err
	}
	defer restore()
	access := forward.Watch
	if a.steer {
		access = forward.Steer
	}
	name := run.Name
	run, err = showRun(ctx, a.env, run, attach.Follower{Access: access, Screen: screen, View: viewOn(a.env.Out), RetryFor: a.retryFor})
	restore()
	switch {
	case errors.Is(err, attach.ErrLeft) || ctx.Err() != nil:
		a.env.Say("left %s; the run goes on", name)
		a.env.Say("  come back: %s", a.env.Command("attach", name))
		a.env.Say("  stop it:   %s", a.env.Command("cancel", name))
		return &kube.Failure{Code: kube.ExitInterrupted}
	case err != nil:
		return unseen(a.env, err)
	}
	for _, line := range tell.Ended(run) {
		a.env.Say("%s", line)
	}
	if code := tell.Code(run); code != kube.ExitDone {
		return &kube.Failure{Code: code} // all is said
	}
	return nil
}

// watchRun is what run --follow shows, on stderr, with the key that may watch.
func watchRun(ctx context.Context, env *kube.Env, run *hearthv1.AgentRun) error {
	screen, _, err := attach.OpenScreen(ctx, nil, env.ErrOut, false, 0)
	if err != nil {
		return err
	}
	_, err = showRun(ctx, env, run, attach.Follower{Access: forward.Watch, Screen: screen, View: viewOn(env.ErrOut), RetryFor: connect.DefaultRetryFor})
	return err
}

// showRun follows a run to its end.
func showRun(ctx context.Context, env *kube.Env, run *hearthv1.AgentRun, f attach.Follower) (*hearthv1.AgentRun, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cluster, err := forward.In(env, func(string, ...any) {})
	if err != nil {
		return run, err
	}
	var story tell.Story
	f.Endpoint, f.Changes = &cluster, changes(ctx, env, run)
	f.Story = func(run *hearthv1.AgentRun) []string { return story.See(run, env.Now()) }
	return f.Follow(ctx, run)
}

// changes tells what becomes of a run.
func changes(ctx context.Context, env *kube.Env, run *hearthv1.AgentRun) <-chan attach.Change {
	events, over := observe(ctx, env, run)
	out := make(chan attach.Change)
	go func() {
		for {
			var c attach.Change
			select {
			case e := <-events:
				c = attach.Change{Run: e.run, Gone: e.gone}
				if e.run == nil {
					c.Say = troubled(e.trouble)
				}
			case err := <-over:
				c.Err = err
			case <-ctx.Done():
				return
			}
			select {
			case out <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func viewOn(stream io.Writer) view.Config {
	cfg := view.Config{Colour: kube.Colour(stream)}
	if kube.IsTerminal(stream) {
		cfg.Width = kube.Width(stream)
	}
	return cfg
}

// worker is the run that somebody named, which must be one that does work: agent/NAME is the newest of an Agent's, one that has not
// ended before one that has.
func worker(ctx context.Context, env *kube.Env, arg string) (*hearthv1.AgentRun, error) {
	agent, ofAgent := strings.CutPrefix(arg, "agent/")
	if ofAgent {
		return newest(ctx, env, agent)
	}
	run, err := get(ctx, env, arg)
	if err != nil {
		return nil, err
	}
	if run.Standing() {
		return nil, &kube.Failure{
			Err:  fmt.Errorf("run %s keeps a Pod of Agent %s standing, and does no work of its own", run.Name, run.Spec.AgentRef.Name),
			Next: env.Command("attach", "agent/"+run.Spec.AgentRef.Name) + " takes the newest run of that Agent; " + env.Command("runs") + " lists all",
			Code: kube.ExitFailed,
		}
	}
	return run, nil
}

func newest(ctx context.Context, env *kube.Env, agent string) (*hearthv1.AgentRun, error) {
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := env.Namespace()
	if err != nil {
		return nil, err
	}
	var list hearthv1.AgentRunList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, env.Explain(err)
	}
	var runs []*hearthv1.AgentRun
	for i := range list.Items {
		if r := &list.Items[i]; r.Spec.AgentRef.Name == agent && !r.Standing() {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil, &kube.Failure{
			Err:  fmt.Errorf("there is no run of an Agent %s in namespace %s", agent, namespace),
			Next: env.Command("run", agent) + " makes one; " + env.Command("agents") + " lists the Agents", Code: kube.ExitFailed,
		}
	}
	return slices.MaxFunc(runs, func(a, b *hearthv1.AgentRun) int {
		if a.Ended() != b.Ended() {
			return map[bool]int{true: -1, false: 1}[a.Ended()]
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	}), nil
}

// unseen says of an error on the way to a Pod what to do.
func unseen(env *kube.Env, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return &kube.Failure{Err: err, Next: "somebody who may make Roles there can give it to you: docs/clients.md, hearth connect, has the commands", Code: kube.ExitUnavailable}
	case errors.Is(err, attach.ErrDeleted):
		return &kube.Failure{Err: err, Code: kube.ExitUnknown}
	}
	return env.Explain(err)
}
