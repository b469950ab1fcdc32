package conformance

import (
	"net/http"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func cancelCases() []Case {
	return []Case{
		{ID: "E-9", Title: "a cancel of a running attempt gets 202 and ends it", run: func(t *trial) {
			k := fresh()
			t.running(k)
			t.want(t.cancel(k, ""), http.StatusAccepted, "")
			a := t.until(k, wire.StateFinished)
			t.check(a.CancelRequested, "expected cancelRequested on a cancelled attempt")
		}},
		{ID: "E-10", Title: "a cancel of an ended attempt gets 200 and changes nothing", run: func(t *trial) {
			k := fresh()
			before := t.envelope(t.finished(k))
			a := t.cancel(k, "")
			t.want(a, http.StatusOK, "")
			shown, now := as[wire.Attempt](t, a), t.state(k)
			t.check(shown.State == wire.StateFinished, "expected the state finished in the answer, got %q", shown.State)
			t.check(t.envelope(now).Outcome == before.Outcome && !now.CancelRequested, "expected the ended attempt to stay as it was")
		}},
		{ID: "E-11", Title: "a cancel of an attempt that has not started voids it", run: func(t *trial) {
			active, waiting := t.queued(t.kit.GoalQuick, nil)
			a := t.cancel(waiting, "")
			t.want(a, http.StatusOK, "")
			t.check(as[wire.Attempt](t, a).State == wire.StateVoided, "expected state voided, got %q", as[wire.Attempt](t, a).State)
			t.cancel(active, "")
			t.until(active, wire.StateFinished)
			t.check(t.state(waiting).State == wire.StateVoided, "expected a voided attempt to stay voided when there is room, it is %s", t.state(waiting).State)
		}},
		{ID: "E-12", Title: "a cancel of an attempt never seen voids it, and a later delivery gets 410", run: func(t *trial) {
			k := fresh()
			a := t.cancel(k, "")
			t.want(a, http.StatusOK, "")
			t.check(as[wire.Attempt](t, a).State == wire.StateVoided, "expected state voided, got %q", as[wire.Attempt](t, a).State)
			t.refused(t.send(t.delivery(k, t.kit.GoalQuick)), wire.CodeVoided)
			t.check(t.state(k).State == wire.StateVoided, "expected the attempt to stay voided")
		}},
		{ID: "E-13", Title: "a conditional void: 409 once started, else voided", run: conditionalVoid},
		{ID: "E-14", Title: "a cancel is idempotent", run: func(t *trial) {
			voided, running := fresh(), fresh()
			for range 2 {
				a := t.cancel(voided, "")
				t.want(a, http.StatusOK, "")
				t.check(as[wire.Attempt](t, a).State == wire.StateVoided, "expected voided each time, got %q", as[wire.Attempt](t, a).State)
			}
			t.running(running)
			t.want(t.cancel(running, ""), http.StatusAccepted, "")
			if a := t.cancel(running, ""); a.status != http.StatusOK {
				t.want(a, http.StatusAccepted, "")
			}
			t.until(running, wire.StateFinished)
			for range 2 {
				t.want(t.cancel(running, ""), http.StatusOK, "")
			}
		}},
	}
}

func conditionalVoid(t *trial) {
	const condition = "&" + wire.QueryIfNotStarted + "=true"
	unseen, ended, running := fresh(), fresh(), fresh()
	t.want(t.cancel(unseen, condition), http.StatusOK, "")
	t.check(t.state(unseen).State == wire.StateVoided, "never seen: expected it to be voided, it is %s", t.state(unseen).State)
	t.finished(ended)
	t.refused(t.cancel(ended, condition), wire.CodeStarted)
	t.running(running)
	t.refused(t.cancel(running, condition), wire.CodeStarted)
	a := t.state(running)
	t.check(a.State == wire.StateRunning && !a.CancelRequested, "expected the running attempt to go on, it is %s", a.State)
}

func recordCases() []Case {
	return []Case{
		{ID: "E-15", Title: "recorded gets 204, again too, and a tombstone stays", run: func(t *trial) {
			k := fresh()
			t.finished(k)
			for range 2 {
				a := t.record(k)
				t.want(a, http.StatusNoContent, "")
				t.check(len(a.body) == 0, "expected no body with a 204")
			}
			a := t.send(t.delivery(k, t.kit.GoalQuick))
			t.check(a.status == http.StatusOK || a.problem.Code == wire.CodeForgotten, "delivered again: expected 200 or 410 forgotten, got %s", describe(a.status, a.problem.Code))
		}},
		{ID: "E-16", Title: "session is fresh or standing", run: func(t *trial) {
			for _, word := range []any{"Fresh", "other", 1, " fresh"} {
				c := t.delivery(fresh(), "")
				c.body = with(t.content(fresh(), t.kit.GoalQuick), "session", word)
				a := t.send(c)
				t.check(a.status == http.StatusBadRequest && a.problem.Code == wire.CodeMalformed, "session %v: expected 400 malformed, got %s", word, describe(a.status, a.problem.Code))
			}
			t.finished(fresh()) // the agent takes goals
			for _, word := range []wire.SessionMode{wire.SessionFresh, wire.SessionStanding} {
				k := fresh()
				c := t.delivery(k, "")
				c.body = with(t.content(k, t.kit.GoalQuick), "session", string(word))
				t.want(t.send(c), http.StatusAccepted, "")
				t.until(k, wire.StateFinished)
			}
		}},
		{ID: "E-17", Title: "limits are positive", run: notPositive},
	}
}

func notPositive(t *trial) {
	k := fresh()
	content := t.content(k, t.kit.GoalQuick)
	var bodies []spoilt
	for _, field := range []string{"startWithinSeconds", "activeSeconds", "tokens"} {
		for _, value := range []any{0, -1} {
			bodies = append(bodies, spoilt{name: field, body: with(content, "limits."+field, value)})
		}
	}
	for _, cost := range []map[string]any{
		{"amount": "0", "currency": "EUR"}, {"amount": "0.00", "currency": "EUR"}, {"amount": "-1", "currency": "EUR"}, {"amount": "1"}, {"currency": "EUR"}, {"amount": 1, "currency": "EUR"},
	} {
		bodies = append(bodies, spoilt{name: "cost", body: with(content, "limits.cost", cost)})
	}
	for _, b := range bodies {
		c := t.delivery(k, "")
		c.body = b.body
		a := t.send(c)
		t.check(a.status == http.StatusBadRequest && a.problem.Code == wire.CodeMalformed, "limits.%s that is not positive: expected 400 malformed, got %s", b.name, describe(a.status, a.problem.Code))
	}
	t.neverSeen(k)
}
