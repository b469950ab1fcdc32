package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"
)

const (
	namespace = "scale"
	// creators is how many runs are made at once.
	creators = 16
	// maxTries is how often one is tried to be made.
	maxTries = 5
	// patience is for what takes minutes on a small machine.
	patience = 10 * time.Minute
)

// create makes runs, spread over the Agents. No name ends in a dash and a number, as those of standing runs do: about such a one
// admission asks whether it is an Agent's.
func create(ctx context.Context, r *rig.Rig, agents []string, count int, goal, prefix string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range count {
		group.Go(func() error {
			name := fmt.Sprintf("%s-n%05d", prefix, i)
			_, err := createOne(ctx, r, agents[i%len(agents)], name, goal)
			for tries := 1; tries < maxTries && apierrors.IsInternalError(err); tries++ { // admission did not answer in time; that is not what is measured
				_, err = createOne(ctx, r, agents[i%len(agents)], name, goal)
			}
			return err
		})
	}
	return group.Wait()
}

func createOne(ctx context.Context, r *rig.Rig, agent, name, goal string) (*hearthv1.AgentRun, error) {
	run := &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent}, Parameters: map[string]string{rig.GoalParameter: goal}},
	}
	if err := r.Client.Create(ctx, run); err != nil {
		return nil, fmt.Errorf("create run %s: %w", name, err)
	}
	return run, nil
}

const (
	probes     = 100
	probeEvery = 100 * time.Millisecond
)

// latency is what short runs take, ten a second over all Agents: milliseconds from the request that makes one until its goal has reached
// the harness, and processor time a run.
type latency struct {
	p50, p99 float64
	cpu      rig.CPU // of all runs together
}

func (l latency) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, CPU a run: controller %.2f ms, API server %.2f ms, etcd %.2f ms", l.p50, l.p99,
		perRun(l.cpu.Controller), perRun(l.cpu.APIServer), perRun(l.cpu.Etcd))
}

func perRun(d time.Duration) float64 { return d.Seconds() * 1000 / probes }

// probe measures it. What is in flight stays there.
func probe(ctx context.Context, r *rig.Rig, agents []string, prefix string) (latency, error) {
	var l latency
	if err := r.Node.Reset(ctx); err != nil {
		return l, err
	}
	before, err := r.CPU()
	if err != nil {
		return l, err
	}
	created := map[string]time.Time{}
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for i := range probes {
		at := time.Now()
		run, err := createOne(ctx, r, agents[i%len(agents)], fmt.Sprintf("%s-n%03d", prefix, i), "now")
		if err != nil {
			return l, err
		}
		created[string(run.UID)] = at
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
	if err := awaited(ctx, r, node.Counts{Recorded: probes}); err != nil {
		return l, err
	}
	after, err := r.CPU()
	if err != nil {
		return l, err
	}
	l.cpu = after.Since(before)
	times, err := r.Node.Times(ctx)
	if err != nil {
		return l, err
	}
	var took []time.Duration
	for _, t := range times {
		if at, ok := created[t.Run]; ok && !t.Received.IsZero() {
			took = append(took, t.Received.Sub(at))
		}
	}
	if len(took) != probes {
		return l, fmt.Errorf("expected %d runs to be delivered, %d were", probes, len(took))
	}
	millis := figures.Millis(took)
	l.p50, l.p99 = figures.Percentile(millis, 50), figures.Percentile(millis, 99)
	return l, nil
}

// awaited waits for the node's counts.
func awaited(ctx context.Context, r *rig.Rig, wanted node.Counts) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := r.Node.Await(ctx, wanted)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, r.Logs())
	}
	return nil
}
