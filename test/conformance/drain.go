package conformance

import (
	"net/http"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func harnessCases() []Case {
	return []Case{
		{ID: "H-1", Title: "an attempt whose own time is over ends Failed/DeadlineExceeded", run: func(t *trial) {
			k := fresh()
			t.accepted(k, t.kit.GoalSlow, map[string]any{"activeSeconds": 1})
			t.ends(k, wire.OutcomeFailed, wire.ReasonDeadlineExceeded)
		}},
		{ID: "H-2", Title: "a cancelled attempt ends Cancelled/Cancelled", run: func(t *trial) {
			k := fresh()
			t.running(k)
			t.cancel(k, "")
			t.ends(k, wire.OutcomeCancelled, wire.ReasonCancelled)
		}},
		{ID: "H-3", Title: "while draining new deliveries get 503 with Retry-After, nothing journalled", needs: drains, run: func(t *trial) {
			t.running(fresh())
			t.drain()
			k := fresh()
			a := t.send(t.delivery(k, t.kit.GoalQuick))
			t.refused(a, wire.CodeDraining)
			t.retryAfter(a)
			t.neverSeen(k)
		}},
		{ID: "H-4", Title: "a drain voids what has not started", needs: drains, run: func(t *trial) {
			_, waiting := t.queued(t.kit.GoalQuick, nil)
			t.drain()
			t.until(waiting, wire.StateVoided)
		}},
		{ID: "H-5", Title: "what runs goes on while draining", needs: drains, run: func(t *trial) {
			k := fresh()
			t.running(k)
			t.drain()
			t.ends(k, wire.OutcomeSucceeded, wire.ReasonCompleted)
		}},
		{ID: "H-6", Title: "a drained harness stays until all that finished was recorded, then goes", needs: drains, run: staysUntilRecorded},
		{ID: "H-7", Title: "a second SIGTERM cancels what runs", needs: drains, run: func(t *trial) {
			k := fresh()
			t.running(k)
			t.drain()
			t.terminate()
			t.ends(k, wire.OutcomeCancelled, wire.ReasonCancelled)
		}},
	}
}

// ends waits for the end of an attempt and looks how it ended.
func (t *trial) ends(k key, outcome wire.Outcome, reason wire.Reason) {
	a := t.until(k, wire.StateFinished)
	t.check(a.Envelope != nil && a.Envelope.Outcome == outcome && a.Envelope.Reason == reason, "expected %s/%s, got%s", outcome, reason, ending(a))
}

// drain sends SIGTERM and waits until the runtime takes nothing new. Something has to run meanwhile, or it is gone at once.
func (t *trial) drain() {
	t.terminate()
	t.await("deliveries to be refused with 503 draining", func() bool {
		k := fresh()
		a := t.send(t.delivery(k, t.kit.GoalQuick))
		if a.status < http.StatusBadRequest {
			t.mine = append(t.mine, k)
		}
		return a.problem.Code == wire.CodeDraining
	})
}

func (t *trial) terminate() {
	t.drained = true
	if err := t.kit.Drain(t.ctx); err != nil {
		t.fail("the drain command failed: %v", err)
	}
}

// stays is how long a drained harness is watched while something was not recorded; it may give up after 10 s.
const stays = 5 * time.Second

func staysUntilRecorded(t *trial) {
	k := fresh()
	t.running(k)
	t.drain()
	t.cancel(k, "")
	t.until(k, wire.StateFinished)
	for began := time.Now(); time.Since(began) < stays; t.pause(4 * pollEvery) {
		a := t.get(k)
		t.want(a, http.StatusOK, "")
	}
	boot := t.boot
	for _, k := range t.mine { // it may be gone after any of them
		c := t.call(http.MethodPost, k.recordedPath(), nil)
		_, _ = t.kit.exchange(t.ctx, c, t.kit.encode(c))
	}
	t.await("the drained harness to go", func() bool {
		c := t.challenge()
		a, err := t.kit.exchange(t.ctx, c, t.kit.encode(c))
		return err != nil || a.status == http.StatusOK && as[wire.ChallengeAnswer](t, a).Boot != boot
	})
}

// revive brings a drained harness back: by the restart command, or whoever restarts it, such as a kubelet.
func (t *trial) revive() {
	t.drained = false
	if t.kit.Restart != nil {
		t.restart()
		return
	}
	t.awaitBoot(t.boot)
}
