// Package attach is hearth attach and hearth logs: what a person sees and says at the session of a run, through the endpoint of its Pod
// (R51–R55; SPEC.md, People at the agent).
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/attach/view"
	"github.com/hearthdev/hearth/cli/connect"
	"github.com/hearthdev/hearth/cli/forward"
)

const (
	// lookEvery is between two looks for a session that is not there yet.
	lookEvery = 300 * time.Millisecond
	// restAfterEnd is how long nothing may come, of a run that has ended, for what was said to be all.
	restAfterEnd = 3 * time.Second
	maxSays      = 16 // of the bridge, that wait to be shown
)

// Change is what became of a run.
type Change struct {
	Run  *hearthv1.AgentRun
	Gone bool   // it was deleted
	Say  string // else what the person should know of the watching
	Err  error  // else why there is no more to be known
}

// ErrDeleted says that a run was deleted while somebody watched.
var ErrDeleted = errors.New("was deleted while it was watched; what it was doing is cancelled")

// Follower shows what is said in a run's session, from attempt to attempt, until the run has ended.
type Follower struct {
	Endpoint Endpoint
	Access   forward.Access
	Screen   Screen
	View     view.Config
	RetryFor time.Duration
	// Changes tells of the run.
	Changes <-chan Change
	// Story, if set, says what there is to say of a run that waits.
	Story func(run *hearthv1.AgentRun) []string

	run *hearthv1.AgentRun
}

// Follow returns the run as it was last seen: with its record, unless there is an error. That what was said cannot be seen any more, as
// the Pod is gone, is none.
func (f *Follower) Follow(ctx context.Context, run *hearthv1.AgentRun) (*hearthv1.AgentRun, error) {
	f.run = run
	var tried place
	for first := true; ; first = false {
		p, err := placeOf(f.run)
		switch {
		case err == nil && begun(f.run) && (first || !p.same(tried)):
			tried = p
			if err := f.attend(ctx, p); err != nil {
				return f.run, err
			}
			if f.run.Ended() {
				return f.run, nil
			}
			continue
		case f.run.Ended():
			return f.run, nil
		case errors.As(err, new(forward.Final)):
			return f.run, err
		}
		if err := f.tell(); err != nil {
			return f.run, err
		}
		if err := f.wait(ctx); err != nil {
			return f.run, err
		}
	}
}

// begun tells whether a run's session can be there: it works, and its Pod listens.
func begun(run *hearthv1.AgentRun) bool {
	listens := run.Delivered() || meta.IsStatusConditionTrue(run.Status.Conditions, hearthv1.AgentRunConditionACPReady)
	return run.Ended() || run.Status.Phase == hearthv1.PhaseRunning && listens
}

// tell says what the run waits for.
func (f *Follower) tell() error {
	if f.Story == nil {
		return nil
	}
	v := view.New(f.View)
	for _, line := range f.Story(f.run) {
		if _, err := f.Screen.Write(v.Say(line)); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for a change of the run.
func (f *Follower) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case c := <-f.Changes:
			return f.changed(c)
		case in := <-f.Screen.Inputs():
			if in.Left {
				return ErrLeft
			}
		}
	}
}

func (f *Follower) changed(c Change) error {
	if c.Say != "" {
		_, err := f.Screen.Write(view.New(f.View).Say(c.Say))
		return err
	}
	run, err := c.after(f.run)
	f.run = run
	return err
}

// after is the run after a change.
func (c Change) after(run *hearthv1.AgentRun) (*hearthv1.AgentRun, error) {
	switch {
	case c.Err != nil:
		return run, c.Err
	case c.Run == nil:
		return run, nil
	case c.Gone && !c.Run.Ended():
		return c.Run, fmt.Errorf("run/%s %w", c.Run.Name, ErrDeleted)
	}
	return c.Run, nil
}

