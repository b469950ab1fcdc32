package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/delivery/kontext"
	"github.com/hearthdev/hearth/runtime/check"
	"github.com/hearthdev/hearth/runtime/standing"
)

// orphanWord makes harness check leave a process behind and end: what it starts itself with to see it reaped.
const orphanWord = "orphan"

// checkup is one harness check: its flags are those of serve and of run, and how it reports.
type checkup struct {
	cfg     serveConfig
	format  string
	wrong   []string // variables that mean nothing, or hold what they cannot
	environ []string
	report  *check.Report

	unreachable error // the way to the agent that was given is none
}

// checkImage looks at all points, writes the report and returns the exit code: 0, 1 when a point failed, 2 for wrong flags.
func checkImage(args []string, out io.Writer) int {
	if slices.Equal(args, []string{orphanWord}) {
		return leaveOrphan()
	}
	c := checkup{environ: os.Environ()}
	err := errors.Join(conceal(), c.parse(args))
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(os.Stderr, "harness: %s\n%s", oneLine(err), usage)
		return exitUsage
	}
	agentEnv := c.look(context.Background())
	c.try(context.Background(), agentEnv)
	write := c.report.Table
	if c.format == formatJSON {
		write = c.report.JSON
	}
	if err := write(out); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", oneLine(err))
		return exitFailed
	}
	if c.report.Failed() {
		return exitFailed
	}
	return exitOK
}

// Words of -o, and the exit code of wrong flags.
const (
	formatTable, formatJSON = "table", "json"
	exitUsage               = 2
)

