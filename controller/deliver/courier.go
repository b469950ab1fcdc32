package deliver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/controller/signals"
	"github.com/hearthdev/hearth/controller/trace"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	// again is when a pass is repeated that met a full queue or could not read what it needed.
	again = time.Second
	// soon is when a pass is repeated that lost a race and has read the newer: the event of that may be past already.
	soon = 20 * time.Millisecond
	// writers is how many status writes of one assignment are under way at once.
	writers = 16
	// maxRefusalWrites bounds the waiting reasons written in one pass, so that they do not delay the next reservations.
	maxRefusalWrites = 64
	// gathered is how long changes of what an Agent's standing runs hold are gathered before it is looked at: a busy one changes often.
	// The Agent's status, which most of it is for, is written once a second.
	gathered = 500 * time.Millisecond
)

// courier is what the three reconcilers share.
type courier struct {
	kube   kube.Client // reads from the cache
	live   kube.Reader // reads from the API server
	events events.EventRecorder
	links  Links
	self   string
	now    func() time.Time
	random io.Reader
	log    *slog.Logger
	limits client.Timeouts
	spans  *trace.Spans
	// reattach bounds the wait of runs that were in flight when this process began.
	reattach time.Duration

	newest *newest
	memory *memory
	// runs, agents and pods wake the reconcilers of those, standing that of Agents' standing runs.
	runs, agents, pods, standing waker
	passes                       *passes
	queues                       *queues

	mu   sync.Mutex
	open map[string]place // by Pod UID, of the open Links
}

// place is whose Pod a Link is for.
type place struct {
	pod, agent types.NamespacedName
}

// write updates a run's status under its resource version and keeps what came back.
func (c *courier) write(ctx context.Context, run *hearthv1.AgentRun) error {
	if err := c.kube.Status().Update(ctx, run); err != nil {
		err = fmt.Errorf("update the status of run %s: %w", run.Name, err)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return &outrun{error: err, wait: c.catchUp(ctx, run)}
		}
		return err
	}
	c.newest.put(run)
	return nil
}

// writeStatus writes a wanted status unless it is stored already. A terminal one that is refused is cut further (fault row 56).
// Lost is why an attempt is lost by it, "" if none is. What it made true is told once it is stored.
func (c *courier) writeStatus(ctx context.Context, run *hearthv1.AgentRun, want delivery.Status, at endpoint, lost string) (*hearthv1.AgentRun, error) {
	written, begun := run, c.now()
	err := record.Write(want.Ending, func(e *delivery.Ending) error {
		if e != want.Ending {
			c.signals().Logger(run).Warn("the record was refused as too large or invalid; cutting it")
			want.Ending, want.Succeeded.Message = e, wire.CutText(e.Message, delivery.MaxMessageBytes)
		}
		out := withStatus(c.now(), run, want, at)
		if out == nil {
			return nil
		}
		if err := c.write(ctx, out); err != nil {
			return err
		}
		written = out
		return nil
	})
	if err != nil {
		return nil, err
	}
	if written != run {
		c.signals().Run(signals.Write{Before: run, After: written, Lost: lost, Begun: begun, Done: c.now()})
	}
	return written, nil
}

// changed is called by the Links, from their goroutines. It only wakes.
func (c *courier) changed(change client.Change) {
	c.mu.Lock()
	p, ok := c.open[change.PodUID]
	c.mu.Unlock()
	if !ok {
		return
	}
	if change.Link {
		c.agents.wake(p.agent)
		c.standing.wake(p.agent)
	}
	told := make(map[types.NamespacedName]bool, len(change.Runs))
	for _, r := range change.Runs {
		if r.Namespace != p.pod.Namespace || r.Name == "" {
			continue // a harness has no say about runs elsewhere
		}
		key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
		c.memory.saw(key, change.PodUID)
		told[key] = true
	}
	if change.State {
		for _, r := range c.reservedOn(context.Background(), change.PodUID) {
			told[kube.ObjectKeyFromObject(r)] = true
		}
	}
	for key := range told { // each once: a key that is woken again while it is worked on would be looked at twice
		c.runs.wake(key)
	}
}

// wakeRunsOn wakes every run that has a reservation on a Pod.
func (c *courier) wakeRunsOn(ctx context.Context, podUID string) {
	for _, r := range c.reservedOn(ctx, podUID) {
		c.runs.wake(kube.ObjectKeyFromObject(r))
	}
}

// reservedOn lists the living runs that have a reservation on a Pod, as the cache and our own writes have it. They are shared.
func (c *courier) reservedOn(ctx context.Context, podUID string) []*hearthv1.AgentRun {
	var list hearthv1.AgentRunList
	if err := c.kube.List(ctx, &list, kube.MatchingFields{indexTarget: podUID}, kube.UnsafeDisableDeepCopy); err != nil {
		c.log.Error("list the runs of a target", "cause", err) // only before the cache has started
		return nil
	}
	out := make([]*hearthv1.AgentRun, 0, len(list.Items))
	listed := make(map[types.UID]bool, len(list.Items))
	for i := range list.Items {
		listed[list.Items[i].UID] = true
		if r := c.newest.pick(&list.Items[i]); targetOf(r) == podUID {
			out = append(out, r)
		}
	}
	for _, r := range c.newest.list(func(r *hearthv1.AgentRun) bool { return targetOf(r) == podUID }) {
		if !listed[r.UID] {
			out = append(out, r)
		}
	}
	return out
}

// targetOf is the UID of the Pod that a living run is reserved for, "" when there is none.
func targetOf(r *hearthv1.AgentRun) string {
	if !delivered(r) || terminal(r) || waiting(r) {
		return ""
	}
	return string(r.Status.Delivery.PodUID)
}

func (c *courier) jitter() float64 { return rand.Float64() } //nolint:gosec // spreads retries, protects nothing

// at is the result that asks again at a time; zero asks never.
func at(now, t time.Time) ctrl.Result {
	if t.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(t.Sub(now), time.Millisecond)}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
