package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func endpointCases() []Case {
	return []Case{
		{ID: "E-1", Title: "the challenge tells identity, boot, journal, harness, agent, capacity and versions", run: tellsWho},
		{ID: "E-2", Title: "the journal's ID stays the same over a restart", needs: restarts, run: func(t *trial) {
			before := t.journal
			t.restart()
			t.check(t.journal == before, "expected the same journal ID after a restart with the same data")
		}},
		{ID: "E-3", Title: "a delivery with every field is accepted and comes to an end", run: func(t *trial) {
			k := fresh()
			content := t.content(k, t.kit.GoalQuick)
			content["session"] = string(wire.SessionFresh)
			content["limits"] = map[string]any{
				"startWithinSeconds": 600, "activeSeconds": 600, "tokens": 1_000_000, "cost": map[string]any{"amount": "100.50", "currency": "EUR"},
			}
			t.finished(fresh()) // the agent takes goals
			t.want(t.send(t.call(http.MethodPost, wire.RunsPath, content)), http.StatusAccepted, "")
			t.until(k, wire.StateFinished)
		}},
	}
}

func tellsWho(t *trial) {
	who := t.hello()
	me := t.kit.Identity
	t.check(who.APIVersion == wire.APIVersion, "expected apiVersion %s, got %q", wire.APIVersion, who.APIVersion)
	t.check(who.Identity.PodName == me.PodName && who.Identity.PodUID == me.PodUID, "expected the identity of the Pod that was asked for")
	t.check(who.Identity.Namespace != "" && (me.Namespace == "" || who.Identity.Namespace == me.Namespace),
		"expected identity.namespace %q, got %q", me.Namespace, who.Identity.Namespace)
	t.check(who.Boot != "" && len(who.Boot) <= wire.MaxUIDBytes, "expected boot to be text of 1 to %d bytes, got %d bytes", wire.MaxUIDBytes, len(who.Boot))
	t.check(who.Journal != "" && len(who.Journal) <= wire.MaxUIDBytes, "expected journal to be text of 1 to %d bytes, got %d bytes", wire.MaxUIDBytes, len(who.Journal))
	t.check(who.Harness.Version != "", "expected harness.version")
	t.check(who.Agent.State != "", "expected agent.state")
	t.check(slices.Contains(who.Versions, wire.APIVersion), "expected versions to list %s", wire.APIVersion)
	c := who.Capacity
	t.check(c.Concurrency >= 1 && c.Valid(), "expected capacity to count from a concurrency of at least 1, no more than 2147483647, got %+v", c)
	var raw struct{ Capacity map[string]json.RawMessage }
	if err := json.Unmarshal(t.send(t.challenge()).body, &raw); err == nil {
		for _, field := range []string{"concurrency", "queue", "running", "queued"} {
			t.check(raw.Capacity[field] != nil, "expected capacity.%s", field)
		}
	}
	t.check(t.hello().Boot == who.Boot, "expected the same boot in two answers of one boot")
}

func feedCases() []Case {
	return []Case{
		{ID: "E-4", Title: "the feed tells what changed after a revision", run: feedTellsChanges},
		{ID: "E-5", Title: "the feed is held until something changes", run: feedIsHeld},
		{ID: "E-6", Title: "a page of the feed has all its fields, and states without envelopes", run: feedShape},
		{ID: "E-7", Title: "a finished attempt is shown with its envelope", run: func(t *trial) {
			k := fresh()
			t.finished(k)
			a := t.state(k)
			t.check(a.Envelope != nil, "expected the envelope of a finished attempt")
		}},
		{ID: "E-8", Title: "an unknown attempt gets 404 unknown with the journal's ID", run: func(t *trial) {
			k := fresh()
			for _, c := range []call{t.call(http.MethodGet, k.path(), nil), t.call(http.MethodPost, k.recordedPath(), nil)} {
				a := t.send(c)
				t.refused(a, wire.CodeUnknown)
				t.check(a.problem.Journal == t.journal, "%s: expected the 404 to have the journal's ID in journal", a.what)
			}
		}},
	}
}

