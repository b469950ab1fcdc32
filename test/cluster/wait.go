package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	pollEvery   = 250 * time.Millisecond
	repeatEvery = 5 * time.Second
)

// Look tells whether what is waited for came true, and the state it is in. An error is looked at again until the limit.
type Look func(context.Context) (done bool, state string, err error)

// Stop makes an error end a Wait at once.
func Stop(err error) error { return stopped{err} }

type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// Wait looks until what is waited for came true, at most for the limit. It prints each new state, and the same one every five
// seconds. The error says what was waited for and the last state.
func (c *Cluster) Wait(ctx context.Context, what string, limit time.Duration, look Look) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var shown string
	var shownAt time.Time
	started, last := time.Now(), "not looked at"
	for {
		done, state, err := look(ctx)
		elapsed := time.Since(started).Round(100 * time.Millisecond)
		var final stopped
		switch {
		case errors.As(err, &final):
			return fmt.Errorf("waiting for %s: %w", what, final.error)
		case err == nil && done:
			c.say("%s: %s (%s)", what, state, elapsed)
			return nil
		case err != nil && ctx.Err() != nil: // the limit itself; the state before it says more
		case err != nil:
			last = err.Error()
		default:
			last = state
		}
		if ctx.Err() == nil && elapsed >= time.Second && (last != shown || time.Since(shownAt) >= repeatEvery) {
			c.say("waiting for %s: %s (%s of %s)", what, last, elapsed, limit)
			shown, shownAt = last, time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: not within %s (%w); last: %s", what, limit, ctx.Err(), last)
		case <-ticker.C:
		}
	}
}

// Condition is the condition of that type, or an empty one.
func Condition(conditions []metav1.Condition, kind string) metav1.Condition {
	for _, condition := range conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return metav1.Condition{}
}

func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
}
