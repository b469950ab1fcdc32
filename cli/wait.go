package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/cli/tell"
)

func newWait(env *kube.Env) *cobra.Command {
	w := waiting{env: env, output: kube.NewOutput(false)}
	c := &cobra.Command{
		Use:   "wait RUN",
		Short: "wait until a run has ended, print its output, and exit by how it ended",
		Long: `wait shows where a run is until it has ended, then prints its output on stdout; all else goes to stderr. The exit code says how it
ended, as that of run --wait does. Ctrl-C ends the waiting and not the run.`,
		Example: `  hearth wait review-x7k2p
  hearth wait review-x7k2p --timeout 10m -o json`,
		Args:              exactly("RUN, the name of a run: "+env.Command("runs")+" lists them", 1),
		ValidArgsFunction: completeRuns(env, 1, func(*hearthv1.AgentRun) bool { return true }),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkTimeout(w.timeout, true); err != nil {
				return err
			}
			if err := w.output.Check(); err != nil {
				return err
			}
			run, err := get(c.Context(), env, args[0])
			if kube.Code(err) == kube.ExitFailed { // there is none: how it ended nobody knows, and that it failed is not said
				failure := &kube.Failure{Err: err}
				errors.As(err, &failure)
				failure.Code = kube.ExitUnknown
				return failure
			}
			if err != nil {
				return err
			}
			return w.wait(c.Context(), run)
		},
	}
	w.bind(c)
	w.output.Bind(c)
	return c
}

var errDeleted = errors.New("was deleted")

// waiting waits for a run as a person does, who watches.
type waiting struct {
	env     *kube.Env
	output  *kube.Output
	timeout time.Duration
	follow  bool
}

func (w *waiting) bind(c *cobra.Command) {
	c.Flags().DurationVar(&w.timeout, "timeout", 0, "how long to wait, such as 10m; the run goes on afterwards; 0 is for as long as it takes")
	c.Flags().BoolVar(&w.follow, "follow", false, "show what the agent says and does while it works; waits, too")
}

// checkTimeout checks --timeout, which is for commands that wait.
func checkTimeout(timeout time.Duration, waits bool) error {
	switch {
	case timeout < 0:
		return kube.Usage("--timeout: expected a duration such as 10m, or 0 for as long as it takes, got %s", timeout)
	case timeout > 0 && !waits:
		return kube.Usage("--timeout goes with --wait: nothing else takes long")
	}
	return nil
}

// wait waits, says on stderr what there is to say, and prints the output. Its error has the exit code that says how the run ended.
func (w *waiting) wait(ctx context.Context, run *hearthv1.AgentRun) error {
	screen := newProgress(w.env)
	ended, err := w.watch(ctx, run, screen)
	screen.clear()
	if err != nil {
		return w.left(ctx, run, err)
	}
	phase, _, _ := tell.State(ended)
	screen.end(phase, tell.Ended(ended))
	if err := w.print(ended); err != nil {
		return unwritten(err)
	}
	if code := tell.Code(ended); code != kube.ExitDone {
		return &kube.Failure{Code: code} // all is said
	}
	return nil
}

// event is what a watch tells of the run, or of itself.
type event struct {
	run     *hearthv1.AgentRun
	gone    bool
	trouble error // or nil: it is over
}

// watch tells the run's story until it has ended.
func (w *waiting) watch(ctx context.Context, run *hearthv1.AgentRun, screen *progress) (*hearthv1.AgentRun, error) {
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, over := observe(ctx, w.env, run)
	following := &following{env: w.env, wanted: w.follow, screen: screen}
	defer following.stop()
	var story tell.Story
	ticks := time.NewTicker(screen.every())
	defer ticks.Stop()
	for {
		screen.draw(story.Phase(), story.Now(w.env.Now()))
		select {
		case e := <-events:
			switch {
			case e.gone:
				return nil, fmt.Errorf("run %s %w while it was waited for; what it was doing is cancelled", run.Name, errDeleted)
			case e.run == nil:
				screen.say(troubled(e.trouble))
			case e.run.Ended():
				following.settle(ctx)
				return e.run, nil
			default:
				screen.change(story.See(e.run, w.env.Now())...)
				following.begin(ctx, e.run)
			}
		case err := <-over:
			return nil, err
		case err := <-following.ended:
			following.over(err)
		case <-ticks.C:
			screen.say(story.Advice(w.env.Now(), w.env.Command)...)
		}
	}
}

// troubled says what keeps the API server from answering, or that nothing does any more.
func troubled(err error) string {
	if err == nil {
		return "the API server answers again"
	}
	return "the API server does not answer, trying again; runs go on meanwhile: " + kube.Line(err.Error())
}

// observe watches one run until it has ended or is gone; over gets why that cannot be done.
func observe(ctx context.Context, env *kube.Env, run *hearthv1.AgentRun) (events chan event, over chan error) {
	events, over = make(chan event), make(chan error, 1)
	send := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	go func() {
		watch := kube.Watch{
			Options: only(run),
			Known:   []*hearthv1.AgentRun{run},
			See: func(seen *hearthv1.AgentRun, gone bool) bool {
				if seen.UID != run.UID {
					return false // another of that name
				}
				// The last state before the end of a run that was deleted with it may be its record.
				send(event{run: seen, gone: gone && !seen.Ended()})
				return gone || seen.Ended()
			},
			Trouble: func(err error) { send(event{trouble: err}) },
		}
		if err := watch.Run(ctx, env); err != nil {
			over <- err
		}
	}()
	return events, over
}

// only chooses one run.
func only(run *hearthv1.AgentRun) []client.ListOption {
	return []client.ListOption{client.InNamespace(run.Namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(metav1.ObjectNameField, run.Name)}}
}

// left says that a wait is over and the run is not.
func (w *waiting) left(ctx context.Context, run *hearthv1.AgentRun, err error) error {
	if errors.Is(err, errDeleted) {
		return &kube.Failure{Err: err, Code: kube.ExitUnknown}
	}
	why := "the waiting has ended"
	switch {
	case !kube.Stopped(err):
	case ctx.Err() != nil:
		err = &kube.Failure{Code: kube.ExitInterrupted}
	default:
		why, err = fmt.Sprintf("not ended within %s", w.timeout), &kube.Failure{Code: kube.ExitWaiting}
	}
	w.env.Say("%s: %s; the run goes on", run.Name, why)
	w.env.Say("  come back: %s", w.env.Command("wait", run.Name))
	w.env.Say("  stop it:   %s", w.env.Command("cancel", run.Name))
	return err
}

// print writes what the run produced, or the run itself if -o asks for it. On a pipe not a byte is changed or added.
func (w *waiting) print(run *hearthv1.AgentRun) error {
	if w.output.Asked() {
		return w.output.Object(w.env, run)
	}
	if run.Status.Output == nil || run.Status.Output.Value == "" {
		return nil
	}
	value := run.Status.Output.Value
	if kube.IsTerminal(w.env.Out) {
		value = strings.TrimSuffix(kube.Text(value), "\n") + "\n"
	}
	_, err := io.WriteString(w.env.Out, value)
	return err
}
