package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/kontext"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/runtime/standing"
	"github.com/hearthdev/hearth/runtime/turn"
)

const (
	defaultDataDir = "/var/lib/hearth"
	defaultDrain   = 55 * time.Second // the Service default grace period of 90 s, less what cancelling and handing over take
	maxQueue       = 1000
	maxKeep        = 100_000
)

// config is everything that flags and environment say, parsed once.
type config struct {
	acpListen, deliveryListen, kontextListen string
	deliveryScheme                           string
	dataDir, goalFile                        string
	concurrency, queue, keep                 int
	drain, silence, startTimeout             time.Duration
	permissions                              turn.Policy
	command                                  []string
	goal                                     string        // the content of goalFile
	keys                                     endpoint.Keys // of port 4000; not flags, which everybody can read
}

// parse reads flags, then HEARTH_ variables for the flags not given: --data-dir is HEARTH_DATA_DIR.
func parse(args, environ []string) (config, error) {
	var c config
	var permissions string
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SetOutput(os.Stderr)
	fs.SetInterspersed(false)
	fs.StringVar(&c.acpListen, "acp-listen", ":4000", "where agent clients connect; listening means ready")
	fs.StringVar(&c.deliveryListen, "delivery-listen", fmt.Sprintf(":%d", wire.DefaultPort), "where work is delivered; off without "+envToken)
	fs.StringVar(&c.kontextListen, "kontext-listen", fmt.Sprintf(":%d", kontext.DefaultPort), "where work is delivered by the older contract; off without "+kontext.TokenVariable)
	fs.StringVar(&c.deliveryScheme, "delivery-scheme", string(wire.SchemeHTTPS), "HTTPS, or HTTP for a caller that cannot: it hides no goal from who reads the wire")
	fs.StringVar(&c.dataDir, "data-dir", defaultDataDir, "journal, agents' homes and work directories")
	fs.StringVar(&c.goalFile, "goal-file", "", "file with what the standing agent is told before every goal")
	fs.IntVar(&c.concurrency, "concurrency", 1, "agent processes, and goals at once")
	fs.IntVar(&c.queue, "queue", 1, "goals accepted beyond those")
	fs.IntVar(&c.keep, "keep", journal.DefaultKeep, "recorded results kept")
	fs.DurationVar(&c.drain, "drain", defaultDrain, "how long running goals may go on after SIGTERM")
	fs.DurationVar(&c.silence, "silence", turn.DefaultSilence, "how long an agent may be silent within a goal")
	fs.DurationVar(&c.startTimeout, "start-timeout", standing.DefaultStartTimeout, "how long an agent may take to answer after its start")
	fs.StringVar(&permissions, "permissions", string(turn.Deny), "answer to permission questions: Deny or Allow")
	fs.Usage = func() {
		_, _ = fmt.Fprint(os.Stderr, usage, "\nEach flag is also a variable: --data-dir is HEARTH_DATA_DIR.\n\n", fs.FlagUsages())
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return c, err
		}
		return c, fmt.Errorf("%w (%w)", err, errUsage)
	}
	if err := fromEnvironment(fs, environ); err != nil {
		return c, err
	}
	var err error
	if c.permissions, err = turn.ParsePolicy(permissions); err != nil {
		return c, fmt.Errorf("--permissions: %w", err)
	}
	if c.command = fs.Args(); len(c.command) == 0 {
		return c, fmt.Errorf("no agent command: expected one after the flags, as in harness serve -- goose acp (%w)", errUsage)
	}
	return c, c.check()
}

func (c *config) check() error {
	for _, n := range []struct {
		flag          string
		value, lo, hi int
	}{
		{"concurrency", c.concurrency, 1, standing.MaxConcurrency}, {"queue", c.queue, 0, maxQueue}, {"keep", c.keep, 1, maxKeep},
	} {
		if n.value < n.lo || n.value > n.hi {
			return fmt.Errorf("--%s (%s): expected a number from %d to %d, got %d", n.flag, variable(n.flag), n.lo, n.hi, n.value)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		zero  bool
	}{{"drain", c.drain, true}, {"silence", c.silence, false}, {"start-timeout", c.startTimeout, false}} {
		if d.value < 0 || d.value == 0 && !d.zero {
			return fmt.Errorf("--%s (%s): expected a positive duration such as 90s, got %s", d.flag, variable(d.flag), d.value)
		}
	}
	if s := wire.Scheme(c.deliveryScheme); s != wire.SchemeHTTPS && s != wire.SchemeHTTP {
		return fmt.Errorf("--delivery-scheme (%s): expected %s or %s, got %.16q", variable("delivery-scheme"), wire.SchemeHTTPS, wire.SchemeHTTP, s)
	}
	var err error
	if c.dataDir, err = filepath.Abs(c.dataDir); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	return c.readGoal()
}

// readGoal reads the standing goal; an empty file is none.
func (c *config) readGoal() error {
	if c.goalFile == "" {
		return nil
	}
	info, err := os.Stat(c.goalFile)
	if err != nil {
		return fmt.Errorf("--goal-file: %w", err)
	}
	if info.Size() > wire.MaxGoalBytes {
		return fmt.Errorf("--goal-file %s: expected at most %d bytes, got %d", c.goalFile, wire.MaxGoalBytes, info.Size())
	}
	b, err := os.ReadFile(c.goalFile)
	if err != nil {
		return fmt.Errorf("--goal-file: %w", err)
	}
	c.goal = wire.CleanText(strings.TrimSpace(string(b)))
	return nil
}
