package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/turn"
)

// Exit codes of harness run (R11; SPEC.md, One-shot runs).
const (
	exitOK      = 0
	exitFailed  = 1 // anything else, a wrong configuration too
	exitLimit   = 2 // the agent's own limit, the budget, or the run's own time
	exitRefused = 3
)

// sayLimit is how long the log may take the answer. The result is left by then, and a log that nobody reads must not hold the Pod.
const sayLimit = 10 * time.Second

func exitCode(e wire.Envelope) int {
	if e.Outcome == wire.OutcomeSucceeded {
		return exitOK
	}
	switch e.Reason {
	case wire.ReasonLimitReached, wire.ReasonBudgetExceeded, wire.ReasonDeadlineExceeded:
		return exitLimit
	case wire.ReasonRefused:
		return exitRefused
	default:
		return exitFailed
	}
}

// leave writes an envelope of at most limit bytes into the termination log, in one write, so that nobody ever reads half of it.
func leave(path string, e wire.Envelope, limit int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the place is configured
	if err != nil {
		return fmt.Errorf("--%s: %w", flagTermination, err)
	}
	_, err = f.Write(wire.EncodeTerminationWithin(e, limit))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--%s: %w", flagTermination, err)
	}
	return nil
}

// keepWhole: JSON that the termination message cannot carry whole is no answer (SPEC.md, JSON output).
func keepWhole(e wire.Envelope, limit int) wire.Envelope {
	if e.Output == nil || e.Output.MediaType != string(turn.JSON) || e.Fit(limit).Output != nil && e.Fit(limit).Output.Value == e.Output.Value {
		return e
	}
	e.Outcome, e.Reason = wire.OutcomeFailed, wire.ReasonResultTooLarge
	e.Message = fmt.Sprintf("the JSON of %d bytes does not fit into a termination message of %d; the container's log has the whole", len(e.Output.Value), limit)
	return e
}

// say writes the agent's answer for people who read the container's log: no longer than an envelope may be, and nothing in it
// commands a terminal.
func say(out io.Writer, e wire.Envelope) error {
	if e.Output == nil || e.Output.Value == "" {
		return nil
	}
	text, said := strings.TrimSuffix(legible(e.Output.Value), "\n")+"\n", make(chan error, 1)
	go func() {
		_, err := io.WriteString(out, text)
		said <- err
	}()
	select {
	case err := <-said:
		return err
	case <-time.After(sayLimit):
		return fmt.Errorf("nobody took it within %s", sayLimit)
	}
}

// legible replaces what a terminal would act upon, or show in another order than it stands, by U+FFFD.
func legible(text string) string {
	return strings.Map(func(r rune) rune {
		const joiner, nonJoiner = '\u200d', '\u200c' // parts of words and emoji
		if r == '\n' || r == '\t' || r == joiner || r == nonJoiner || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}
