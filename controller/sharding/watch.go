package sharding

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
)

// watchEvery is how often a leader looks at the others' Leases.
const watchEvery = time.Minute

// Watch is the leader's look at the other controllers: who works for Agents of this one's shards, too, and which Agents nobody works for.
type Watch struct {
	Own      shard.Set
	Holdings func(context.Context) ([]shard.Holding, error)
	// Agents reads all Agents, those of other shards too.
	Agents client.Reader
	After  func(time.Duration) <-chan time.Time
	Log    *slog.Logger

	told struct{ others, unserved string }
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (w *Watch) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. It ends with an error, and the process with it, when this controller is the one that has to give way.
func (w *Watch) Start(ctx context.Context) error {
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.After(watchEvery):
		}
	}
}

// look tells what has changed since the last one. What could not be read is no reason to end.
func (w *Watch) look(ctx context.Context) error {
	all, err := w.Holdings(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.Warn("shards: look at the other controllers", "cause", err)
		}
		return nil
	}
	others := shard.Overlapping(w.Own, all)
	metrics.ShardOverlaps(len(others))
	if who := words(others); who != w.told.others {
		w.told.others = who
		if who == "" {
			w.Log.Info("shards: "+aloneAgain, "selector", w.Own.String())
		} else {
			w.Log.Warn("shards: others that work for Agents of this controller's selector, too", "selector", w.Own.String(), "others", who)
		}
	}
	if first := giveWay(w.Own, others); first != "" {
		return fmt.Errorf("shards: another controller leads for Agents of the selector %q: %s; this one gives way, and waits for it to go", w.Own.String(), first)
	}
	return w.unserved(ctx, shard.Unserved(all))
}

// giveWay: of two that both lead, for their writes crossed, the one gives way whose Lease's name is later. That of a controller without a
// selector is the first of all: it knows of no shards, and may be of a version from before there were any.
func giveWay(own shard.Set, others []shard.Holding) (to string) {
	for _, h := range others {
		if h.Lease < own.Lease() {
			return words([]shard.Holding{h})
		}
	}
	return ""
}

// unserved tells how many Agents are of shards that nobody works for.
func (w *Watch) unserved(ctx context.Context, nobodys shard.Set) error {
	var agents v1alpha1.AgentList
	if err := w.Agents.List(ctx, &agents, client.UnsafeDisableDeepCopy); err != nil {
		if ctx.Err() == nil {
			w.Log.Warn("shards: look for Agents that nobody works for", "cause", err)
		}
		return nil
	}
	n := 0
	for i := range agents.Items {
		if nobodys.Has(agents.Items[i].Labels) {
			n++
		}
	}
	metrics.AgentsUnserved(n)
	said := ""
	if !nobodys.Empty() {
		said = fmt.Sprintf("%s; there are %d now", nobodys.Words(), n)
	}
	if said == w.told.unserved {
		return nil
	}
	w.told.unserved = said
	if said == "" {
		w.Log.Info("shards: every Agent has a controller")
	} else {
		w.Log.Warn("shards: no controller leads for some Agents", "nobody", said)
	}
	return nil
}
