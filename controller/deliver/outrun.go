package deliver

import (
	"context"
	"errors"
	"time"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// outrun is a write that lost a race: what it was about is not the newest any more, so nothing was written.
type outrun struct {
	error

	wait time.Duration // until the pass is repeated
}

func (o *outrun) Unwrap() error { return o.error }

// lostRace gives when to repeat a pass whose write lost a race, if that is the error.
func lostRace(err error) (time.Duration, bool) {
	if o := (*outrun)(nil); errors.As(err, &o) {
		return o.wait, true
	}
	return 0, false
}

// catchUp reads what a write of a run lost against, so that the next pass works on that: the cache may stay old for a minute, and a
// pass that only repeated itself would lose again all that time (fault row 9). It gives when to look again.
func (c *courier) catchUp(ctx context.Context, run *hearthv1.AgentRun) time.Duration {
	var live hearthv1.AgentRun
	key := kube.ObjectKeyFromObject(run)
	if err := c.live.Get(ctx, key, &live); err != nil || !newer(&live, run) {
		return again // it is gone, or another's by now: the cache catches up
	}
	c.newest.put(&live)
	c.runs.wake(key) // it forgets what was kept if the run was deleted meanwhile
	return soon
}
