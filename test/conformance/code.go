package conformance

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func codeCases() []Case {
	return []Case{
		{ID: "P-1", Title: "refusals are problem documents with a code", run: problemDocuments},
		{ID: "P-2", Title: "202 names the attempt in Location", run: func(t *trial) {
			k := fresh()
			a := t.accepted(k, t.kit.GoalQuick, nil)
			where, err := url.Parse(a.header.Get("Location"))
			t.check(err == nil && where.Path != "", "expected a Location that can be read")
			shown := t.send(t.call(http.MethodGet, where.RequestURI(), nil))
			t.want(shown, http.StatusOK, "")
			t.check(as[wire.Attempt](t, shown).Run.UID == k.uid, "expected Location to name the attempt")
		}},
		{ID: "P-3", Title: "the same delivery again gets 200 with the present state", run: func(t *trial) {
			k := fresh()
			t.running(k)
			a := t.send(t.delivery(k, t.kit.GoalSlow))
			t.want(a, http.StatusOK, "")
			t.check(as[wire.Attempt](t, a).State == wire.StateRunning, "expected the state running, got %q", as[wire.Attempt](t, a).State)
			t.cancel(k, "")
			t.until(k, wire.StateFinished)
			a = t.send(t.delivery(k, t.kit.GoalSlow))
			t.want(a, http.StatusOK, "")
			shown := as[wire.Attempt](t, a)
			t.check(shown.State == wire.StateFinished && shown.Envelope != nil, "expected the finished attempt with its envelope, got %q", shown.State)
			t.finished(fresh()) // the agent takes goals
			t.atOnce(fresh())
		}},
		{ID: "P-4", Title: "an endpoint that does not exist gets 404 not_found", run: func(t *trial) {
			for _, target := range []string{"/", "/healthz", wire.BasePath, wire.BasePath + "/elsewhere", wire.ChallengePath + "/x", wire.RunsPath + "/a/b/c"} {
				t.refused(t.send(t.call(http.MethodGet, target, nil)), wire.CodeNotFound)
			}
		}},
		{ID: "P-5", Title: "a method that does not exist gets 405", run: func(t *trial) {
			k := fresh()
			for _, c := range []call{
				t.call(http.MethodPut, wire.RunsPath, nil), t.call(http.MethodDelete, wire.RunsPath, nil), t.call(http.MethodPost, k.path(), nil),
				t.call(http.MethodGet, k.recordedPath(), nil), t.call(http.MethodPatch, k.path(), nil),
				t.call(http.MethodTrace, k.path(), nil), t.call("HEARTH", wire.RunsPath, nil), // a library may answer by itself what it does not know
			} {
				a := t.send(c)
				t.refused(a, wire.CodeMethodNotAllowed)
				t.check(t.kit.verifies(a), "%s: expected the refusal to have a MAC that verifies", a.what)
			}
		}},
		{ID: "P-6", Title: "other content for a known attempt gets 409 and changes nothing", run: func(t *trial) {
			k := fresh()
			before := t.running(k)
			t.refused(t.send(t.delivery(k, t.kit.GoalQuick)), wire.CodeDigestMismatch)
			now := t.state(k)
			t.check(now.Digest == before.Digest && now.State == wire.StateRunning && sameTime(now.StartedAt, before.StartedAt), "expected the first to be untouched, it is %s", now.State)
		}},
		{ID: "P-7", Title: "another boot gets 412 boot_changed, after a restart too", needs: restarts, run: func(t *trial) {
			old := t.call(http.MethodGet, wire.RunsPath+"?since=0", nil)
			t.restart()
			t.refused(t.send(old), wire.CodeBootChanged)
		}},
		{ID: "P-8", Title: "another journal gets 412 journal_changed", run: func(t *trial) {
			k := fresh()
			c := t.delivery(k, "")
			c.body = with(t.content(k, t.kit.GoalQuick), "journal", "another-journal")
			t.refused(t.send(c), wire.CodeJournalChanged)
			t.neverSeen(k)
		}},
		{ID: "P-9", Title: "at capacity: 429 with Retry-After and the capacity, nothing journalled", run: func(t *trial) {
			t.full()
			k := fresh()
			a := t.send(t.delivery(k, t.kit.GoalQuick))
			t.refused(a, wire.CodeBusy)
			t.retryAfter(a)
			t.check(a.problem.Capacity != nil && a.problem.Capacity.Concurrency == t.capacity.Concurrency, "expected the capacity in the body")
			t.neverSeen(k)
		}},
	}
}

func (t *trial) retryAfter(a answer) {
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	t.check(err == nil && seconds > 0, "%s: expected Retry-After in seconds with the %s, got %q", a.what, describe(a.status, a.problem.Code), a.header.Get("Retry-After"))
}

func problemDocuments(t *trial) {
	k := fresh()
	for _, change := range []func(*call){
		func(c *call) { c.challenge = nil },
		func(c *call) { c.body = []byte("{") },
		func(c *call) { c.proof = []string{nonce()} },
		func(c *call) { c.boot = "another-boot" },
		func(c *call) { c.target = "/elsewhere" },
		func(c *call) { c.method = http.MethodPut },
		func(c *call) { c.media = "text/plain" },
		func(c *call) { c.host = "another-pod" },
		func(c *call) { c.method, c.target, c.body, c.media = http.MethodGet, k.path(), nil, "" },
	} {
		c := t.delivery(k, t.kit.GoalQuick)
		change(&c)
		a := t.send(c)
		if a.status < http.StatusBadRequest {
			continue // what should have been refused is the matter of another case
		}
		media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
		t.check(media == wire.ProblemMediaType, "the %d: expected Content-Type %s, got %q", a.status, wire.ProblemMediaType, media)
		var body struct {
			Status int
			Code   string
		}
		t.check(json.Unmarshal(a.body, &body) == nil, "the %d: expected a JSON object", a.status)
		t.check(body.Status == a.status, "the %d: expected the same number in status, got %d", a.status, body.Status)
		t.check(wire.Code(body.Code).Status() == a.status, "the %d: expected a code that goes with it, got %q", a.status, body.Code)
	}
}

// sentAtOnce is how often one delivery is sent at the same moment.
const sentAtOnce = 16

// atOnce sends one delivery many times in parallel: a look and what follows from it must be one step, or the work starts twice.
func (t *trial) atOnce(k key) {
	calls := make([]call, sentAtOnce)
	for i := range calls {
		calls[i] = t.delivery(k, t.kit.GoalSlow)
	}
	answers, begin := make(chan answer, sentAtOnce), make(chan struct{})
	for _, c := range calls {
		go func() {
			<-begin
			a, _ := t.kit.exchange(t.ctx, c, t.kit.encode(c)) // without a response it has no status
			answers <- a
		}()
	}
	close(begin)
	count := map[int]int{}
	for range calls {
		count[(<-answers).status]++
	}
	t.check(count[http.StatusAccepted] == 1 && count[http.StatusOK] == sentAtOnce-1,
		"%d equal deliveries at once: expected 202 once and 200 for the rest, got %d and %d", sentAtOnce, count[http.StatusAccepted], count[http.StatusOK])
}
