package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/turn"
)

const (
	flagTermination      = "termination-log"
	flagTerminationBytes = "termination-bytes"
	flagRunUID           = "run-uid"
	// defaultTermination is where kubelet looks unless a container says otherwise.
	defaultTermination = "/dev/termination-log"
)

// runConfig is what flags and environment say to harness run.
type runConfig struct {
	config
	termination string
	kept        int // how much of it is kept
	active      time.Duration
	tokens      int64
	cost        string
	limits      turn.Limits // of the three
	runUID      string
	run         turn.Run // whose goal it is; empty where nobody told
}

// parseRun reads the configuration. Where it leaves its envelope is known even if the rest is wrong.
func parseRun(args, environ []string) (runConfig, error) {
	c := runConfig{}
	err := parse("run", &c, args, environ)
	if path, given := lookup(environ, variable(flagTermination)); err != nil && given && c.termination == defaultTermination {
		c.termination = path
	}
	if err == nil {
		err = c.name(environ)
	}
	return c, err
}

// name finds out whose goal it is: the Pod of a run is named as the run.
func (c *runConfig) name(environ []string) error {
	if c.runUID == "" {
		return nil
	}
	if len(c.runUID) > wire.MaxUIDBytes {
		return fmt.Errorf("--%s (%s): expected at most %d bytes, got %d", flagRunUID, variable(flagRunUID), wire.MaxUIDBytes, len(c.runUID))
	}
	c.run = turn.Run{UID: c.runUID, Attempt: 1}
	for name, into := range map[string]*string{"POD_NAMESPACE": &c.run.Namespace, "POD_NAME": &c.run.Name} {
		if *into, _ = lookup(environ, name); *into == "" {
			return fmt.Errorf("%s: expected this Pod's, from the downward API, because %s is set", name, variable(flagRunUID))
		}
	}
	return nil
}

func (c *runConfig) flags(fs *pflag.FlagSet) {
	c.config.flags(fs)
	fs.StringVar(&c.goalFile, "goal-file", "", "file with the goal; required")
	fs.StringVar(&c.termination, flagTermination, defaultTermination, "file that the result is left in")
	fs.IntVar(&c.kept, flagTerminationBytes, wire.MaxTerminationBytes, "how long the result may be there; a Pod's containers share 12 KiB")
	fs.DurationVar(&c.active, "active-deadline", 0, "the run's own time, from the harness's start, in seconds, begun ones in full; 0 does not limit")
	fs.Int64Var(&c.tokens, "budget-tokens", 0, "how many tokens the agent may use, where it tells; 0 does not limit")
	fs.StringVar(&c.cost, "budget-cost", "", `what the agent may cost, where it tells, as in "5 USD"`)
	fs.StringVar(&c.runUID, flagRunUID, "", "UID of the run that the goal is of, which POD_NAMESPACE and POD_NAME name; people who attach are told")
	fs.DurationVar(&c.drain, "drain", 0, "how long the agent may go on after SIGTERM")
}

func (c *runConfig) check() error {
	if err := c.checkPeriods(period{"active-deadline", c.active, true}); err != nil {
		return err
	}
	if c.kept < wire.MinTerminationBytes || c.kept > wire.MaxTerminationBytes {
		return fmt.Errorf("--%s (%s): expected %d to %d, got %d", flagTerminationBytes, variable(flagTerminationBytes), wire.MinTerminationBytes, wire.MaxTerminationBytes, c.kept)
	}
	if c.tokens < 0 {
		return fmt.Errorf("--budget-tokens (%s): expected a positive number, got %d", variable("budget-tokens"), c.tokens)
	}
	c.limits = turn.Limits{ActiveSeconds: int64(c.active / time.Second), Tokens: c.tokens}
	if c.active%time.Second > 0 {
		c.limits.ActiveSeconds++
	}
	if c.cost != "" {
		amount, currency, _ := strings.Cut(c.cost, " ")
		c.limits.Cost = &wire.Cost{Amount: amount, Currency: currency}
		if !c.limits.Cost.ValidAmount() || !c.limits.Cost.ValidCurrency() || strings.Trim(amount, "0.") == "" {
			return fmt.Errorf("--budget-cost (%s): expected a positive amount and a currency, as in \"5 USD\", got %.64q", variable("budget-cost"), c.cost)
		}
	}
	if c.goalFile == "" {
		return errors.New("--goal-file (" + variable("goal-file") + "): expected the file that has the goal")
	}
	if err := c.readGoal(); err != nil {
		return err
	}
	if c.goal == "" {
		return fmt.Errorf("--goal-file %s: expected a goal, found nothing but white space", c.goalFile)
	}
	return nil
}
