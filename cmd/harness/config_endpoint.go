package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/runtime/dial"
)

const flagEndpoint = "endpoint"

// reach is what flags and environment say of the way to the agent (SPEC.md, Agents by endpoint).
type reach struct {
	command  []string
	endpoint dial.Endpoint // zero: the command speaks on stdin and stdout
	key      string        // of a server beside the harness; not a flag, which everybody can read

	url string // endpoint as it was given
}

func (r *reach) flags(fs *pflag.FlagSet) {
	fs.StringVar(&r.url, flagEndpoint, "", "where the agent's server listens on this host, as in ws://127.0.0.1:4001/acp; without a command it is somebody else's server")
}

// check finds the endpoint, which a known server's command tells by itself.
func (r *reach) check(name string, args []string) error {
	r.command = args
	flag := fmt.Sprintf("--%s (%s)", flagEndpoint, variable(flagEndpoint))
	var err error
	if r.url != "" {
		if r.endpoint, err = dial.ParseEndpoint(r.url); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	served, err := dial.Served(args)
	switch {
	case err != nil:
		return err
	case len(args) == 0 && r.url == "":
		return fmt.Errorf("no agent command: expected one after the flags, as in harness %s -- goose acp, or --%s (%w)", name, flagEndpoint, errUsage)
	case r.url == "":
		r.endpoint = served
	case !served.IsZero() && served != r.endpoint:
		return fmt.Errorf("%s: expected %s, where the command's server listens, got %s", flag, served, r.endpoint)
	}
	return nil
}

// takeKey reads the key of a server beside the harness. A server that the harness starts gets one of its own.
func (r *reach) takeKey(environ []string) error {
	r.key, _ = lookup(environ, dial.KeyVariable)
	for _, b := range []byte(r.key) {
		if b <= ' ' || b > '~' {
			return fmt.Errorf("%s: expected visible ASCII characters, as a header can carry", dial.KeyVariable)
		}
	}
	return nil
}
