package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/runtime/standing"
	"github.com/hearthdev/hearth/runtime/turn"
)

// oneShot is a harness that does one goal (R11; SPEC.md, One-shot runs).
type oneShot struct {
	cfg   runConfig
	log   *slog.Logger
	door  *door
	pool  *standing.Pool
	folk  *people
	heard *signals
	began time.Time
	sent  atomic.Bool  // the goal was, or was about to be
	runs  atomic.Int32 // 1 while it is
	trace trace.SpanContext
	fatal chan error // what ends the harness although nobody asked it to
}

// runOnce does one goal, leaves its envelope as termination message, says the answer on out, and returns the exit code.
func runOnce(args []string, signals <-chan os.Signal, out io.Writer, log *slog.Logger) int {
	o := &oneShot{log: log, began: time.Now(), fatal: make(chan error, 1)}
	err := o.prepare(context.Background(), args)
	if o.heard != nil {
		defer o.heard.close(context.Background()) // when the result is left: it is worth more
	}
	var e wire.Envelope
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		e = unstarted(err)
	default:
		e = keepWhole(o.carryOut(signals), o.cfg.kept)
	}
	if err := leave(o.cfg.termination, e, o.cfg.kept); err != nil {
		log.Error("the result could not be left as termination message", "cause", err)
	}
	if err := say(out, e); err != nil {
		log.Error("the answer could not be written", "cause", err)
	}
	fmt.Fprintln(os.Stderr, "harness:", o.lastLine(e))
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
	}
	return exitCode(e)
}

func unstarted(err error) wire.Envelope { return turn.Unstarted(context.Background(), time.Now(), err) }

// lastLine is the end in words. Once the agent has the goal its own words may quote it, so they are for the envelope only.
func (o *oneShot) lastLine(e wire.Envelope) string {
	text := string(e.Outcome) + "/" + string(e.Reason)
	switch {
	case e.Outcome == wire.OutcomeSucceeded:
		return text
	case o.sent.Load():
		return text + "; the termination message says more"
	}
	return oneLine(errors.New(text + ": " + e.Message))
}

// prepare boots in the order of SPEC.md, Harness, up to the agent.
func (o *oneShot) prepare(ctx context.Context, args []string) error {
	concealed := conceal()
	environ := os.Environ()
	var err error
	o.cfg, err = parseRun(args, environ) // in any case: it knows where the envelope goes
	if err = errors.Join(concealed, err); err != nil {
		return err
	}
	agentEnv, err := o.cfg.takeSecrets(environ, o.log)
	if err != nil {
		return err
	}
	o.heard = newSignals(ctx, environ, o.log)
	o.heard.set.Watch(func() (int, int) { return 0, int(o.runs.Load()) })
	o.heard.listen(ctx, o.cfg.metricsListen)
	o.heard.serve(ctx)
	o.trace = traceOf(environ)
	if o.folk, err = newPeople(&o.cfg.config, environ, o.log); err != nil {
		return err
	}
	o.door = &door{endpoint: endpoint.New(endpoint.Config{Addr: o.cfg.acpListen, Keys: o.cfg.keys, Clients: o.folk, Transcripts: o.folk.store, Log: o.log, Now: time.Now, Ended: o.fail, Attached: o.heard.attached})}
	o.pool, err = standing.New(o.cfg.pool(agentEnv, 1, o.folk.hub, o.log, o.agentChanged, o.heard.agents()))
	o.folk.pool = o.pool
	o.cfg.limits.Since = o.began // the agent's start is in it: the controller counts from the container's, and must not be first
	return err
}

// agentChanged opens port 4000 when the agent answers and closes it when it does not.
func (o *oneShot) agentChanged(info wire.AgentInfo) {
	if err := o.door.set(context.Background(), info.State == wire.AgentReady); err != nil {
		o.fail(err)
	}
}

func (o *oneShot) fail(err error) {
	select {
	case o.fatal <- err:
	default: // one reason is enough
	}
}

// carryOut gives the agent its goal, and returns when the agent is gone with everything it started.
func (o *oneShot) carryOut(signals <-chan os.Signal) wire.Envelope {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	ended, answer := make(chan error, 1), make(chan wire.Envelope, 1)
	go func() { ended <- o.pool.Run(context.Background()) }()
	go func() {
		answer <- o.pool.Turn(ctx, turn.Goal{Run: o.cfg.run, Text: o.cfg.goal, Limits: o.cfg.limits, Trace: o.trace}, func(string) error {
			o.runs.Store(1)
			o.sent.Store(true)
			return nil
		})
	}()
	e := o.await(answer, signals, cancel)
	o.runs.Store(0)
	if err := o.door.close(); err != nil {
		o.log.Warn("acp: could not be closed", "cause", err)
	}
	limit, stop := context.WithTimeout(context.Background(), endLimit)
	defer stop()
	if err := o.pool.End(limit); err != nil {
		o.log.Error("the agent could not be ended", "cause", err)
		e.Warnings = append(e.Warnings, "the agent could not be ended: "+err.Error())
		return e
	}
	if err := o.folk.close(); err != nil {
		o.log.Warn("the transcript could not be stored", "cause", err)
	}
	if err := <-ended; err != nil && !o.sent.Load() && e.Outcome == wire.OutcomeFailed {
		return unstarted(err) // it could not be started
	}
	return e
}

// await returns the answer. A signal ends the turn, at once or when the drain's time is over, and so does what is fatal.
func (o *oneShot) await(answer <-chan wire.Envelope, signals <-chan os.Signal, cancel context.CancelCauseFunc) wire.Envelope {
	var broken error
	var late <-chan time.Time
	var asked os.Signal
	for {
		select {
		case e := <-answer:
			if broken != nil && e.Outcome == wire.OutcomeCancelled {
				e.Outcome, e.Reason, e.Message = wire.OutcomeFailed, wire.ReasonAgentError, broken.Error()
			}
			return e
		case broken = <-o.fatal:
			cancel(broken)
		case s := <-signals:
			o.log.Info("asked to end", "signal", s.String(), "limit", o.cfg.drain)
			if asked == nil && o.cfg.drain > 0 {
				late = time.After(o.cfg.drain)
			} else {
				o.giveUp(s, cancel)
			}
			asked = s
		case <-late:
			o.giveUp(asked, cancel)
		}
	}
}

// giveUp cancels the turn. Until it has ended the termination message says what is known, because a kill may come first.
func (o *oneShot) giveUp(s os.Signal, cancel context.CancelCauseFunc) {
	why := fmt.Errorf("the harness was asked to end (%s)", s)
	now := time.Now()
	if err := leave(o.cfg.termination, wire.Envelope{
		Outcome: wire.OutcomeCancelled, Reason: wire.ReasonCancelled, Message: why.Error() + " and was killed before the agent had ended",
		Timing: wire.Timing{StartedAt: o.began, FinishedAt: now, DurationMillis: now.Sub(o.began).Milliseconds()},
	}, o.cfg.kept); err != nil {
		o.log.Warn("the termination message could not be written", "cause", err)
	}
	cancel(why)
}