// attend shows one attempt until it is over, or is elsewhere.
func (f *Follower) attend(ctx context.Context, p place) error {
	ctx, cancel := context.WithCancel(ctx)
	cfg := f.View
	cfg.RunUID, cfg.Attempt = p.run, p.attempt
	a := &attending{
		Follower: f, place: p, inbox: make(chan []byte), says: make(chan string, maxSays), ended: make(chan error, 1),
		talk: newTalk(view.New(cfg), p, f.Access == forward.Steer && f.Screen.Inputs() != nil && f.Screen.Keys()),
	}
	in, stdin := io.Pipe()
	a.stdin = stdin
	bridge := &connect.Bridge{Target: fixed{f.Endpoint, p.pod, f.Access}, RetryFor: f.RetryFor, Say: a.say}
	go func() {
		err := bridge.Run(ctx, in, mailbox{ctx, a.inbox})
		_ = in.Close() // what is sent now goes nowhere
		a.ended <- err
	}()
	err := a.attend(ctx)
	f.Screen.Ask(Asked{})
	if _, failed := f.Screen.Write(a.talk.view.End()); err == nil {
		err = failed
	}
	cancel()
	_ = stdin.Close()
	if !a.over {
		<-a.ended
	}
	return err
}

// mailbox hands each message over, which the bridge writes whole.
type mailbox struct {
	ctx context.Context //nolint:containedctx // an io.Writer has no other way
	to  chan<- []byte
}

func (m mailbox) Write(message []byte) (int, error) {
	select {
	case m.to <- message:
		return len(message), nil
	case <-m.ctx.Done():
		return 0, m.ctx.Err()
	}
}

// attending is one connection's worth of following; the bridge makes one of many.
type attending struct {
	*Follower
	place place
	talk  *talk
	inbox chan []byte
	says  chan string
	ended chan error
	last  string // that the bridge said
	over  bool   // the bridge is
	stdin io.Writer
}

// say takes what the bridge has to say. What is too much for a person is not shown.
func (a *attending) say(format string, args ...any) {
	select {
	case a.says <- fmt.Sprintf(format, args...):
	default:
	}
}

func (a *attending) attend(ctx context.Context) error {
	if err := a.do(step{send: [][]byte{a.talk.hello()}}); err != nil {
		return err
	}
	rest, look := newStopped(), newStopped()
	defer rest.Stop()
	defer look.Stop()
	for {
		if a.run.Ended() && a.talk.view.Over() {
			return nil
		}
		var s step
		select {
		case message := <-a.inbox:
			s = a.talk.message(message)
			if a.run.Ended() {
				rest.Reset(restAfterEnd)
			}
			if s.look {
				look.Reset(lookEvery)
			}
		case line := <-a.says:
			s.show = a.news(line)
		case c := <-a.Changes:
			if over, err := a.heard(c); err != nil || over {
				return err
			}
			if a.run.Ended() {
				rest.Reset(restAfterEnd)
			}
		case in := <-a.Screen.Inputs():
			if in.Left {
				return ErrLeft
			}
			s = a.said(in)
		case <-look.C:
			s.send = [][]byte{a.talk.look()}
		case <-rest.C:
			return nil
		case err := <-a.ended:
			a.over = true
			return a.lost(err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := a.do(s); err != nil {
			return err
		}
	}
}

// heard takes a change of the run, and tells whether the attempt is over here: it goes on elsewhere, or waits to.
func (a *attending) heard(c Change) (over bool, err error) {
	if err := a.changed(c); err != nil {
		return true, err
	}
	p, err := placeOf(a.run)
	return err != nil || !p.same(a.place), nil
}

// said takes what the person did.
func (a *attending) said(in Input) step {
	if in.Key > 0 {
		return a.talk.pressed(in.Key, in.Asked)
	}
	return a.talk.typed(in.Line)
}

// news shows what the bridge says, once in a row.
func (a *attending) news(line string) []byte {
	if line == a.last {
		return nil
	}
	a.last = line
	return a.talk.view.Say(line)
}

func newStopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// do does what follows. What cannot be sent any more was for a bridge that has ended, and says so itself.
func (a *attending) do(s step) error {
	asked := a.talk.now()
	if asked.Keys == 0 {
		a.Screen.Ask(asked)
	}
	if len(s.show) > 0 {
		if _, err := a.Screen.Write(s.show); err != nil {
			return fmt.Errorf("show: %w", err)
		}
	}
	a.Screen.Ask(asked) // no key answers what is not shown yet
	for _, m := range s.send {
		_, _ = a.stdin.Write(append(m, '\n'))
	}
	return s.err
}

// lost judges the end of a bridge. A Pod that is gone is nobody's fault here: what became of its run, the run will tell.
func (a *attending) lost(err error) error {
	if !over(err) {
		return err
	}
	_, failed := a.Screen.Write(a.talk.view.Warn(fmt.Sprintf("%v: what was said there can be seen no more", err)))
	return failed
}
