package conformance

import (
	"net/http"
	"strings"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func challengeCases() []Case {
	return []Case{
		{ID: "C-1", Title: "a boot belongs on every call but the challenge", run: bootWhereItBelongs},
		{ID: "C-2", Title: "a proof covers every part of a request", run: proofCoversAll},
		{ID: "C-3", Title: "answers carry a MAC that verifies", run: answersVerify},
		{ID: "C-4", Title: "refusals carry a MAC that verifies", run: refusalsVerify},
		{ID: "C-5", Title: "a missing or malformed challenge gets 400 without an answer", run: malformedChallenge},
		{ID: "C-6", Title: "a missing or wrong proof gets 401", run: wrongProof},
		{ID: "C-7", Title: "the body is not looked at before the proof", run: proofBeforeBody},
		{ID: "C-8", Title: "a replayed request has no effect", run: replayed},
		{ID: "C-9", Title: "tombstones outlive a restart", needs: restarts, run: tombstones},
	}
}

func bootWhereItBelongs(t *trial) {
	c := t.challenge()
	c.boot = t.boot
	t.refused(t.send(c), wire.CodeMalformed)
	k := fresh()
	c = t.delivery(k, t.kit.GoalQuick)
	c.boot = ""
	t.refused(t.send(c), wire.CodeBootChanged)
	t.neverSeen(k)
}

func proofCoversAll(t *trial) {
	t.want(t.send(t.call(http.MethodGet, wire.RunsPath+"?since=0", nil)), http.StatusOK, "")
	k := fresh()
	for part, change := range map[string]func(*challenge.Request){
		"method":    func(r *challenge.Request) { r.Method = http.MethodPut },
		"path":      func(r *challenge.Request) { r.Target = wire.ChallengePath },
		"query":     func(r *challenge.Request) { r.Target += "?" },
		"Pod name":  func(r *challenge.Request) { r.PodName += "x" },
		"Pod UID":   func(r *challenge.Request) { r.PodUID += "x" },
		"boot":      func(r *challenge.Request) { r.Boot += "x" },
		"challenge": func(r *challenge.Request) { r.Challenge = nonce() },
		"body":      func(r *challenge.Request) { r.Body = append([]byte(" "), r.Body...) },
	} {
		c := t.delivery(k, t.kit.GoalQuick)
		c.proven = change
		a := t.send(c)
		t.check(a.status == http.StatusUnauthorized && a.problem.Code == wire.CodeUnauthenticated,
			"a proof of another %s: expected 401 unauthenticated, got %s", part, describe(a.status, a.problem.Code))
	}
	t.neverSeen(k)
}

// answersVerify looks at every kind of success: 200, 202, 204.
func answersVerify(t *trial) {
	k := fresh()
	t.verified(t.send(t.challenge()))
	t.verified(t.accepted(k, t.kit.GoalQuick, nil))
	t.until(k, wire.StateFinished)
	t.verified(t.get(k))
	t.verified(t.send(t.call(http.MethodGet, wire.RunsPath+"?since=0", nil)))
	t.verified(t.cancel(k, ""))
	t.verified(t.record(k))
}

func (t *trial) verified(a answer) {
	switch n := len(a.header.Values(wire.HeaderAnswer)); n {
	case 0:
		t.fail("%s: the %s has no %s", a.what, describe(a.status, a.problem.Code), wire.HeaderAnswer)
	case 1:
		t.check(t.kit.verifies(a), "%s: the %s of the %s does not verify", a.what, wire.HeaderAnswer, describe(a.status, a.problem.Code))
	default:
		t.fail("%s: expected one %s, got %d", a.what, wire.HeaderAnswer, n)
	}
}

func refusalsVerify(t *trial) {
	k := fresh()
	for _, change := range []func(*call){
		func(c *call) { c.body = []byte("{") },
		func(c *call) { c.proof = []string{} },
		func(c *call) { c.proof = []string{nonce()} },
		func(c *call) { c.target = "/elsewhere" },
		func(c *call) { c.method = http.MethodPut },
		func(c *call) { c.body = with(t.content(k, "x"), "apiVersion", "hearth.dev/delivery/v9") },
		func(c *call) { c.boot = "another-boot" },
		func(c *call) { c.body = with(t.content(k, "x"), "journal", "another-journal") },
		func(c *call) { c.body = padded(c.body, wire.MaxBodyBytes+1) },
		func(c *call) { c.media = "text/plain" },
		func(c *call) { c.host = "another-pod" },
		func(c *call) { c.body = with(t.content(k, "x"), "target.uid", "another-uid") },
		func(c *call) { c.method, c.target, c.body, c.media = http.MethodGet, k.path(), nil, "" },
	} {
		c := t.delivery(k, t.kit.GoalQuick)
		change(&c)
		if a := t.send(c); a.status >= http.StatusBadRequest {
			t.verified(a)
		}
	}
}

func malformedChallenge(t *trial) {
	k := fresh()
	good := nonce()
	for name, values := range map[string][]string{
		"none": {}, "a short one": {good[1:]}, "a padded one": {good + "="}, "one with stray bits": {strings.Repeat("A", 42) + "B"},
		"one that is not base64url": {"+" + good[1:]}, "two": {good, nonce()},
	} {
		c := t.delivery(k, t.kit.GoalQuick)
		c.challenge = values
		a := t.send(c)
		t.check(a.status == http.StatusBadRequest, "%s: expected 400, got %s", name, describe(a.status, a.problem.Code))
		t.check(len(a.header.Values(wire.HeaderAnswer)) == 0, "%s: expected no %s", name, wire.HeaderAnswer)
	}
	t.neverSeen(k)
}

func wrongProof(t *trial) {
	k := fresh()
	for _, c := range []call{
		t.challenge(), t.delivery(k, t.kit.GoalQuick), t.call(http.MethodGet, wire.RunsPath+"?since=0", nil), t.call(http.MethodDelete, k.path(), nil),
		t.call(http.MethodPost, k.recordedPath(), nil), t.call(http.MethodGet, k.path(), nil),
	} {
		right := t.kit.keys.Proof(t.kit.request(c))
		for name, values := range map[string][]string{
			"no proof": {}, "an empty proof": {""}, "another proof": {nonce()}, "a cut proof": {right[:42]}, "a padded proof": {right + "="},
			"the answer's MAC": {t.kit.keys.Answer(t.kit.request(c), http.StatusOK, nil)},
		} {
			c.proof = values
			a := t.send(c)
			t.check(a.status == http.StatusUnauthorized && a.problem.Code == wire.CodeUnauthenticated,
				"%s, %s: expected 401 unauthenticated, got %s", a.what, name, describe(a.status, a.problem.Code))
		}
	}
	t.neverSeen(k)
}

func proofBeforeBody(t *trial) {
	k := fresh()
	for name, change := range map[string]func(*call){
		"broken JSON":             func(c *call) { c.body = []byte("{") },
		"another version":         func(c *call) { c.body = with(t.content(k, "x"), "apiVersion", "hearth.dev/delivery/v9") },
		"an unknown field":        func(c *call) { c.body = with(t.content(k, "x"), "conformance", true) },
		"another target":          func(c *call) { c.body = with(t.content(k, "x"), "target.uid", "another-uid") },
		"another media type":      func(c *call) { c.media = "text/plain" },
		"an endpoint of no one's": func(c *call) { c.target = "/elsewhere" },
		"no body":                 func(c *call) { c.body = nil },
	} {
		c := t.delivery(k, t.kit.GoalQuick)
		change(&c)
		c.proof = []string{nonce()}
		a := t.send(c)
		t.check(a.status == http.StatusUnauthorized, "%s without a proof: expected 401, got %s", name, describe(a.status, a.problem.Code))
	}
}

// replayed sends the same bytes again: while the attempt is known, and after it was recorded.
func replayed(t *trial) {
	k := fresh()
	t.finished(fresh()) // the agent takes goals
	c := t.delivery(k, t.kit.GoalQuick)
	raw := t.kit.encode(c)
	again := func() answer {
		a, err := t.kit.exchange(t.ctx, c, raw)
		t.check(err == nil, "%v", err)
		return a
	}
	t.want(again(), http.StatusAccepted, "")
	first := t.until(k, wire.StateFinished)
	unchanged := func(when string) {
		now := t.state(k)
		t.check(now.State == wire.StateFinished && sameTime(now.StartedAt, first.StartedAt) && sameTime(now.FinishedAt, first.FinishedAt),
			"replayed %s: expected the attempt to stay as it was, it is %s", when, now.State)
	}
	t.want(again(), http.StatusOK, "")
	unchanged("after its end")
	t.want(t.record(k), http.StatusNoContent, "")
	a := again()
	t.check(a.status == http.StatusOK || a.problem.Code == wire.CodeForgotten,
		"replayed after the record: expected 200 or 410 forgotten, got %s", describe(a.status, a.problem.Code))
	unchanged("after the record")
}

func tombstones(t *trial) {
	ended, voided := fresh(), fresh()
	t.finished(ended)
	t.want(t.record(ended), http.StatusNoContent, "")
	t.want(t.cancel(voided, ""), http.StatusOK, "")
	t.restart()
	a := t.send(t.delivery(ended, t.kit.GoalQuick))
	t.check(a.status == http.StatusOK || a.problem.Code == wire.CodeForgotten,
		"a recorded attempt after a restart: expected 200 or 410 forgotten, got %s", describe(a.status, a.problem.Code))
	t.refused(t.send(t.delivery(voided, t.kit.GoalQuick)), wire.CodeVoided)
}
