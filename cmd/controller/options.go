package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hearthdev/hearth/api/shard"
)

// options are the controller's flags.
type options struct {
	metrics, probes string
	webhookPort     int
	leaderElect     bool
	namespace       string
	// namespaces are those that are served; none means all.
	namespaces []string
	// agents are the shards whose Agents this controller works for; admission serves all.
	agents shard.Set
	// adHoc lets those who may create Pods make runs without an Agent.
	adHoc bool
	// page is where the status page listens, "" for nowhere; pageHosts are names that it answers to beside localhost.
	page      string
	pageHosts []string
	// profiles is where Go's profiles are served, "" for nowhere.
	profiles string
	level    slog.Level
	// version has the version printed, and nothing served.
	version bool
}

// parse reads the flags. What it cannot use is an error that names the flag and what was expected.
func parse(args []string, getenv func(string) string, usage io.Writer) (options, error) {
	o := options{namespace: getenv("POD_NAMESPACE"), agents: shard.All()}
	if o.namespace == "" {
		o.namespace = "hearth-system"
	}
	set := flag.NewFlagSet("controller", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&o.metrics, "metrics-bind-address", ":8080", "address of the metrics listener; 0 for none")
	set.StringVar(&o.probes, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	set.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the admission webhooks")
	set.BoolVar(&o.leaderElect, "leader-elect", true, "of several replicas let one lead; all of them serve admission")
	set.StringVar(&o.namespace, "namespace", o.namespace, "the controller's own namespace, with its lease and its webhook certificate (default $POD_NAMESPACE)")
	set.Func("namespaces", "the namespaces to serve, separated by commas; empty for all. Caches, Secrets and writes are limited to them (config/namespaced)", func(v string) (err error) {
		o.namespaces, err = served(v)
		return err
	})
	set.Func("agent-selector", "a label selector over hearth.dev/shard: the Agents to work for, with their runs and Pods; empty for all. Others are for other controllers, each with a Lease of its own; admission serves all (docs/install.md)", func(v string) (err error) {
		o.agents, err = shard.Parse(v)
		return err
	})
	set.BoolVar(&o.adHoc, "allow-ad-hoc-runs", false, "let those who may create Pods in a namespace make AgentRuns without an Agent there (config/ad-hoc)")
	pageFlags(set, &o)
	profileFlag(set, &o)
	set.TextVar(&o.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	set.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := set.Parse(args); err != nil {
		set.SetOutput(usage)
		set.PrintDefaults()
		return options{}, fmt.Errorf("flags: %w", err)
	}
	if set.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: expected flags only (-h lists them)", set.Arg(0))
	}
	if o.webhookPort < 1 || o.webhookPort > 65535 {
		return options{}, fmt.Errorf("--webhook-port=%d: expected a port from 1 to 65535", o.webhookPort)
	}
	if !o.leaderElect && !o.agents.Everything() {
		return options{}, errors.New("--agent-selector: expected --leader-elect beside it: controllers know of each other's shards by their Leases")
	}
	return o, nil
}

// served reads a list of namespaces.
func served(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names := strings.Split(list, ",")
	for i, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("expected names of namespaces with a comma between them, %.63q is none", name)
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("expected each namespace once, %s is there twice", name)
		}
	}
	return names, nil
}
