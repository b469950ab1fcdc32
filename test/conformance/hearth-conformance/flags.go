package main

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/test/conformance"
)

// output is where the report goes and how it is judged.
type output struct {
	json        string
	allowNotRun bool
}

// parse reads the flags.
func parse(args []string) (conformance.Options, output, error) {
	var o conformance.Options
	var out output
	var target, tokenFile, restart, drain, start, selected string
	fs := pflag.NewFlagSet("hearth-conformance", pflag.ContinueOnError)
	fs.StringVar(&target, "target", "", "http://host:port or https://host:port of the delivery listener")
	fs.StringVar(&o.Identity.PodName, "pod", "", "POD_NAME of the runtime")
	fs.StringVar(&o.Identity.PodUID, "pod-uid", "", "POD_UID of the runtime")
	fs.StringVar(&o.Identity.Namespace, "namespace", "", "POD_NAMESPACE of the runtime; unchecked when empty")
	fs.StringVar(&tokenFile, "token-file", "", "file with the root secret, HEARTH_DELIVERY_TOKEN of the runtime")
	fs.StringVar(&restart, "restart-cmd", "", "shell command that restarts the runtime on the same data and address; kill -9 is welcome")
	fs.StringVar(&drain, "drain-cmd", "", "shell command that sends the runtime SIGTERM")
	fs.StringVar(&start, "start-cmd", "", "shell command that runs one more runtime in the foreground, with its own data and ports and the POD_ and token variables it is given")
	fs.StringVar(&o.GoalQuick, "goal-quick", conformance.DefaultGoalQuick, "goal that the agent carries out with success, soon")
	fs.StringVar(&o.GoalSlow, "goal-slow", conformance.DefaultGoalSlow, "goal that the agent works on for at least 5 s, then ends with success")
	fs.DurationVar(&o.Patience, "patience", conformance.DefaultPatience, "how long to wait for an attempt to end or a listener to be back")
	fs.StringVar(&out.json, "json", "", "file for the report as JSON; - writes it to standard output in place of the table")
	fs.BoolVar(&out.allowNotRun, "allow-not-run", false, "cases that were not run are no failure")
	fs.StringVar(&selected, "run", "", "regular expression of the case IDs to run")
	if err := fs.Parse(args); err != nil {
		return o, out, fmt.Errorf("%w", err)
	}
	if fs.NArg() > 0 {
		return o, out, fmt.Errorf("%q: expected flags only", fs.Arg(0))
	}
	var err error
	if o.Target, err = url.Parse(target); err != nil {
		return o, out, fmt.Errorf("--target: %w", err)
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return o, out, fmt.Errorf("--token-file: %w", err)
	}
	o.Root = strings.TrimRight(string(token), "\r\n")
	if selected != "" {
		if o.Select, err = regexp.Compile("^(?:" + selected + ")$"); err != nil {
			return o, out, fmt.Errorf("--run: %w", err)
		}
	}
	if restart != "" {
		o.Restart = conformance.Command(restart)
	}
	if drain != "" {
		o.Drain = conformance.Command(drain)
	}
	if start != "" {
		o.Start = conformance.Starter(start)
	}
	o.Progress = os.Stderr
	return o, out, nil
}

// write writes the table, and the JSON where it was asked for.
func (o output) write(r conformance.Report) error {
	if o.json == "-" {
		return r.WriteJSON(os.Stdout)
	}
	if o.json != "" {
		f, err := os.Create(o.json)
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		if err := r.WriteJSON(f); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	return r.WriteTable(os.Stdout)
}
