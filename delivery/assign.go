package delivery

import (
	"cmp"
	"slices"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Assign reserves targets for the waiting runs of one Agent, oldest first (SPEC.md, Lifecycle, Assign). A target of the run's
// own generation is preferred, then one that is free at once, then the least loaded, ties by name. Runs that do not wait for a
// target (reserved, terminal, cancelled, not admitted, past their deadline) are left to Decide.
func Assign(now time.Time, runs []Run, pool Pool) Assignments {
	targets := newCandidates(now, pool, len(runs))
	out := Assignments{Refusal: Refusal{Reason: targets.reason, Message: targets.message}}
	var eligible []*Run // pointers, because ten thousand runs are looked at here
	for i := range runs {
		switch run := &runs[i]; {
		case !waits(now, run):
		case postponed(now, run):
			out.RequeueAt = earliest(now, out.RequeueAt, run.NextTime)
		default:
			eligible = append(eligible, run)
		}
	}
	served := first(targets.room, eligible, older)
	for _, run := range served {
		t := targets.take(run.Generation)
		out.Reserves = append(out.Reserves, Reserve{Run: run.UID, Reservation: Reservation{
			Attempt: run.Attempt + 1, PodName: t.PodName, PodUID: t.PodUID, Journal: t.Journal, Generation: t.Generation, By: pool.By, At: now}})
	}
	if len(served) == len(eligible) {
		return out
	}
	out.Refused = make([]*Run, 0, len(eligible)-len(served))
	for _, run := range eligible {
		if len(served) > 0 && older(run, served[len(served)-1]) <= 0 {
			continue
		}
		out.Refused = append(out.Refused, run)
		if run.Reason != out.Refusal.Reason {
			out.RequeueAt = earliest(now, out.RequeueAt, run.saysAt(out.Refusal.Reason))
		}
	}
	out.RequeueAt = earliest(now, out.RequeueAt, targets.backoffEnds)
	return out
}

// Untold are the youngest of the refused runs that do not say yet why they wait and should, youngest first, so many at most: the oldest have
// their turn first, and may need no word.
func (a Assignments) Untold(now time.Time, most int) []*Run {
	var untold []*Run
	for _, run := range a.Refused {
		if run.owes(now, a.Refusal.Reason) {
			untold = append(untold, run)
		}
	}
	return first(most, untold, func(a, b *Run) int { return older(b, a) })
}

// ReserveStatus is the status that a reserving update writes.
func ReserveStatus(run Run, r Reservation) Status {
	p := Progress{Reservation: r, Losses: run.Losses, Spent: run.Spent}
	return alive(p, PhasePending, ReasonReserved, "attempt reserved for Pod "+r.PodName)
}

// WaitStatus is the status of a run that was refused a target.
func WaitStatus(run Run, r Refusal) Status {
	return alive(run.Progress, PhasePending, r.Reason, r.Message)
}

// saysAt is when a run says for what it waits. That there is a queue is no news while the queue moves, and in a burst each of these
// writes would take the place of one that moves it.
func (r *Run) saysAt(reason Reason) time.Time {
	if reason == ReasonTargetBusy {
		return r.Created.Add(WriteBusyAfter)
	}
	return r.Created
}

func waits(now time.Time, r *Run) bool {
	return r.Admitted && !r.Terminal && !r.Cancel && !r.Live() && now.Before(r.startingEnd())
}

// owes tells whether a run should say now that it waits for the reason: waiting costs one write a reason, and none that is not worth it yet.
func (r *Run) owes(now time.Time, reason Reason) bool {
	return r.Reason != reason && !now.Before(r.saysAt(reason))
}

// older orders runs by age; two that are equal are one.
func older(a, b *Run) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// first is the n that come first, in order. It sorts little more than those: of a long queue only an end is wanted, many times a second.
func first(n int, runs []*Run, compare func(a, b *Run) int) []*Run {
	if n <= 0 {
		return nil
	}
	kept := make([]*Run, 0, min(2*n, len(runs)))
	var last *Run // of n that come before all that were left out
	for _, run := range runs {
		if last != nil && compare(run, last) > 0 {
			continue
		}
		if kept = append(kept, run); len(kept) == 2*n {
			slices.SortFunc(kept, compare)
			kept, last = kept[:n], kept[n-1]
		}
	}
	slices.SortFunc(kept, compare)
	return kept[:min(n, len(kept))]
}

// Usable says why a target cannot be given work; ReasonTargetBusy also for one that merely backs off. Empty: it can.
func (t Target) Usable(now time.Time) (Reason, string) {
	switch {
	case t.Cordoned:
		return ReasonServiceRecasting, "the standing run is being replaced"
	case !t.Listening:
		// Waiting is written once a reason, so this message grows old; the Agent's does not.
		return ReasonTargetNotReady, "Pod " + t.PodName + " is not ready (the Agent's Ready condition says how it is now); " +
			"when this run began to wait: " + cmp.Or(t.Message, "it does not listen")
	case t.Link == LinkNone, t.Link == LinkChallenging:
		return ReasonTargetNotReady, "Pod " + t.PodName + " has not answered the challenge yet"
	case t.Link != LinkVerified:
		return LinkReason(t.Link), cmp.Or(t.LinkMessage, "Pod "+t.PodName+" gave no valid answer")
	case t.Agent != wire.AgentReady:
		return ReasonTargetNotReady, "the agent in Pod " + t.PodName + " is " + cmp.Or(string(t.Agent), "not ready")
	case t.BackoffUntil.After(now), t.room() <= 0:
		return ReasonTargetBusy, "every standing run is at capacity"
	default:
		return "", ""
	}
}

// postponed tells whether a run's pause after a loss goes on. One that ends further ahead than twice its length was begun by a clock that has
// been set back since; up to that, the clocks of two leaders may differ.
func postponed(now time.Time, run *Run) bool {
	return run.NextTime.After(now) && run.NextTime.Before(now.Add(2*Backoff(int(run.Losses), 0)))
}

func (t Target) load() int { return t.Capacity.Running + t.Capacity.Queued + t.Reserved }

func (t Target) room() int { return t.Capacity.Concurrency + t.Capacity.Queue - t.load() }

// LinkReason is the reason for which a run waits whose target's Link is in that state.
func LinkReason(l LinkState) Reason {
	switch l {
	case LinkUnauthenticated:
		return ReasonTargetUnauthenticated
	case LinkIncompatible:
		return ReasonTargetIncompatible
	case LinkNone, LinkChallenging, LinkVerified, LinkUnreachable:
		return ReasonTargetUnreachable
	default:
		return ReasonTargetUnreachable
	}
}

// earliest of the given times that are set and after now; zero if none is.
func earliest(now time.Time, times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
