package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/hearthdev/hearth/internal/version"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/runtime/standing"
	"github.com/hearthdev/hearth/runtime/turn"
)

const defaultDataDir = "/var/lib/hearth"

// config is what flags and environment say to every harness, parsed once.
type config struct {
	acpListen, dataDir, goalFile string
	metricsListen                string
	silence, startTimeout, drain time.Duration
	permissions                  turn.Policy
	manners
	reach
	goal string        // the content of goalFile
	keys endpoint.Keys // of port 4000; not flags, which everybody can read

	policy string // permissions as they were given
}

// settings are a command's flags: those of every harness, and its own.
type settings interface {
	common() *config
	flags(fs *pflag.FlagSet)
	check() error
}

func (c *config) common() *config { return c }

func (c *config) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.acpListen, "acp-listen", endpoint.DefaultAddr, "where agent clients connect; listening means ready")
	metricsFlag(fs, &c.metricsListen)
	fs.StringVar(&c.dataDir, "data-dir", defaultDataDir, "journal, agents' homes and work directories")
	fs.DurationVar(&c.silence, "silence", turn.DefaultSilence, "how long an agent may be silent within a goal")
	fs.DurationVar(&c.startTimeout, "start-timeout", standing.DefaultStartTimeout, "how long an agent may take to answer after its start")
	c.manners.flags(fs)
	c.reach.flags(fs)
	fs.StringVar(&c.policy, "permissions", string(turn.Deny), "answer to permission questions: Deny, Allow, or Ask people, and Deny where none answers")
}

// parse reads the flags of harness NAME, then HEARTH_ variables for the flags not given: --data-dir is HEARTH_DATA_DIR.
func parse(name string, s settings, args, environ []string) error {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(os.Stderr)
	fs.SetInterspersed(false)
	s.flags(fs)
	fs.Usage = func() {
		_, _ = fmt.Fprint(os.Stderr, usage, "\nEach flag is also a variable: --data-dir is HEARTH_DATA_DIR.\n\n", fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w (%w)", err, errUsage)
	}
	if err := fromEnvironment(fs, environ); err != nil {
		return err
	}
	c := s.common()
	if err := c.settle(); err != nil {
		return err
	}
	if err := c.reach.check(name, fs.Args()); err != nil {
		return err
	}
	return s.check()
}

// settle reads the flags of every harness but the way to its agent.
func (c *config) settle() (err error) {
	if c.dataDir, err = filepath.Abs(c.dataDir); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if c.permissions, err = turn.ParsePolicy(c.policy); err != nil {
		return fmt.Errorf("--permissions: %w", err)
	}
	return c.manners.check()
}

// period is a flag that holds a duration.
type period struct {
	flag  string
	value time.Duration
	zero  bool // it may be none
}

// checkPeriods looks at the durations of every harness, and at a command's own.
func (c *config) checkPeriods(own ...period) error {
	for _, d := range append(own, period{"drain", c.drain, true}, period{"silence", c.silence, false}, period{"start-timeout", c.startTimeout, false}) {
		if d.value < 0 || d.value == 0 && !d.zero {
			return fmt.Errorf("--%s (%s): expected a positive duration such as 90s, got %s", d.flag, variable(d.flag), d.value)
		}
	}
	return nil
}

// readGoal reads the goal file, of which no more than a goal may be long is held in memory.
func (c *config) readGoal() error {
	if info, err := os.Stat(c.goalFile); err == nil && !info.Mode().IsRegular() { // a pipe would be waited for without end
		return fmt.Errorf("--goal-file %s: expected a regular file", c.goalFile)
	}
	f, err := os.Open(c.goalFile)
	if err != nil {
		return fmt.Errorf("--goal-file: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, wire.MaxGoalBytes+1))
	if err != nil {
		return fmt.Errorf("--goal-file: %w", err)
	}
	if len(b) > wire.MaxGoalBytes {
		return fmt.Errorf("--goal-file %s: expected at most %d bytes, got more", c.goalFile, wire.MaxGoalBytes)
	}
	c.goal = wire.CleanText(strings.TrimSpace(string(b)))
	return nil
}

// conceal keeps processes of the same user from finding secrets in /proc. It comes before anything is read.
func conceal() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process non-dumpable: %w", err)
	}
	return nil
}

// takeSecrets reads the keys of port 4000 and returns the environment that agents get, in which no secret is left.
func (c *config) takeSecrets(environ []string, log *slog.Logger) ([]string, error) {
	var err error
	if c.keys, err = peoplesKeys(environ); err != nil {
		return nil, err
	}
	if err := c.takeKey(environ); err != nil {
		return nil, err
	}
	agentEnv, err := scrub(environ)
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		log.Warn("running as root: an agent of the same user can read this process's memory, secrets included")
	}
	return agentEnv, nil
}

// pool is the configuration of a pool of agents.
func (c *config) pool(agentEnv []string, concurrency int, guests standing.Guests, log *slog.Logger, onChange func(wire.AgentInfo), heard standing.Signals) standing.Config {
	return standing.Config{
		Command: c.command, Endpoint: c.endpoint, EndpointKey: c.key, Env: agentEnv, DataDir: c.dataDir, Concurrency: concurrency, Permissions: c.permissions, Output: turn.MediaType(c.output),
		Silence: c.silence, StartTimeout: c.startTimeout, Log: log, Now: time.Now, Version: version.Of(), Guests: guests, OnChange: onChange, Signals: heard,
	}
}
