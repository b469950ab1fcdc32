package cli

import (
	"context"
	"time"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

// settleTime is how long somebody who follows may take to show the rest of a run that has ended.
const settleTime = 5 * time.Second

// following is the showing of an agent at work, beside the waiting for its run.
type following struct {
	env    *kube.Env
	wanted bool
	screen *progress
	cancel context.CancelFunc
	ended  chan error // nil while nobody follows
}

// begin begins to follow a run that has started.
func (f *following) begin(ctx context.Context, run *hearthv1.AgentRun) {
	if !f.wanted || run.Status.StartTime == nil || run.Status.PodName == "" {
		return
	}
	f.wanted = false
	ctx, f.cancel = context.WithCancel(ctx)
	ended := make(chan error, 1)
	f.ended = ended
	f.screen.hold(true)
	go func() { ended <- watchRun(ctx, f.env, run) }()
}

// over takes the terminal back.
func (f *following) over(err error) {
	f.cancel()
	f.ended = nil
	f.screen.hold(false)
	if err != nil && !kube.Stopped(err) {
		f.screen.say("cannot show more of the agent's work, and wait for its end: " + kube.Line(err.Error()))
	}
}

// settle gives the rest of what there is to show its time.
func (f *following) settle(ctx context.Context) {
	if f.ended == nil {
		return
	}
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case err := <-f.ended:
		f.over(err)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stop ends it, if it is still there.
func (f *following) stop() {
	if f.ended != nil {
		f.cancel()
		f.over(<-f.ended)
	}
}
