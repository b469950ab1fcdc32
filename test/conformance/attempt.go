package conformance

import (
	"bytes"
	"net/http"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func attemptCases() []Case {
	return []Case{
		{ID: "A-1", Title: "states follow each other, each with its fields", run: statesAndFields},
		{ID: "A-2", Title: "what was accepted is known after a kill", needs: restarts, run: func(t *trial) {
			k := fresh()
			t.accepted(k, t.kit.GoalSlow, nil)
			t.restart()
			t.want(t.get(k), http.StatusOK, "")
		}},
		{ID: "A-3", Title: "a result that was told is the same after a restart", needs: restarts, run: func(t *trial) {
			k := fresh()
			before := t.finished(k)
			t.restart()
			after := t.state(k)
			t.check(after.State == wire.StateFinished, "expected finished, got %s", after.State)
			t.check(bytes.Equal(encoded(before), encoded(after)), "expected the attempt and its envelope to be as before the restart")
		}},
		{ID: "A-4", Title: "an attempt that has not started within its limit is voided", run: func(t *trial) {
			_, waiting := t.queued(t.kit.GoalQuick, map[string]any{"startWithinSeconds": 1})
			t.until(waiting, wire.StateVoided)
		}},
		{ID: "A-5", Title: "what ran at a restart is finished as Interrupted", needs: restarts, run: func(t *trial) {
			k := fresh()
			t.running(k)
			t.restart()
			a := t.state(k)
			t.check(a.State == wire.StateFinished && a.Envelope != nil && a.Envelope.Outcome == wire.OutcomeInterrupted,
				"expected finished with outcome Interrupted, got %s%s", a.State, ending(a))
		}},
		{ID: "A-6", Title: "what was accepted at a restart runs", needs: restarts, run: func(t *trial) {
			_, waiting := t.queued(t.kit.GoalQuick, nil)
			t.restart()
			a := t.until(waiting, wire.StateFinished)
			t.check(a.Envelope != nil && a.Envelope.Outcome == wire.OutcomeSucceeded, "expected it to succeed, got%s", ending(a))
		}},
	}
}

// rank orders the states that follow each other.
var rank = map[wire.State]int{wire.StateAccepted: 1, wire.StateRunning: 2, wire.StateFinished: 3}

func statesAndFields(t *trial) {
	k := fresh()
	last := 0
	look := func(a wire.Attempt) wire.State {
		t.check(rank[a.State] >= max(last, 1), "expected accepted, running, finished in this order, got %q", a.State)
		last = rank[a.State]
		t.check(a.Run.UID == k.uid && a.Run.Name == "conformance" && a.Run.Namespace != "" && a.Attempt == 1, "%s: expected run and attempt as delivered", a.State)
		t.check(a.Digest != "" && a.AcceptedAt != nil && !a.Recorded, "%s: expected digest and acceptedAt, and not recorded", a.State)
		t.check(last < rank[wire.StateRunning] || a.StartedAt != nil, "%s: expected startedAt", a.State)
		t.check((a.State == wire.StateFinished) == (a.FinishedAt != nil), "%s: expected finishedAt exactly when finished", a.State)
		t.check(last == rank[wire.StateFinished] || a.Envelope == nil, "%s: expected no envelope before the end", a.State)
		return a.State
	}
	look(as[wire.Attempt](t, t.accepted(k, t.kit.GoalSlow, nil)))
	t.await("an attempt to run", func() bool { return look(t.state(k)) == wire.StateRunning })
	t.want(t.cancel(k, ""), http.StatusAccepted, "")
	t.await("an attempt to end", func() bool { return look(t.state(k)) == wire.StateFinished })
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// restart has the harness started again and waits for its next boot.
func (t *trial) restart() {
	before := t.boot
	if err := t.kit.Restart(t.ctx); err != nil {
		t.fail("the restart command failed: %v", err)
	}
	t.awaitBoot(before)
}

// awaitBoot waits until another boot than this one answers.
func (t *trial) awaitBoot(before string) {
	t.await("another boot to answer", func() bool {
		c := t.challenge()
		a, err := t.kit.exchange(t.ctx, c, t.kit.encode(c))
		return err == nil && a.status == http.StatusOK && as[wire.ChallengeAnswer](t, a).Boot != before
	})
	t.hello()
}