// parse reads the flags, and then the variables one by one, so that each that is wrong is told.
func (c *checkup) parse(args []string) error {
	known := pflag.NewFlagSet("serve or run", pflag.ContinueOnError)
	c.cfg.flags(known)
	one := pflag.NewFlagSet("run", pflag.ContinueOnError)
	new(runConfig).flags(one)
	one.VisitAll(func(f *pflag.Flag) {
		if known.Lookup(f.Name) == nil {
			known.AddFlag(f)
		}
	})
	fs := pflag.NewFlagSet("check", pflag.ContinueOnError)
	fs.SetOutput(os.Stderr)
	fs.SetInterspersed(false)
	fs.AddFlagSet(known)
	fs.StringVarP(&c.format, "format", "o", formatTable, "table or json")
	fs.Usage = func() {
		_, _ = fmt.Fprint(os.Stderr, usage, "\nThe flags are those of serve and run, and:\n\n", fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	if c.format != formatTable && c.format != formatJSON {
		return fmt.Errorf("-o: expected %s or %s, got %.16q", formatTable, formatJSON, c.format)
	}
	for _, pair := range c.environ {
		if err := fromEnvironment(known, []string{pair}); err != nil {
			c.wrong = append(c.wrong, err.Error())
		}
	}
	if err := c.cfg.reach.check("check", fs.Args()); errors.Is(err, errUsage) {
		return err
	} else {
		c.unreachable = err
	}
	return nil
}

// look judges all that can be seen without the agent, and returns the agent's environment.
func (c *checkup) look(ctx context.Context) []string {
	ours := map[string]string{}
	hidden := []string{}
	for _, pair := range c.environ {
		name, value, _ := strings.Cut(pair, "=")
		if slices.Contains(secrets, name) {
			ours[name] = value
		}
		if slices.Contains(secrets, name) || check.Sensitive(name) {
			hidden = append(hidden, value)
		}
	}
	settings := c.settings() // first: it makes the data directory's path whole
	agentEnv, scrubbed := scrub(c.environ)
	c.report = check.NewReport(hidden)
	place := check.Look(os.Getenv)
	left := 0
	if place.PID == 1 {
		left = check.Orphan(ctx, []string{"/proc/self/exe", "check", orphanWord}, nil)
	}
	var wrong error
	if len(c.wrong) > 0 {
		wrong = errors.New(strings.Join(c.wrong, "\n"))
	}
	c.report.Add(
		check.Judge("variables", errors.Join(wrong, scrubbed), "correct or remove them: a harness does not start with one that it does not know", "all HEARTH_ variables are known"),
		check.Judge("settings", settings, "correct the flag or variable", "flags and variables hold what they can"),
		c.identity(), c.peoples(),
		check.Exposed(agentEnv, c.cfg.command, ours),
		check.User(os.Geteuid(), os.Getegid()),
		check.RootFileSystem(place),
		check.Directory("data directory", c.cfg.dataDir, "mount a volume there that this user can write to (an emptyDir with fsGroup), or set "+variable("data-dir")),
		check.Directory("temporary files", os.TempDir(), "mount an emptyDir at /tmp, or set TMPDIR to a directory of the data directory"),
		check.FirstProcess(place, left),
		check.Port(ctx, "port of people", c.cfg.acpListen, variable("acp-listen")),
		check.Port(ctx, "port of delivery", c.cfg.deliveryListen, variable("delivery-listen")),
	)
	if _, older := lookup(c.environ, kontext.TokenVariable); older {
		c.report.Add(check.Port(ctx, "port of the older contract", c.cfg.kontextListen, variable("kontext-listen")))
	}
	return agentEnv
}

// settings is what a harness would say of its flags and variables.
func (c *checkup) settings() error {
	return errors.Join(c.cfg.settle(), c.unreachable, c.cfg.takeKey(c.environ), c.cfg.check())
}

// identity judges who this Pod is, for the contract whose secret is there.
func (c *checkup) identity() check.Point {
	const name = "identity"
	who, err := identify(c.environ, hostname)
	older, olderErr := identifyOlder(c.environ, hostname)
	switch {
	case err != nil, olderErr != nil:
		return check.Judge(name, errors.Join(err, olderErr), "the controller's Pods have it right; elsewhere set POD_NAMESPACE, POD_NAME and POD_UID by the downward API, and no hostname", "")
	case who != nil:
		i := who.identity
		return check.Judge(name, nil, "", fmt.Sprintf("Pod %s/%s, UID %s", i.Namespace, i.PodName, i.PodUID))
	case older != nil:
		return check.Judge(name, nil, "", "host "+older.hostname+", for the contract "+kontext.APIVersion)
	default:
		return check.Skip(name, "delivery is off: neither "+envToken+" nor "+kontext.TokenVariable+" is set")
	}
}

// peoples judges the keys of port 4000.
func (c *checkup) peoples() check.Point {
	const name = "keys of people"
	k, err := peoplesKeys(c.environ)
	if err == nil && k.View == "" && k.Steer == "" && k.OlderSteer == "" {
		return check.Skip(name, "none is set: nobody can watch or steer")
	}
	return check.Judge(name, err, "give each of them a random value of its own (openssl rand -base64 33)", "long enough, and not the same")
}

const wrongSettings = "not tried: the settings are wrong"

// try starts the agent, unless that cannot end well.
func (c *checkup) try(ctx context.Context, agentEnv []string) {
	program := check.Program(c.cfg.command, agentEnv)
	c.report.Add(program)
	c.report.Add(check.Needs(c.cfg.command, "/", func(name string) string {
		value, _ := lookup(agentEnv, name)
		return value
	})...)
	switch {
	case c.unreachable != nil:
		c.report.Add(check.Untried(wrongSettings)...)
		return
	case program.State == check.Failed:
		c.report.Add(check.Untried("not tried: the agent command cannot be started")...)
		return
	}
	dir := c.cfg.dataDir
	if _, err := os.Stat(dir); err != nil { // what is made for the trial is not left behind
		if dir, err = os.MkdirTemp("", "hearth-check-"); err != nil {
			c.report.Add(check.Untried("there is no directory that can be written to")...)
			return
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	cfg := c.cfg.pool(agentEnv, 1, nil, slog.New(slog.DiscardHandler), nil, standing.Signals{})
	cfg.DataDir = dir
	trial, err := standing.Try(ctx, cfg)
	if err != nil {
		why := err.Error()
		if c.settings() != nil { // and they were told above
			why = wrongSettings
		}
		c.report.Add(check.Untried(why)...)
		return
	}
	c.report.Add(check.Agent(trial, standing.DefaultEndGrace)...)
}

// leaveOrphan starts a process in a session of its own and ends without waiting for it.
func leaveOrphan() int {
	self, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		return exitFailed
	}
	cmd := &exec.Cmd{Path: self, Args: []string{self, "version"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if cmd.Start() != nil {
		return exitFailed
	}
	return exitOK
}
