package check

import (
	"context"
	"errors"
	"time"

	"github.com/hearthdev/hearth/runtime/process"
)

// How long dead processes may wait to be reaped, and how often they are looked for.
const (
	reapLimit = 2 * time.Second
	reapEvery = 10 * time.Millisecond
)

// Orphan runs a command that leaves a process behind, and tells how many dead ones were not reaped afterwards; that it could not be
// run counts as one.
func Orphan(ctx context.Context, command, env []string) int {
	reaping, stop := context.WithCancel(context.WithoutCancel(ctx))
	reaped := make(chan error, 1)
	go func() { reaped <- process.Reap(reaping) }()
	defer func() {
		stop()
		<-reaped
	}()
	p, err := process.Start(process.Spec{Command: command, Env: env, Marker: "check"})
	if err != nil {
		return 1
	}
	defer func() { _ = p.Stdout.Close() }()
	<-p.Done()
	var exit *process.ExitError
	if !errors.As(p.Err(), &exit) || exit.Exit.Code != 0 {
		return 1
	}
	ctx, cancel := context.WithTimeout(ctx, reapLimit)
	defer cancel()
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for {
		left, err := process.Unreaped()
		if err == nil && left == 0 {
			return 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return max(left, 1)
		}
	}
}
