package model

import (
	"time"

	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// checkWrite holds a write of a run's status against what must be true of every one.
func (w *world) checkWrite(was, is stored) {
	old, run := was.run, is.run
	require.False(w.t, old.Terminal, "I2: the record of %s was written again", old.UID)
	require.GreaterOrEqual(w.t, run.Attempt, old.Attempt, "I7")
	require.GreaterOrEqual(w.t, run.Losses, old.Losses, "I7: losses only grow")
	if spent := run.Spent - old.Spent; spent != 0 { // nothing else moves the starting deadline
		at, ran := w.began[key{old.UID, old.Attempt}]
		require.True(w.t, ran && spent > 0 && spent <= w.now.Sub(at), "R28: %s was said to have been running for %s", old.UID, spent)
	}
	if run.Losses > old.Losses && !run.Terminal { // the ends are truthful's
		w.lost(old)
	}
	switch {
	case run.Live() && old.Live():
		want := old.Reservation
		want.By = run.By
		require.Equal(w.t, want, run.Reservation, "a reservation never moves")
	case run.Live():
		require.Equal(w.t, old.Attempt+1, run.Attempt, "I7: a new reservation has a new number")
		h := w.byUID(run.PodUID)
		require.Equal(w.t, is.agent, h.agent, "%s was reserved for another Agent's Pod", run.UID)
	}
	if is.ending != nil {
		w.coverage["end "+string(is.ending.Reason)]++
		w.tell("run %s ends %s: %s", run.UID, is.ending.Reason, is.ending.Message)
		w.truthful(is)
		w.honest(run.UID)
	}
}

// lost: an attempt counts as lost only where it can be: another start follows, whatever becomes of this one.
func (w *world) lost(run delivery.Run) {
	h := w.byUID(run.PodUID)
	a := h.book[key{run.UID, run.Attempt}]
	require.True(w.t, !h.exists || h.failed || h.journal != run.Journal || a != nil && a.State == wire.StateFinished,
		"attempt %d of %s counts as lost, and its target is there and has not ended it", run.Attempt, run.UID)
}

// truthful: a record says what happened, or that it is not known only where it cannot be.
func (w *world) truthful(s stored) {
	run, e := s.run, s.ending
	k := key{run.UID, run.Attempt}
	if e.Outcome != "" {
		require.NotNil(w.t, e.Output, "%s was recorded without the agent's answer", run.UID)
		require.Equal(w.t, w.results[k], e.Output.Value, "%s was recorded with what attempt %v did not end with", run.UID, k)
		return
	}
	switch e.Reason {
	case delivery.ReasonTargetLost:
		h := w.byUID(run.PodUID)
		require.True(w.t, !h.exists || h.failed, "row 51: %s was given up, and its Pod %s is there", run.UID, h.me.PodUID)
	case delivery.ReasonOutcomeUnknown:
		h := w.byUID(run.PodUID)
		require.True(w.t, h.journal != run.Journal || !w.now.Before(deadline(run)), "row 25: %s was given up before its deadline, and its target's journal is the same: %s", run.UID, e.Message)
	case delivery.ReasonAgentNotFound:
		a := w.api.agents[s.agent]
		require.True(w.t, a == nil || a.UID != s.agentUID, "row 50: the Agent of %s exists", run.UID)
	case delivery.ReasonNotAdmitted:
		require.False(w.t, run.Admitted)
	case delivery.ReasonCancelled, delivery.ReasonCancelUnconfirmed:
		require.True(w.t, run.Cancel, "nobody cancelled %s", run.UID)
	case delivery.ReasonStartingDeadlineExceeded:
		require.False(w.t, w.now.Before(run.Created.Add(starting)), "%s ended before its starting deadline", run.UID)
	default:
		require.Fail(w.t, "no such end", "%s: %s", run.UID, e.Reason)
	}
}

// honest: a record that says that the work never started is true, now and for ever (R45). A loss says that it may have.
func (w *world) honest(uid string) {
	s := w.past[uid]
	if s.ending != nil && s.run.Losses == 0 && neverStarted(s.ending) {
		require.Zero(w.t, w.effects[uid], "%s was recorded as never started: %s", uid, s.ending.Message)
	}
}

// checkStart counts a side effect (I1). A second one is another attempt, and only after the first was counted as lost.
func (w *world) checkStart(k key) {
	w.effects[k.uid]++
	w.attempts[k]++
	w.began[k] = w.now
	s := w.past[k.uid]
	require.Equal(w.t, 1, w.attempts[k], "I1: attempt %v started again", k)
	require.LessOrEqual(w.t, w.effects[k.uid], 1+int(s.run.BackoffLimit), "I1: %s started too often", k.uid)
	require.LessOrEqual(w.t, w.effects[k.uid], 1+int(s.run.Losses), "I1: %s started again, and nothing of it was lost", k.uid)
	require.True(w.t, s.run.Admitted, "row 45: %s was executed without admission", k.uid)
	w.honest(k.uid)
	if w.effects[k.uid] > 1 {
		w.coverage["started again after a loss"]++
	}
}

// checkStop: work is only stopped when nobody wants it (I5).
func (w *world) checkStop(r *request) {
	s := w.past[r.key.uid]
	is, exists := w.api.runs[s.run.Name]
	run := is.run
	wanted := exists && run.UID == r.key.uid && !run.Cancel && !run.Terminal && run.Attempt == r.key.attempt && run.PodUID == r.pod.me.PodUID && w.now.Before(deadline(run))
	require.False(w.t, wanted, "I5: %v was stopped in %s, and it is wanted", r.key, r.pod.me.PodUID)
}

// checkStanding holds each write of a standing run against what is promised of it (SPEC.md, Lifecycle, Standing runs).
func (w *world) checkStanding(c *controller, was, is *hearthv1.AgentRun) {
	switch {
	case was == nil:
		w.coverage["standing run made"]++
		if a := w.api.agents[is.Labels[hearthv1.LabelAgent]]; a != nil && a.UID == is.OwnerReferences[0].UID && !w.crossed && !w.nested {
			n := w.count(a.Name, takesWork)
			require.LessOrEqual(w.t, n, int(*a.Spec.Replicas)+1, "too many of %s take work", a.Name)
		}
	case is == nil && !was.Ended():
		w.coverage["standing run drained"]++
		require.NotNil(w.t, was.Status.CordonedAt, "%s was deleted and not cordoned", was.Name)
		over := !w.now.Before(was.Status.CordonedAt.Add(drain))
		require.True(w.t, over || !w.holds(c, was), "%s was deleted with something left, before its time was over", was.Name)
	case is != nil && was.Status.CordonedAt == nil && is.Status.CordonedAt != nil:
		w.coverage["cordoned"]++
	case is != nil && was.Status.CordonedAt != nil && is.Status.CordonedAt == nil:
		w.coverage["taken back"]++
	case is != nil && was.Status.CordonedAt != nil:
		require.Equal(w.t, was.Status.CordonedAt, is.Status.CordonedAt, "a cordon is written once")
	}
}

// holds tells whether a standing run's harness has work or a result that is wanted and that this controller had been told of, or reserved itself.
func (w *world) holds(c *controller, standing *hearthv1.AgentRun) bool {
	for _, name := range sorted(w.api.runs) {
		run := w.api.runs[name].run
		if run.Live() && !run.Terminal && run.PodUID == string(standing.Status.PodUID) && (run.By == c.name || c.note(key{run.UID, run.Attempt}) != nil) {
			return true
		}
	}
	return false
}

func takesWork(r *hearthv1.AgentRun) bool { return !r.Ended() && r.Status.CordonedAt == nil }

func (w *world) count(agent string, is func(*hearthv1.AgentRun) bool) int {
	n := 0
	for _, r := range w.api.standing {
		if r.Labels[hearthv1.LabelAgent] == agent && is(r) {
			n++
		}
	}
	return n
}

// settled tells whether nothing is left to be done.
func (w *world) settled(healed bool) bool {
	for _, s := range w.api.runs {
		if !s.run.Terminal {
			return false
		}
	}
	if !healed {
		return true
	}
	for _, h := range w.harnesses {
		if h.exists && h.up && len(h.keys(alive)) > 0 {
			return false
		}
	}
	for name, a := range w.api.agents {
		if want := int(*a.Spec.Replicas); w.count(name, living) != want || w.count(name, w.wantedBy(a)) != want {
			return false
		}
	}
	return true
}

func alive(a *delivery.Known) bool { return !a.State.Ended() }

func living(r *hearthv1.AgentRun) bool { return !r.Ended() }

func (w *world) wantedBy(a *hearthv1.Agent) func(*hearthv1.AgentRun) bool {
	return func(r *hearthv1.AgentRun) bool { return takesWork(r) && w.image(r) == w.imageOf(a) }
}

// checkEnd is after everything had time to settle: I3, I4, and what is true stays true.
func (w *world) checkEnd(healed bool) {
	for _, name := range sorted(w.api.runs) {
		s := w.api.runs[name]
		require.True(w.t, s.run.Terminal, "I3: %s (%s) has not ended: %+v", s.run.UID, s.run.Reason, s.run.Progress)
	}
	for _, uid := range sorted(w.past) {
		w.honest(uid)
	}
	if !healed {
		return
	}
	for _, h := range w.harnesses {
		if h.exists && h.up {
			require.Empty(w.t, h.keys(alive), "I4: still alive in %s", h.me.PodUID)
		}
	}
	for _, name := range sorted(w.api.agents) {
		a := w.api.agents[name]
		want := int(*a.Spec.Replicas)
		require.Equal(w.t, want, w.count(name, living), "living standing runs of %s", name)
		require.Equal(w.t, want, w.count(name, w.wantedBy(a)), "of which do what %s says", name)
	}
}

// elapsed is how long an attempt has been running.
func (w *world) elapsed(a *delivery.Known) time.Duration {
	if a.State != wire.StateRunning {
		return 0
	}
	return w.now.Sub(*a.StartedAt)
}
