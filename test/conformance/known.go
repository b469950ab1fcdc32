package conformance

import (
	"fmt"
	"net/http"
	"strings"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func waitCases() []Case {
	return []Case{
		{ID: "E-18", Title: "a delivery that prefers to wait gets 200 with the result", run: func(t *trial) {
			t.finished(fresh()) // the agent takes goals
			k := fresh()
			c := t.delivery(k, t.kit.GoalQuick)
			c.prefer = wire.MaxWaitSeconds
			a := t.send(c)
			t.want(a, http.StatusOK, "")
			shown := as[wire.Attempt](t, a)
			t.check(shown.State == wire.StateFinished && shown.Envelope != nil, "expected the finished attempt with its envelope, got state %q", shown.State)
		}},
		{ID: "E-19", Title: "a delivery whose wait is over gets 202", run: func(t *trial) {
			t.finished(fresh()) // the agent takes goals
			k := fresh()
			c := t.delivery(k, t.kit.GoalSlow)
			c.prefer = 1
			t.want(t.send(c), http.StatusAccepted, "")
		}},
		{ID: "E-20", Title: "the feed holds all that was not recorded, and no more", run: func(t *trial) {
			recorded, kept, voided := fresh(), fresh(), fresh()
			t.finished(recorded)
			t.finished(kept)
			t.want(t.cancel(voided, ""), http.StatusOK, "")
			t.want(t.record(recorded), http.StatusNoContent, "")
			_, all := t.feed(0)
			_, gone := all[recorded]
			t.check(all[kept].State == wire.StateFinished, "expected a finished attempt that was not recorded")
			t.check(all[voided].State == wire.StateVoided, "expected a voided attempt that was not recorded")
			t.check(!gone, "expected no attempt that was recorded")
		}},
		{ID: "E-21", Title: "a revision above the present one gets 400", run: func(t *trial) {
			revision, _ := t.feed(0)
			t.refused(t.send(t.call(http.MethodGet, sinceTarget(revision+1_000_000), nil)), wire.CodeMalformed)
		}},
		{ID: "E-22", Title: "recorded of a live attempt gets 409", run: func(t *trial) {
			k := fresh()
			t.running(k)
			t.refused(t.record(k), wire.CodeAttemptActive)
			a := t.state(k)
			t.check(a.State == wire.StateRunning && !a.Recorded, "expected the attempt to go on, it is %s", a.State)
		}},
	}
}

func knownCases() []Case {
	return []Case{
		{ID: "E-23", Title: "a known attempt is answered as known whatever came after it", run: func(t *trial) {
			first := fresh()
			t.finished(first)
			t.finished(first.next(2))
			a := t.send(t.delivery(first, t.kit.GoalQuick))
			t.want(a, http.StatusOK, "")
			t.check(as[wire.Attempt](t, a).Attempt == 1, "expected attempt 1, got %d", as[wire.Attempt](t, a).Attempt)
			t.refused(t.send(t.delivery(first, t.kit.GoalQuick+" ")), wire.CodeDigestMismatch)
		}},
		{ID: "E-24", Title: "an unknown attempt below the newest gets 410 superseded", run: func(t *trial) {
			k := fresh()
			t.finished(k.next(3))
			t.refused(t.send(t.delivery(k.next(2), t.kit.GoalQuick)), wire.CodeSuperseded)
			t.neverSeen(k.next(2))
		}},
		{ID: "E-25", Title: "a voided attempt gets 410 voided whatever its content", run: func(t *trial) {
			active, waiting := t.queued(t.kit.GoalQuick, nil)
			t.want(t.cancel(waiting, ""), http.StatusOK, "")
			t.cancel(active, "")
			for _, goal := range []string{t.kit.GoalQuick, t.kit.GoalQuick + " "} {
				t.refused(t.send(t.delivery(waiting, goal)), wire.CodeVoided)
			}
		}},
		{ID: "E-26", Title: "what is left of a recorded attempt is shown as finished and recorded", run: func(t *trial) {
			k := fresh()
			before := t.finished(k)
			t.want(t.record(k), http.StatusNoContent, "")
			a := t.state(k)
			t.check(a.State == wire.StateFinished && a.Recorded, "expected finished and recorded, got %s, recorded %v", a.State, a.Recorded)
			t.check(a.Digest == before.Digest, "expected the digest to stay")
			again := t.send(t.delivery(k, t.kit.GoalQuick))
			if a.Envelope == nil {
				t.refused(again, wire.CodeForgotten)
			} else {
				t.want(again, http.StatusOK, "")
			}
		}},
		{ID: "E-27", Title: "unknown or repeated query parameters get 400", run: badQueries},
		{ID: "E-28", Title: "a body that did not arrive whole gets 401", run: func(t *trial) {
			k := fresh()
			c := t.delivery(k, t.kit.GoalQuick)
			c.missing = len(c.body) / 2
			t.refused(t.send(c), wire.CodeUnauthenticated)
			t.neverSeen(k)
		}},
	}
}

func badQueries(t *trial) {
	k := fresh()
	t.running(k)
	one := wire.RunsPath + "/" + k.uid
	for _, q := range []struct{ method, target string }{
		{http.MethodGet, wire.RunsPath + "?since=x"}, {http.MethodGet, wire.RunsPath + "?since=-1"},
		{http.MethodGet, wire.RunsPath + "?since=0&since=0"}, {http.MethodGet, wire.RunsPath + "?since=0&conformance=1"},
		{http.MethodGet, one}, {http.MethodGet, one + "?attempt=x"}, {http.MethodGet, one + "?attempt=1&attempt=1"},
		{http.MethodGet, one + "?attempt=1&ifNotStarted=true"}, {http.MethodGet, one + "?Attempt=1"},
		{http.MethodDelete, one}, {http.MethodDelete, one + "?attempt=1&attempt=2"}, {http.MethodDelete, one + "?attempt=1&conformance"},
		{http.MethodDelete, one + "?attempt=1&ifNotStarted=perhaps"},
		{http.MethodPost, one + wire.RecordedSuffix}, {http.MethodPost, one + wire.RecordedSuffix + "?attempt=1&x=1"},
	} {
		a := t.send(t.call(q.method, q.target, nil))
		t.check(a.status == http.StatusBadRequest && a.problem.Code == wire.CodeMalformed, "%s %s: expected 400 malformed, got %s",
			q.method, strings.Replace(q.target, k.uid, "{uid}", 1), describe(a.status, a.problem.Code))
	}
	unseen := fresh()
	c := t.delivery(unseen, t.kit.GoalQuick)
	c.target += "?conformance=1"
	t.refused(t.send(c), wire.CodeMalformed)
	t.neverSeen(unseen)
	a := t.state(k)
	t.check(a.State == wire.StateRunning && !a.CancelRequested, "expected none of them to do anything, the attempt is %s", a.State)
}

// fault is one thing that can be wrong with a delivery.
type fault struct {
	name   string
	code   wire.Code
	change func(t *trial, c *call)
	body   func(t *trial, content map[string]any)
}

// inOrder are the faults in the order in which a harness looks for them.
func inOrder() []fault {
	return []fault{
		{name: "challenge", code: wire.CodeMalformed, change: func(_ *trial, c *call) { c.challenge = []string{"short"} }},
		{name: "Host", code: wire.CodeMisdirected, change: func(_ *trial, c *call) { c.host = "another-pod" }},
		{name: "size", code: wire.CodeTooLarge, change: func(_ *trial, c *call) { c.body = padded(c.body, wire.MaxBodyBytes+1) }},
		{name: "proof", code: wire.CodeUnauthenticated, change: func(_ *trial, c *call) { c.proof = []string{nonce()} }},
		{name: "boot", code: wire.CodeBootChanged, change: func(_ *trial, c *call) { c.boot = "another-boot" }},
		{name: "media type", code: wire.CodeUnsupportedMedia, change: func(_ *trial, c *call) { c.media = "text/plain" }},
		{name: "version", code: wire.CodeUnsupportedVersion, body: func(_ *trial, m map[string]any) { m["apiVersion"] = "hearth.dev/delivery/v9" }},
		{name: "decoding", code: wire.CodeMalformed, body: func(_ *trial, m map[string]any) { m["conformance"] = true }},
		{name: "target", code: wire.CodeMisdirected, body: func(t *trial, m map[string]any) {
			m["target"] = map[string]any{"name": t.kit.Identity.PodName, "uid": "another-uid"}
		}},
		{name: "journal", code: wire.CodeJournalChanged, body: func(_ *trial, m map[string]any) { m["journal"] = "another-journal" }},
		{name: "known attempt", code: wire.CodeDigestMismatch, body: func(_ *trial, m map[string]any) { m["goal"] = fmt.Sprint(m["goal"], " ") }},
	}
}

func orderCases() []Case {
	return []Case{
		{ID: "E-29", Title: "of two faults the one checked first is told", run: func(t *trial) {
			k := fresh()
			t.finished(k)
			faults := inOrder()
			for i, first := range faults {
				for _, second := range faults[i+1:] {
					content := t.content(k, t.kit.GoalQuick)
					for _, f := range []fault{first, second} {
						if f.body != nil {
							f.body(t, content)
						}
					}
					c := t.call(http.MethodPost, wire.RunsPath, content)
					for _, f := range []fault{second, first} {
						if f.change != nil {
							f.change(t, &c)
						}
					}
					a := t.send(c)
					t.check(a.status == first.code.Status() && a.problem.Code == first.code, "%s and %s wrong: expected %s, got %s",
						first.name, second.name, describe(first.code.Status(), first.code), describe(a.status, a.problem.Code))
				}
			}
		}},
		{ID: "E-30", Title: "a known attempt is answered before capacity is looked at", run: func(t *trial) {
			ended, voided := fresh(), fresh()
			t.finished(ended)
			t.want(t.cancel(voided, ""), http.StatusOK, "")
			active := t.full()
			t.want(t.send(t.delivery(ended, t.kit.GoalQuick)), http.StatusOK, "")
			t.want(t.send(t.delivery(active, t.kit.GoalSlow)), http.StatusOK, "")
			t.refused(t.send(t.delivery(ended, t.kit.GoalQuick+" ")), wire.CodeDigestMismatch)
			t.refused(t.send(t.delivery(voided, t.kit.GoalQuick)), wire.CodeVoided)
		}},
		{ID: "E-31", Title: "a higher attempt while another is alive gets 409", run: func(t *trial) {
			k := fresh()
			t.running(k)
			t.refused(t.send(t.delivery(k.next(2), t.kit.GoalQuick)), wire.CodeAttemptActive)
			t.neverSeen(k.next(2))
			t.check(t.state(k).State == wire.StateRunning, "expected the first to go on, it is %s", t.state(k).State)
		}},
	}
}

// full takes every place that there is, the queue's too; one of those that run is returned.
func (t *trial) full() key {
	one := t.occupied()
	for range t.capacity.Queue {
		t.accepted(fresh(), t.kit.GoalQuick, nil)
	}
	return one
}
