package main

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/standing"
	"github.com/hearthdev/hearth/runtime/turn"
)

// agents makes the standing pool the server's runner.
type agents struct {
	pool     *standing.Pool
	standing string           // what an agent is told before the first goal of a session
	session  wire.SessionMode // of a goal that asks for none
	info     atomic.Pointer[wire.AgentInfo]
}

// Agent is what the pool last told, so that asking never waits for the pool.
func (a *agents) Agent() wire.AgentInfo {
	if info := a.info.Load(); info != nil {
		return *info
	}
	return wire.AgentInfo{State: wire.AgentStarting}
}

// Run carries one goal out.
func (a *agents) Run(ctx context.Context, w server.Work, start func(session string) error) wire.Envelope {
	goal := turn.Goal{
		Run:  turn.Run{Namespace: w.Run.Namespace, Name: w.Run.Name, UID: w.Run.UID, Attempt: w.Attempt},
		Text: w.Goal, Standing: a.standing, Limits: turn.Limits{Cost: w.Limits.Cost},
		Session: cmp.Or(w.Session, a.session), Trace: w.Trace,
	}
	if w.Limits.ActiveSeconds != nil {
		goal.Limits.ActiveSeconds = *w.Limits.ActiveSeconds
	}
	if w.Limits.Tokens != nil {
		goal.Limits.Tokens = *w.Limits.Tokens
	}
	return a.pool.Turn(ctx, goal, start)
}
