package kube

import (
	"context"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Follower shows what the agent of a run does, while it does it: hearth run --follow. It is called once the run has started and has
// a Pod, writes to Env.ErrOut only (the run's output goes to Env.Out when it has ended), and returns when there is nothing more to
// show or ctx ends. Its error is told and ends nothing: the run is waited for all the same.
type Follower func(ctx context.Context, env *Env, run *hearthv1.AgentRun) error