func sinceTarget(revision int64) string {
	return wire.RunsPath + "?" + wire.QuerySince + "=" + strconv.FormatInt(revision, 10)
}

// maxPages bounds how much of a feed is read.
const maxPages = 1000

// feed reads all pages after a revision.
func (t *trial) feed(since int64) (int64, map[key]wire.Attempt) {
	seen := map[key]wire.Attempt{}
	for range maxPages {
		page := as[wire.Changes](t, t.changes(since, 0))
		for _, a := range page.Runs {
			seen[key{a.Run.UID, a.Attempt}] = a
		}
		since = page.Revision
		if !page.More {
			return since, seen
		}
	}
	t.fail("expected the feed to end, got more than %d pages", maxPages)
	return 0, nil
}

func (t *trial) changes(since int64, prefer int) answer {
	c := t.call(http.MethodGet, sinceTarget(since), nil)
	c.prefer = prefer
	a := t.send(c)
	t.want(a, http.StatusOK, "")
	return a
}

func feedTellsChanges(t *trial) {
	before, after := fresh(), fresh()
	t.finished(before)
	revision, all := t.feed(0)
	t.check(all[before].State == wire.StateFinished, "since=0: expected an attempt that was not recorded")
	t.finished(after)
	_, changed := t.feed(revision)
	_, old := changed[before]
	t.check(changed[after].State == wire.StateFinished, "expected what changed after the revision")
	t.check(!old, "expected nothing that did not change after the revision")
}

const (
	shortWait = 2  // seconds for which nothing changes
	longWait  = 25 // seconds that a change must cut short
)

func feedIsHeld(t *trial) {
	t.finished(fresh()) // the agent takes goals
	revision, _ := t.feed(0)
	began := time.Now()
	page := as[wire.Changes](t, t.changes(revision, shortWait))
	if page.Revision == revision {
		t.check(time.Since(began) > shortWait*time.Second/2, "with Prefer: wait=%d and no change: expected to be held, was answered after %s", shortWait, time.Since(began).Round(time.Millisecond))
	}
	revision, _ = t.feed(0)
	held := make(chan answer, 1)
	c := t.call(http.MethodGet, sinceTarget(revision), nil)
	c.prefer = longWait
	raw := t.kit.encode(c)
	began = time.Now()
	go func() {
		a, _ := t.kit.exchange(t.ctx, c, raw)
		held <- a
	}()
	k := fresh()
	t.accepted(k, t.kit.GoalQuick, nil)
	a := <-held
	took := time.Since(began)
	t.want(a, http.StatusOK, "")
	page = as[wire.Changes](t, a)
	t.check(page.Revision > revision && took < longWait*time.Second*4/5, "with Prefer: wait=%d and a change: expected it at once, got an answer after %s", longWait, took.Round(time.Second))
}

func feedShape(t *trial) {
	k := fresh()
	t.finished(k)
	found := false
	for since, more := int64(0), true; more; {
		a := t.changes(since, 0)
		t.check(len(a.body) <= wire.MaxPageBytes, "expected a page of at most 1 MiB, got %d bytes", len(a.body))
		var page map[string]json.RawMessage
		t.check(json.Unmarshal(a.body, &page) == nil, "expected a JSON object")
		for _, field := range []string{"revision", "agent", "capacity", "runs", "more"} {
			t.check(page[field] != nil, "expected the field %s", field)
		}
		var runs []map[string]json.RawMessage
		t.check(json.Unmarshal(page["runs"], &runs) == nil && runs != nil, "expected runs to be a list")
		for _, run := range runs {
			t.check(run["envelope"] == nil, "expected states without envelopes")
		}
		p := as[wire.Changes](t, a)
		t.check(p.Agent.State != "" && p.Capacity.Concurrency >= 1, "expected agent.state and capacity")
		t.check(p.Revision > since || !p.More, "expected the revision to grow from page to page")
		found = found || slices.ContainsFunc(p.Runs, func(a wire.Attempt) bool {
			return a.Run.UID == k.uid && a.State == wire.StateFinished && a.Digest != ""
		})
		since, more = p.Revision, p.More
	}
	t.check(found, "expected a finished attempt in the feed")
}
