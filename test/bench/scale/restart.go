package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"
)

// restarted is what a controller's restart took and needed.
type restarted struct {
	usage
	asked
	// leads and took are since the process was started: until it led, and until every Link was open and every run attended.
	leads, took time.Duration
	cpu         rig.CPU
}

func (s restarted) String() string {
	return fmt.Sprintf("%.1f s (led after %.1f s), %v; controller CPU %.1f s, API server %.1f s; of each target at most %d lists, %d challenges; %d other requests",
		s.took.Seconds(), s.leads.Seconds(), s.usage, s.cpu.Controller.Seconds(), s.cpu.APIServer.Seconds(), s.lists, s.challenges, s.others)
}

// restart kills the controller, takes its lease away, and starts another (fault row 44).
func restart(ctx context.Context, r *rig.Rig, targets, inFlight int) (restarted, error) {
	var s restarted
	if err := kill(ctx, r); err != nil {
		return s, err
	}
	if err := r.DropLease(ctx); err != nil {
		return s, err
	}
	if err := r.Node.Reset(ctx); err != nil {
		return s, err
	}
	before, err := r.CPU()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if _, err := r.StartController(ctx); err != nil {
		return s, err
	}
	s.leads = time.Since(began)
	if err := settled(ctx, r, targets, inFlight); err != nil {
		return s, err
	}
	s.took = time.Since(began)
	after, err := r.CPU()
	if err != nil {
		return s, err
	}
	s.cpu = after.Since(before)
	s.cpu.Controller = after.Controller
	if s.usage, err = held(ctx, r); err != nil {
		return s, err
	}
	s.asked, err = askedOf(ctx, r)
	return s, err
}

// asked is what the targets were asked since the last Reset: lists and challenges are the most of one, others is all else that any was.
type asked struct{ lists, challenges, others int64 }

func askedOf(ctx context.Context, r *rig.Rig) (asked, error) {
	var s asked
	pods, err := r.Node.Pods(ctx)
	if err != nil {
		return s, err
	}
	for _, p := range pods {
		for call, n := range p.Requests {
			switch call {
			case "changes":
				s.lists = max(s.lists, n)
			case "challenge":
				s.challenges = max(s.challenges, n)
			default:
				s.others += n
			}
		}
	}
	return s, nil
}

// kill kills the controller, and waits until what it had asked of the targets is over: a request is counted when it ends, and each target
// held one.
func kill(ctx context.Context, r *rig.Rig) error {
	r.KillController()
	err := wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := r.Node.Pods(ctx)
		return err == nil && !slices.ContainsFunc(pods, func(p node.PodCounts) bool { return p.Connections > 0 }), nil
	})
	if err != nil {
		return fmt.Errorf("end of what the killed controller had asked: %w", err)
	}
	return nil
}

// settled waits until every target was asked for its list and every Link is open, every run in flight was looked at, and nothing waits to be
// looked at. A Link is verified before its list was read, and looks are counted, not runs: the lists come first.
func settled(ctx context.Context, r *rig.Rig, targets, inFlight int) error {
	lists := fmt.Sprintf("%d targets to be asked for their lists", targets)
	if err := until(ctx, r, patience, lists, func(metrics) bool {
		pods, err := r.Node.Pods(ctx)
		return err == nil && listed(pods) >= targets
	}); err != nil {
		return err
	}
	what := fmt.Sprintf("%d targets to be verified and %d runs to be attended", targets, inFlight)
	return until(ctx, r, patience, what, func(m metrics) bool {
		return int(m.sum("hearth_links", `state="verified"`)) == targets && looked(m, inFlight)
	})
}

// attended waits until runs were looked at so often, whether their targets have said what they hold or not.
func attended(ctx context.Context, r *rig.Rig, inFlight int) error {
	return until(ctx, r, patience, fmt.Sprintf("%d runs to be attended", inFlight), func(m metrics) bool { return looked(m, inFlight) })
}

// looked: the controller looked at runs so often, and nothing waits to be looked at.
func looked(m metrics, inFlight int) bool {
	return int(m.sum("controller_runtime_reconcile_total", `controller="deliver-run"`)) >= inFlight &&
		m.sum("workqueue_depth") == 0 && m.sum("controller_runtime_active_workers") == 0
}

// listed is how many Pods have answered with a list.
func listed(pods []node.PodCounts) int {
	n := 0
	for _, p := range pods {
		if p.Requests["changes"] > 0 {
			n++
		}
	}
	return n
}
