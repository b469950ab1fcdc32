package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/kontext"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/standing"
)

const (
	defaultDrain = 55 * time.Second // the Service default grace period of 90 s, less what cancelling and handing over take
	maxQueue     = 1000
	maxKeep      = 100_000
)

// serveConfig is what flags and environment say to harness serve.
type serveConfig struct {
	config
	deliveryListen, kontextListen string
	deliveryScheme                string
	concurrency, queue, keep      int
	session                       string // Fresh or Standing
}

func parseServe(args, environ []string) (serveConfig, error) {
	var c serveConfig
	err := parse("serve", &c, args, environ)
	return c, err
}

func (c *serveConfig) flags(fs *pflag.FlagSet) {
	c.config.flags(fs)
	fs.StringVar(&c.deliveryListen, "delivery-listen", fmt.Sprintf(":%d", wire.DefaultPort), "where work is delivered; off without "+envToken)
	fs.StringVar(&c.kontextListen, "kontext-listen", fmt.Sprintf(":%d", kontext.DefaultPort), "where work is delivered by the older contract; off without "+kontext.TokenVariable)
	fs.StringVar(&c.deliveryScheme, "delivery-scheme", string(wire.SchemeHTTPS), "HTTPS, or HTTP for a caller that cannot: it hides no goal from who reads the wire")
	fs.StringVar(&c.goalFile, "goal-file", "", "file with what the standing agent is told before the first goal of a session")
	fs.IntVar(&c.concurrency, "concurrency", 1, "agent processes, and goals at once")
	fs.IntVar(&c.queue, "queue", 1, "goals accepted beyond those")
	fs.StringVar(&c.session, flagSession, freshSession, "a new session for each goal: Fresh, or one that remembers: Standing, with a concurrency of 1")
	fs.IntVar(&c.keep, "keep", journal.DefaultKeep, "recorded results kept")
	fs.DurationVar(&c.drain, "drain", defaultDrain, "how long running goals may go on after SIGTERM")
}

func (c *serveConfig) check() error {
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
	if !c.endpoint.IsZero() && c.concurrency != 1 {
		return fmt.Errorf("--concurrency (%s): expected 1 with an agent at %s, which is one server, got %d", variable("concurrency"), c.endpoint, c.concurrency)
	}
	var err error
	if c.session, err = word(flagSession, c.session, freshSession, oneSession); err != nil {
		return err
	}
	if c.session == oneSession && c.concurrency != 1 {
		return fmt.Errorf("--%s (%s): expected a --concurrency of 1 with %s, got %d", flagSession, variable(flagSession), oneSession, c.concurrency)
	}
	if err := c.checkPeriods(); err != nil {
		return err
	}
	if s := wire.Scheme(c.deliveryScheme); s != wire.SchemeHTTPS && s != wire.SchemeHTTP {
		return fmt.Errorf("--delivery-scheme (%s): expected %s or %s, got %.16q", variable("delivery-scheme"), wire.SchemeHTTPS, wire.SchemeHTTP, s)
	}
	if c.goalFile == "" {
		return nil
	}
	return c.readGoal()
}

// sessionMode is the session of goals that ask for none.
func (c *serveConfig) sessionMode() wire.SessionMode {
	if c.session == oneSession {
		return wire.SessionStanding
	}
	return wire.SessionFresh
}
