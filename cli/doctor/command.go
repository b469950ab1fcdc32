package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/hearthdev/hearth/cli/forward"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/internal/version"
)

const long = `doctor walks from the API server to the agent, and says at each link whether it holds: the API server, the CRDs and their fields, the
controller and its lease, the webhooks with their certificate and a dry run of a create, the controller's rights and yours; then of AGENT, or
of each Agent of the namespace, its conditions, standing runs, Pods, Secrets, the proof of the delivery port, the agent's own
endpoint, and the runs that wait. Of what is broken it says what it saw, what to do, and where the documentation says more.

It changes nothing, prints no goal and no secret, and looks with your rights: what you may not read is "not checked", and why. With
--deliver it makes a run of AGENT, which stays, and shows how that went.

Exit code: 0 nothing that was looked at is broken, 1 something is, 2 the API server, or Agents and their runs, could not be looked at.`

// SystemNamespace is where the controller is, unless somebody put it elsewhere.
const SystemNamespace = "hearth-system"

const defaultTimeout = 2 * time.Minute

// flags of the command.
type flags struct {
	deliver    bool
	parameters []string
	timeout    time.Duration
	system     string
	output     string
}

// NewCommand is hearth doctor.
func NewCommand(env *kube.Env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use: "doctor [AGENT]", Short: "find out what is broken between you and an agent, and what to do about it", Long: long,
		Example: `  hearth doctor
  hearth doctor reviewer -n team
  hearth doctor reviewer --deliver -p change='PR 17'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return kube.Usage("expected one AGENT or none, got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c.Context(), env, args) },
	}
	set := c.Flags()
	set.BoolVar(&f.deliver, "deliver", false, "make a run of AGENT as a test, and show how it went; it stays")
	set.StringArrayVarP(&f.parameters, "param", "p", nil, "with --deliver: a parameter of the run, NAME=VALUE; may be given often")
	set.DurationVar(&f.timeout, "timeout", defaultTimeout, "with --deliver: how long to wait for the run's end")
	set.StringVar(&f.system, "system-namespace", SystemNamespace, "the controller's namespace")
	set.StringVarP(&f.output, "output", "o", "", "json, for machines")
	return c
}

func (f *flags) run(ctx context.Context, env *kube.Env, args []string) error {
	agent := strings.TrimPrefix(strings.Join(args, ""), "agent/")
	test, err := f.test(agent)
	if err != nil {
		return err
	}
	test.Say = func(state string) { _, _ = fmt.Fprintln(env.ErrOut, kube.Line(state)) }
	config, err := env.Config()
	if err != nil {
		return couldNotLook(err)
	}
	namespace, err := env.Namespace()
	if err != nil {
		return couldNotLook(err)
	}
	cluster, err := NewCluster(config, forwarding(config))
	if err != nil {
		return couldNotLook(err)
	}
	seen := Gather(ctx, cluster, Options{Namespace: namespace, System: f.system, Agent: agent, Version: version.Of(), Now: time.Now}) //nolint:forbidigo // a shell
	if ctx.Err() != nil {
		return ctx.Err()
	}
	report := Diagnose(seen)
	if f.deliver {
		cluster.Deliver(ctx, seen, report, test)
	}
	return f.print(env.Out, report)
}

// forwarding dials through the API server.
func forwarding(config *rest.Config) Dial {
	return func(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
		return forward.Conn(ctx, config, namespace, pod, port)
	}
}

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// test reads what the test run is to be.
func (f *flags) test(agent string) (Test, error) {
	t := Test{Parameters: map[string]string{}, Within: f.timeout}
	switch {
	case f.output != "" && f.output != "json":
		return t, kube.Usage("-o: expected json or nothing, got %.32q", f.output)
	case f.deliver && agent == "":
		return t, kube.Usage("--deliver: expected an AGENT to deliver to")
	case !f.deliver && len(f.parameters) > 0:
		return t, kube.Usage("-p: goes with --deliver")
	case f.timeout <= 0:
		return t, kube.Usage("--timeout: expected a duration such as 2m, got %s", f.timeout)
	}
	for _, p := range f.parameters {
		name, value, found := strings.Cut(p, "=")
		if !found || !parameterName.MatchString(name) {
			return t, kube.Usage("-p: expected NAME=VALUE, got %.64q before the =", name)
		}
		if _, twice := t.Parameters[name]; twice {
			return t, kube.Usage("-p: expected each parameter once, %s is there twice", name)
		}
		t.Parameters[name] = value
	}
	return t, nil
}

func (f *flags) print(out io.Writer, r *Report) error {
	write := Print
	if f.output == "json" {
		write = PrintJSON
	}
	if err := write(out, r); err != nil {
		return err
	}
	switch r.ExitCode() {
	case ExitBroken:
		return &kube.Failure{Err: fmt.Errorf("%s", r.first()), Code: ExitBroken}
	case ExitBlind:
		return couldNotLook(errors.New(cmp.Or(r.first(), "the Agents and their runs could not be looked at")))
	}
	return nil
}

func couldNotLook(err error) error {
	failure := &kube.Failure{Err: err, Code: ExitBlind}
	var known *kube.Failure
	if errors.As(err, &known) {
		failure.Next = known.Next
	}
	return failure
}
