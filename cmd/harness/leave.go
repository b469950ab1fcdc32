package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Exit codes of harness run (R11; SPEC.md, One-shot runs).
const (
	exitOK      = 0
	exitFailed  = 1 // anything else, a wrong configuration too
	exitLimit   = 2 // the agent's own limit, the budget, or the run's own time
	exitRefused = 3
)

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

// leave writes an envelope into the termination log, in one write, so that nobody ever reads half of it.
func leave(path string, e wire.Envelope) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the place is configured
	if err != nil {
		return fmt.Errorf("--%s: %w", flagTermination, err)
	}
	_, err = f.Write(wire.EncodeTermination(e))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--%s: %w", flagTermination, err)
	}
	return nil
}

// say writes the agent's answer for people who read the container's log: no longer than an envelope may be, and nothing in it
// commands a terminal.
func say(out io.Writer, e wire.Envelope) error {
	if e.Output == nil || e.Output.Value == "" {
		return nil
	}
	_, err := io.WriteString(out, strings.TrimSuffix(legible(e.Output.Value), "\n")+"\n")
	return err
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
