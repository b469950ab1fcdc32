package connect

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthdev/hearth/cli/kube"
)

const long = `connect copies messages of the Agent Client Protocol between stdin and stdout and the endpoint of an agent in a Pod, for editors
and other clients that start an agent as a process. stdout is protocol only; all else goes to stderr.

TARGET is one of
  agent/NAME               a standing run of the Agent that listens
  run/NAME                 the Pod that a run was delivered to, or its own
  ws://HOST:PORT/acp       an endpoint by its URL, with the key in --key-file or in ` + EnvKey + `

The first two go through the API server's port-forward, and read the key from the Secret NAME-acp-steer, or from NAME-acp-view with
--watch, and when you may not read the other. When the connection is lost it is dialled again and the open sessions are loaded
again: you see what was said meanwhile, and nothing twice.`

// NewCommand is hearth connect.
func NewCommand(env *kube.Env) *cobra.Command {
	var (
		keyFile string
		watch   bool
		bridge  Bridge
	)
	c := &cobra.Command{
		Use:   "connect TARGET",
		Short: "be the agent in a Pod, for a client that starts agents as processes",
		Long:  long,
		Example: `  hearth connect agent/reviewer -n team
  hearth connect run/review-17 --watch
  ` + EnvKey + `=… hearth connect ws://localhost:4000/acp`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return kube.Usage("expected one TARGET: agent/NAME, run/NAME or a URL such as ws://host:4000/acp, got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := CheckRetryFor(bridge.RetryFor); err != nil {
				return err
			}
			bridge.Say = func(format string, args ...any) {
				_, _ = fmt.Fprintf(c.ErrOrStderr(), "hearth connect: "+format+"\n", args...)
			}
			var err error
			if bridge.Target, err = target(args[0], keyFile, env, watch, bridge.Say); err != nil {
				return err
			}
			err = bridge.Run(c.Context(), c.InOrStdin(), c.OutOrStdout())
			if c.Context().Err() != nil { // told to end
				return nil
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&keyFile, "key-file", "", "a file with the key of an endpoint given by its URL")
	f.BoolVar(&watch, "watch", false, "use the key that may watch and not steer")
	f.DurationVar(&bridge.RetryFor, "retry-for", DefaultRetryFor, "how long to dial again after the connection was lost; 0 ends with it")
	return c
}

// CheckRetryFor checks --retry-for.
func CheckRetryFor(d time.Duration) error {
	if d < 0 {
		return kube.Usage("--retry-for: expected a duration such as 5m, or 0 to end with the connection, got %s", d)
	}
	return nil
}

// target reads what the command line says.
func target(arg, keyFile string, env *kube.Env, watch bool, say func(string, ...any)) (Target, error) {
	if !strings.Contains(arg, "://") {
		if keyFile != "" {
			return nil, kube.Usage("--key-file: goes with a URL; the key of an agent or run is in its Secret")
		}
		return inKubernetes(arg, env, watch, say)
	}
	if env.Chosen() || watch {
		return nil, kube.Usage("a URL goes with --key-file and --retry-for only: what the key may do is for the endpoint to say")
	}
	t, err := atURL(arg, keyFile)
	if err != nil {
		return nil, kube.Usage("%w", err)
	}
	return t, nil
}
