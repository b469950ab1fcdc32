package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

type running struct {
	waiting
	parameters parameters
	name       string
	prefix     string
	waits      bool
}

func newRun(env *kube.Env) *cobra.Command {
	r := &running{waiting: waiting{env: env, output: kube.NewOutput(false)}}
	c := &cobra.Command{
		Use:   "run AGENT [-p NAME=VALUE]...",
		Short: "have an agent do something",
		Long: `run makes an AgentRun, prints its name at once and, with --wait, shows where it is until it has ended, then prints its output on
stdout. All else goes to stderr, so a script can read the output. The exit code says how the run ended. Ctrl-C ends the waiting
and not the run.

The value of a parameter is a text. @FILE reads it from a file and - from stdin; @@ begins a value that begins with @.`,
		Example: `  hearth run reviewer -p change="PR 17"
  hearth run reviewer -p change="PR 17" --wait > review.txt
  git diff | hearth run reviewer -p change=- --wait --timeout 10m
  hearth run reviewer -f parameters.yaml -p depth=2 -o name`,
		Args:              exactly("AGENT, the name of an Agent: "+env.Command("agents")+" lists them", 1),
		ValidArgsFunction: completeAgents(env, func(a *hearthv1.Agent) bool { return a.Spec.Mode != hearthv1.AgentModeScheduled }),
		RunE: func(c *cobra.Command, args []string) error {
			return r.run(c.Context(), agentName(args[0]))
		},
	}
	r.bind(c)
	r.output.Bind(c)
	f := c.Flags()
	f.StringArrayVarP(&r.parameters.given, "param", "p", nil, "a parameter, as NAME=VALUE, NAME=@FILE or NAME=- for stdin; as often as there are")
	f.StringVarP(&r.parameters.file, "parameters", "f", "", "a YAML or JSON file with parameters by their names, or - for stdin; -p goes before it")
	f.BoolVarP(&r.waits, "wait", "w", false, "wait until the run has ended, and print its output")
	f.StringVar(&r.name, "name", "", "the run's name; one that is free is made unless given")
	f.StringVar(&r.prefix, "generate-name", "", "what the name that is made begins with; the Agent's name and - unless given")
	c.MarkFlagsMutuallyExclusive("name", "generate-name")
	must(c.RegisterFlagCompletionFunc("param", completeParameters(env)))
	return c
}

// must is for what fails only when the program itself is wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (r *running) run(ctx context.Context, agent string) error {
	r.waits = r.waits || r.follow
	if err := checkTimeout(r.timeout, r.waits); err != nil {
		return err
	}
	if err := r.output.Check(); err != nil {
		return err
	}
	values, err := r.parameters.read(ctx, r.env.In)
	if err != nil {
		return err
	}
	run, err := r.create(ctx, agent, values)
	if err != nil {
		return err
	}
	created := fmt.Sprintf("agentrun.%s/%s created", hearthv1.GroupVersion.Group, run.Name)
	switch {
	case r.waits:
		r.env.Say("%s", created)
		return r.wait(ctx, run)
	case r.output.Asked():
		err = r.output.Object(r.env, run)
	default:
		_, err = fmt.Fprintln(r.env.Out, created)
	}
	if err != nil { // who does not know that there is one makes another
		r.env.Say("%s", created)
	}
	return unwritten(err)
}

// unwritten says of what came of a command that it could not be written.
func unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &kube.Failure{Err: fmt.Errorf("what came of it could not be written: %w", err), Code: kube.ExitUnwritten}
}

// create makes the sparse run. That its Agent changed meanwhile is nobody's fault, and the same request works again.
func (r *running) create(ctx context.Context, agent string, values map[string]string) (*hearthv1.AgentRun, error) {
	c, err := r.env.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := r.env.Namespace()
	if err != nil {
		return nil, err
	}
	prefix := r.prefix
	if prefix == "" {
		prefix = agent + "-"
	}
	var run *hearthv1.AgentRun
	err = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		run = &hearthv1.AgentRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.name},
			Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent}, Parameters: values},
		}
		if r.name == "" {
			run.GenerateName = prefix
		}
		return c.Create(ctx, run, client.FieldOwner("hearth"))
	})
	if err != nil {
		return nil, refused(ctx, r.env, namespace, agent, err)
	}
	return run, nil
}
