package conformance

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const pollEvery = 50 * time.Millisecond

// key names an attempt.
type key struct {
	uid     string
	attempt int64
}

// trial is one case being run.
type trial struct {
	kit           *Kit
	ctx           context.Context //nolint:containedctx // one case is one call
	boot, journal string
	capacity      wire.Capacity
	mine          []key // what the case delivered
	drained       bool
}

// hello challenges the runtime and learns its boot.
func (t *trial) hello() wire.ChallengeAnswer {
	a := t.send(t.challenge())
	t.want(a, http.StatusOK, "")
	who := as[wire.ChallengeAnswer](t, a)
	t.boot, t.journal, t.capacity = who.Boot, who.Journal, who.Capacity
	return who
}

func (t *trial) challenge() call {
	c := t.call(http.MethodPost, wire.ChallengePath, map[string]any{"apiVersion": wire.APIVersion, "target": t.target()})
	c.boot = ""
	return c
}

func (t *trial) target() map[string]any {
	return map[string]any{"name": t.kit.Identity.PodName, "uid": t.kit.Identity.PodUID}
}

// call is a request as it should be; a nil body is none.
func (t *trial) call(method, target string, body any) call {
	c := call{method: method, target: target, host: t.kit.Identity.PodName, boot: t.boot, challenge: []string{nonce()}}
	if body != nil {
		encoded, err := wire.Encode(body)
		if err != nil {
			panic(err) // our own values always encode
		}
		c.body, c.media = encoded, "application/json"
	}
	return c
}

// content is the body of a delivery, to be spoilt. A runtime may take it although it should not, so it is put away afterwards.
func (t *trial) content(k key, goal string) map[string]any {
	t.mine = append(t.mine, k)
	return map[string]any{
		"apiVersion": wire.APIVersion, "attempt": k.attempt, "target": t.target(), "journal": t.journal, "goal": goal,
		"run": map[string]any{"namespace": orElse(t.kit.Identity.Namespace, "default"), "name": "conformance", "uid": k.uid},
	}
}

func (t *trial) delivery(k key, goal string) call {
	return t.call(http.MethodPost, wire.RunsPath, t.content(k, goal))
}

// send sends a call; only a transport that fails ends the case.
func (t *trial) send(c call) answer {
	a, err := t.kit.exchange(t.ctx, c, t.kit.encode(c))
	if err != nil {
		t.fail("%v", err)
	}
	return a
}

// want ends the case unless an answer has a status, and, when it is a refusal, a code.
func (t *trial) want(a answer, status int, code wire.Code) {
	switch {
	case a.status != status:
		t.fail("%s: expected %s, got %s", a.what, describe(status, code), describe(a.status, a.problem.Code))
	case code != "" && a.problem.Code != code:
		t.fail("%s: expected code %s, got %s", a.what, code, orElse(string(a.problem.Code), "none"))
	}
}

func (t *trial) refused(a answer, code wire.Code) { t.want(a, code.Status(), code) }

func describe(status int, code wire.Code) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, code))
}

// fresh names a run that nobody has seen.
func fresh() key { return key{uid: "conformance-" + strings.ToLower(rand.Text()), attempt: 1} }

func (k key) next(n int64) key { return key{uid: k.uid, attempt: n} }

func (k key) path() string {
	return fmt.Sprintf("%s/%s?%s=%d", wire.RunsPath, k.uid, wire.QueryAttempt, k.attempt)
}

func (k key) recordedPath() string {
	return fmt.Sprintf("%s/%s%s?%s=%d", wire.RunsPath, k.uid, wire.RecordedSuffix, wire.QueryAttempt, k.attempt)
}

// accepted delivers a goal and waits until it is taken: an agent may still be starting.
func (t *trial) accepted(k key, goal string, limits map[string]any) answer {
	content := t.content(k, goal)
	if limits != nil {
		content["limits"] = limits
	}
	var a answer
	t.await("a delivery to be accepted", func() bool {
		a = t.send(t.call(http.MethodPost, wire.RunsPath, content))
		return a.problem.Code != wire.CodeAgentUnavailable
	})
	t.want(a, http.StatusAccepted, "")
	return a
}

