package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/bench/bare"
	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/limit"
	"github.com/hearthdev/hearth/test/bench/load"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	resultName = "bench.json"
	namespace  = "bench"
	reviewer   = "reviewer" // the Agent of P1 and P2
	trivial    = "give 64"  // a goal that ends at once
	workers    = 32         // that make runs at once
	loadLimit  = 10 * time.Minute
)

// bench is one measurement.
type bench struct {
	options
	rig     *rig.Rig
	api     *bare.Client
	writes  limit.Writes
	webhook *limit.Webhook
	out     io.Writer
	loads   int // for names
}

// measure measures all that is wanted, and shows it.
func measure(ctx context.Context, o options, out io.Writer) (err error) {
	root, err := apiserver.Root()
	if err != nil {
		return err
	}
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil { //nolint:gosec // for everybody to read
			return err
		}
	}
	b := &bench{options: o, out: out}
	b.say("etcd, kube-apiserver, controller and node are started")
	if b.rig, err = rig.Start(ctx, rig.Options{NoFsync: o.noFsync, Profiles: o.profile != ""}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() {
		if err != nil {
			b.say("%s", b.rig.Logs())
			err = errors.Join(err, context.Cause(ctx))
		}
		err = errors.Join(err, b.rig.Stop())
	}()
	go func() {
		select {
		case <-b.rig.Controller().Done():
			cancel(errors.New("the controller ended"))
		case <-ctx.Done():
		}
	}()
	machine := figures.Machine(b.rig.Dir)
	if err := b.prepare(ctx, root); err != nil {
		return err
	}
	defer b.webhook.Stop()
	result := figures.Result{Machine: machine}
	for _, figure := range []struct {
		id string
		of func(context.Context) ([]figures.Figure, error)
	}{{"P1", b.latency}, {"P2", b.burst}, {"P3", b.long}, {"P9", b.fairness}} {
		if !o.wants(figure.id) {
			continue
		}
		measured, err := figure.of(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", figure.id, err)
		}
		result.Figures = append(result.Figures, measured...)
		if err := b.profiles(ctx, figure.id); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprint(out, "\n", figures.Table(result)); err != nil {
		return err
	}
	if !o.update {
		return nil
	}
	older, err := figures.Read(root, resultName)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return figures.Write(root, resultName, figures.Merge(older, result))
}

// prepare makes the Agent of most figures, and takes from its first run what the limit writes.
func (b *bench) prepare(ctx context.Context, root string) (err error) {
	if b.api, err = bare.New(b.rig.Config); err != nil {
		return err
	}
	if err := b.rig.Namespace(ctx, namespace); err != nil {
		return err
	}
	if err := b.rig.Agent(ctx, namespace, reviewer, rig.AgentOptions{Replicas: 10}); err != nil {
		return err
	}
	first, err := b.ours(ctx, b.plan(reviewer, trivial, 1))
	if err != nil {
		return fmt.Errorf("the first run: %w", err)
	}
	stored, err := b.api.Do(ctx, http.MethodGet, fmt.Sprintf("/apis/%s/namespaces/%s/agentruns/%s", hearthv1.GroupVersion, namespace, first.done.Runs[0].Name), nil)
	if err != nil {
		return err
	}
	if b.writes, err = limit.Of(stored); err != nil {
		return err
	}
	b.webhook, err = limit.Install(ctx, b.rig.Config, root)
	return err
}

// plan is of runs of an Agent that workers make.
func (b *bench) plan(agent, goal string, runs int) load.Plan {
	b.loads++
	spec, err := json.Marshal(hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent}, Parameters: map[string]string{rig.GoalParameter: goal}})
	if err != nil {
		panic(err) // of texts alone
	}
	return load.Plan{Kubeconfig: b.rig.Kubeconfig, APIVersion: hearthv1.GroupVersion.String(), Namespace: namespace, Spec: spec, Agent: agent,
		Name: fmt.Sprintf("load-%03d", b.loads), Runs: runs, Workers: workers, Limit: loadLimit}
}

// outcome is what a load did, and what it cost.
type outcome struct {
	done load.Done
	// times are the node's, by the run's UID.
	times map[string]node.Times
	// cost is the processor time in milliseconds a run, by process.
	cost map[string]float64
	// requests are what the API server was asked a run.
	requests rig.Requests
}

// used is what was used so far.
type used struct {
	cpu      rig.CPU
	requests rig.Requests
}

func (b *bench) used(ctx context.Context) (used, error) {
	metrics, err := b.api.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return used{}, err
	}
	requests, err := rig.ParseRequests(metrics)
	if err != nil {
		return used{}, err
	}
	cpu, err := b.rig.CPU()
	return used{cpu, requests}, err
}

