package client

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// errPanic is what a panic comes to: the Link backs off and goes on, and so does every other one (fault row 42).
var errPanic = errors.New("a fault of the controller")

// panicked counts a panic of one of the Link's goroutines and says it. What panicked may hold a goal: only its type is logged.
func (l *Link) panicked(p any) {
	l.cfg.Log.Error("panic in a link", "pod", l.cfg.Target.PodName, "podUID", l.cfg.Target.PodUID, "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	if l.cfg.Panicked != nil {
		l.cfg.Panicked()
	}
}

// caught makes a panic an error of the function that defers it.
func (l *Link) caught(err *error) {
	if p := recover(); p != nil {
		l.panicked(p)
		*err = errPanic
	}
}

// one carries a command out and files that it is over, also when that panics: then nobody knows what came of it.
func (l *Link) one(c command, s Status) {
	var done bool
	defer func() {
		if p := recover(); p != nil {
			l.panicked(p)
			if c.verb == verbSend {
				l.sent(c, delivery.SendUnknown, "", errPanic.Error())
			}
		}
		l.tellDone(c)
		// An attempt may have ended or been refused, so there may be room again.
		l.cfg.Changed(Change{PodUID: l.cfg.Target.PodUID, Link: true, Runs: []wire.RunRef{c.run}})
	}()
	defer func() {
		if !done {
			l.finish(c, false, 0)
		}
	}()
	ok, retry := l.carryOut(c, s)
	l.finish(c, ok, retry)
	done = true
}

// tellDone tells whoever asked for it what a delivery proved.
func (l *Link) tellDone(c command) {
	if c.verb != verbSend || c.delivery.Done == nil || l.ctx.Err() != nil {
		return
	}
	if a, ok := l.Snapshot(c.key()); ok {
		c.delivery.Done(a.Sent)
	}
}
