// Package conformance checks any runtime against the wire contract: a case for each requirement that has an ID in SPEC.md. It
// knows the contract only: it does its own HTTP, byte by byte where shapes matter, and uses nothing of this project's two halves.
package conformance

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Goals that the runtime under test should carry out, unless told otherwise.
const (
	DefaultGoalQuick = "Reply with the single word ok."
	DefaultGoalSlow  = "Run the command: sleep 8. Then reply with the single word ok."
	// DefaultPatience is how long the kit waits for an attempt to end, or for a listener to be there.
	DefaultPatience = time.Minute
)

// Options of a run of the kit. Restart, Drain, Start and Select may be nil.
type Options struct {
	Target   *url.URL      // http://host:port or https://host:port of the delivery listener
	Identity wire.Identity // of the Pod under test
	Root     string        // the Pod's root secret
	// GoalQuick is a goal that the runtime's agent ends soon, GoalSlow one that it works on for at least five seconds and then ends.
	GoalQuick, GoalSlow string
	Patience            time.Duration
	// Restart ends the harness, by force or not, and starts it again on the same data and address.
	Restart func(context.Context) error
	// Drain sends SIGTERM.
	Drain func(context.Context) error
	// Start runs another harness in the foreground, with its own data and ports, with these variables in its environment. It
	// returns when that harness ended, nil for exit code 0.
	Start  func(ctx context.Context, environ []string) error
	Select *regexp.Regexp // of case IDs; the others are not run
	// Progress gets a line for each case as it ends.
	Progress io.Writer
}

// Kit runs cases against one runtime.
type Kit struct {
	Options
	keys challenge.Keys
}

// New checks the options.
func New(o Options) (*Kit, error) {
	if u := o.Target; u == nil || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("target: expected http://host:port or https://host:port and nothing more")
	}
	if o.Identity.PodName == "" || o.Identity.PodUID == "" {
		return nil, fmt.Errorf("pod: expected its name and its UID")
	}
	keys, err := challenge.Derive([]byte(o.Root), o.Identity.PodUID)
	if err != nil {
		return nil, fmt.Errorf("token-file: %w", err)
	}
	o.GoalQuick, o.GoalSlow = orElse(o.GoalQuick, DefaultGoalQuick), orElse(o.GoalSlow, DefaultGoalSlow)
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return &Kit{Options: o, keys: keys}, nil
}

// Run runs every case, one after the other. It fails only when nothing answers at the target, or ctx ends.
func (k *Kit) Run(ctx context.Context) (Report, error) {
	if err := k.awaitListener(ctx); err != nil {
		return Report{}, fmt.Errorf("nothing answers at the target: %w", err)
	}
	report := Report{Target: k.Target.String(), Pod: k.Identity.PodName}
	for _, c := range Cases() {
		if ctx.Err() != nil {
			return report, fmt.Errorf("interrupted: %w", ctx.Err())
		}
		began := time.Now()
		r := Result{ID: c.ID, Title: c.Title}
		if why := k.skip(c); why != "" {
			r.Verdict, r.Why = NotRun, why
		} else if c.tls && k.Target.Scheme != "https" {
			r.Verdict, r.Why = NotApplicable, "applies to https targets only"
		} else {
			r.Verdict, r.Why = k.try(ctx, c)
			r.Why = printable(k.withoutSecrets(r.Why))
		}
		r.Millis = time.Since(began).Milliseconds()
		report.Results = append(report.Results, r)
		_, _ = fmt.Fprintf(k.Progress, "%-7s %s %s\n", r.Verdict, r.ID, r.Title)
	}
	return report, nil
}

// firstPatience bounds how long a runtime that was started just before the kit may take to listen.
const firstPatience = 10 * time.Second

func (k *Kit) awaitListener(ctx context.Context) error {
	late := time.After(min(firstPatience, k.Patience))
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		conn, err := k.dialPlain(ctx)
		if err == nil {
			return conn.Close() //nolint:wrapcheck // has the address
		}
		select {
		case <-late:
			return err
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-again.C:
		}
	}
}

// skip tells why a case cannot be run.
func (k *Kit) skip(c Case) string {
	switch {
	case k.Select != nil && !k.Select.MatchString(c.ID):
		return "not selected"
	case c.needs == restarts && k.Restart == nil:
		return "needs --restart-cmd"
	case c.needs == drains && k.Drain == nil:
		return "needs --drain-cmd"
	case c.needs == starts && k.Start == nil:
		return "needs --start-cmd"
	default:
		return ""
	}
}

// withoutSecrets keeps goals and the token out of what is told, whatever an answer or a command's output had in it.
func (k *Kit) withoutSecrets(s string) string {
	return strings.NewReplacer(k.Root, "[token]", k.GoalQuick, "[goal]", k.GoalSlow, "[goal]").Replace(s)
}

// maxWhy bounds what is told of a case.
const maxWhy = 2 << 10

// printable keeps a target's bytes from being the terminal's commands.
func printable(s string) string {
	return wire.CutText(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s), maxWhy)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