// rested is what was used once the Events are out, which come after the records: they are part of what a run costs, and must not be
// written while the limit is measured.
func (b *bench) rested(ctx context.Context) (used, error) {
	const events, quiet = "POST events", 3 * time.Second
	last, err := b.used(ctx)
	for err == nil {
		select {
		case <-ctx.Done():
			return used{}, ctx.Err()
		case <-time.After(quiet):
		}
		now, again := b.used(ctx)
		if again == nil && now.requests[events] == last.requests[events] {
			return now, nil
		}
		last, err = now, again
	}
	return used{}, err
}

// ours carries a plan out with our controller, and makes sure that each run was begun once and is over everywhere.
func (b *bench) ours(ctx context.Context, p load.Plan) (outcome, error) {
	var o outcome
	if err := b.rig.Node.Reset(ctx); err != nil {
		return o, err
	}
	before, err := b.used(ctx)
	if err != nil {
		return o, err
	}
	if o.done, err = load.Spawn(ctx, p); err != nil {
		return o, err
	}
	waiting, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	counts, err := b.rig.Node.Await(waiting, node.Counts{Recorded: p.Runs})
	if err != nil {
		return o, err
	}
	after, err := b.rested(ctx)
	if err != nil {
		return o, err
	}
	if counts.Again != 0 || counts.Accepted != p.Runs || counts.Begun != p.Runs || counts.Ended != p.Runs || counts.Recorded != p.Runs {
		return o, fmt.Errorf("expected %d runs to be accepted, begun, ended and recorded once: %+v", p.Runs, counts)
	}
	times, err := b.rig.Node.Times(ctx)
	if err != nil {
		return o, err
	}
	o.times = map[string]node.Times{}
	for _, t := range times {
		o.times[t.Run] = t
	}
	for _, r := range o.done.Runs {
		if o.times[r.UID].Received.IsZero() {
			return o, fmt.Errorf("no harness was given run %s", r.Name)
		}
	}
	o.cost, o.requests = cost(after.cpu.Since(before.cpu), o.done), after.requests.Since(before.requests, p.Runs)
	return o, nil
}

// atLimit carries the same plan out without a controller: with so many writes of status after the create.
func (b *bench) atLimit(ctx context.Context, p load.Plan, statuses ...json.RawMessage) (outcome, error) {
	p.APIVersion, p.Spec, p.Statuses = limit.APIVersion, b.writes.Spec, statuses
	before, err := b.used(ctx)
	if err != nil {
		return outcome{}, err
	}
	calls := b.webhook.Calls()
	done, err := load.Spawn(ctx, p)
	if err != nil {
		return outcome{}, fmt.Errorf("the limit: %w", err)
	}
	if called := b.webhook.Calls() - calls; called != int64(p.Runs) {
		return outcome{}, fmt.Errorf("the limit: expected its webhook to be called %d times, it was %d times", p.Runs, called)
	}
	after, err := b.used(ctx)
	if err != nil {
		return outcome{}, err
	}
	stored, err := b.api.Do(ctx, http.MethodGet, fmt.Sprintf("/apis/%s/namespaces/%s/agentruns/%s", limit.APIVersion, namespace, done.Runs[0].Name), nil)
	if err != nil {
		return outcome{}, err
	}
	if err := limit.Same(stored); err != nil {
		return outcome{}, err
	}
	return outcome{done: done, cost: cost(after.cpu.Since(before.cpu), done), requests: after.requests.Since(before.requests, p.Runs)}, nil
}

// The names of processes in a table.
const apiServer, etcd, controller, nodes, loader = "API server", "etcd", "controller", "node", "load"

func cost(c rig.CPU, d load.Done) map[string]float64 {
	all := map[string]float64{}
	for name, used := range map[string]time.Duration{apiServer: c.APIServer, etcd: c.Etcd, controller: c.Controller, nodes: c.Node, loader: d.CPU} {
		all[name] = used.Seconds() * 1000 / float64(len(d.Runs))
	}
	return all
}

// costs are the medians of rounds.
func costs(rounds []outcome) map[string]float64 {
	all := map[string]float64{}
	for name := range rounds[0].cost {
		all[name] = figures.Median(each(rounds, func(o outcome) float64 { return o.cost[name] }))
	}
	return all
}

// each is a number of each round.
func each(rounds []outcome, f func(outcome) float64) []float64 {
	numbers := make([]float64, len(rounds))
	for i, o := range rounds {
		numbers[i] = f(o)
	}
	return numbers
}

// spent says what a run cost each process.
func spent(o outcome) string {
	var parts []string
	for _, name := range []string{apiServer, etcd, controller, nodes, loader} {
		parts = append(parts, fmt.Sprintf("%s %.1f", name, o.cost[name]))
	}
	return "processor ms a run: " + strings.Join(parts, ", ") + "; requests a run: " + o.requests.String()
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.out, format+"\n", args...) // progress only
}