func (t *trial) get(k key) answer { return t.send(t.call(http.MethodGet, k.path(), nil)) }

func (t *trial) state(k key) wire.Attempt {
	a := t.get(k)
	t.want(a, http.StatusOK, "")
	return as[wire.Attempt](t, a)
}

// until waits for one of some states.
func (t *trial) until(k key, states ...wire.State) wire.Attempt {
	var last wire.Attempt
	t.await(fmt.Sprintf("an attempt to be %v", states), func() bool {
		last = t.state(k)
		if last.State.Ended() && !slices.Contains(states, last.State) {
			t.fail("expected an attempt to be %v, got %s%s", states, last.State, ending(last))
		}
		return slices.Contains(states, last.State)
	})
	return last
}

// envelope is what a finished attempt has.
func (t *trial) envelope(a wire.Attempt) wire.Envelope {
	t.check(a.Envelope != nil, "expected a finished attempt to have its envelope")
	return *a.Envelope
}

func ending(a wire.Attempt) string {
	if a.Envelope == nil {
		return ""
	}
	return fmt.Sprintf(" (%s/%s)", a.Envelope.Outcome, a.Envelope.Reason)
}

// finished delivers the quick goal and waits for its end.
func (t *trial) finished(k key) wire.Attempt {
	t.accepted(k, t.kit.GoalQuick, nil)
	return t.until(k, wire.StateFinished)
}

// running delivers the slow goal and waits until it runs.
func (t *trial) running(k key) wire.Attempt {
	t.accepted(k, t.kit.GoalSlow, nil)
	return t.until(k, wire.StateRunning)
}

// maxFill bounds how many goals are delivered to fill a runtime.
const maxFill = 64

// occupied has the slow goal run in every place there is, so that what comes next is queued.
func (t *trial) occupied() key {
	t.check(t.capacity.Concurrency >= 1, "challenge: expected capacity.concurrency to be at least 1, got %d", t.capacity.Concurrency)
	if t.capacity.Concurrency+t.capacity.Queue > maxFill {
		t.doesNotApply("the runtime takes more than %d goals at once; check one that is configured with less", maxFill)
	}
	var one key
	for range t.capacity.Concurrency {
		one = fresh()
		t.running(one)
	}
	return one
}

// queued occupies the runtime and has one more goal wait.
func (t *trial) queued(goal string, limits map[string]any) (active, waiting key) {
	if t.capacity.Queue == 0 {
		t.doesNotApply("the runtime is configured without a queue")
	}
	active, waiting = t.occupied(), fresh()
	t.accepted(waiting, goal, limits)
	return active, waiting
}

// neverSeen ends the case when the runtime knows an attempt.
func (t *trial) neverSeen(k key) {
	a := t.get(k)
	t.check(a.status == http.StatusNotFound, "expected nothing to be journalled, but the attempt is shown with %d", a.status)
}

func (t *trial) cancel(k key, more string) answer {
	t.mine = append(t.mine, k)
	return t.send(t.call(http.MethodDelete, k.path()+more, nil))
}

func (t *trial) record(k key) answer { return t.send(t.call(http.MethodPost, k.recordedPath(), nil)) }

// await looks until something holds, at most for the kit's patience.
func (t *trial) await(what string, holds func() bool) {
	deadline := time.Now().Add(t.kit.Patience)
	for !holds() {
		t.check(time.Now().Before(deadline), "waited %s for %s", t.kit.Patience, what)
		t.pause(pollEvery)
	}
}

func (t *trial) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
		t.fail("interrupted")
	}
}

// putAway ends and records what the case delivered, so that the next one finds room.
func (t *trial) putAway() {
	if len(t.mine) == 0 {
		return
	}
	t.hello()
	known := map[key]bool{}
	for _, k := range t.mine {
		if a := t.get(k); a.status == http.StatusOK && !known[k] {
			known[k] = true
			if !as[wire.Attempt](t, a).State.Ended() {
				t.send(t.call(http.MethodDelete, k.path(), nil))
			}
		}
	}
	for k := range known {
		t.await("an attempt to end", func() bool { return t.state(k).State.Ended() })
		t.record(k)
	}
}
