package client

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// lie makes an answer that somebody on the path could give: a genuine one to something else, or one of another Pod.
type lie struct {
	sign func(r challenge.Request, status int, body []byte) string
	cut  bool // the body ends before its length says
}

func lies(t *testing.T) map[string]lie {
	t.Helper()
	keys, others := harness.Keys(t, "pod-1"), harness.Keys(t, "pod-2")
	other := func(change func(r *challenge.Request, status *int, body *[]byte)) lie {
		return lie{sign: func(r challenge.Request, status int, body []byte) string {
			change(&r, &status, &body)
			return keys.Answer(r, status, body)
		}}
	}
	return map[string]lie{
		"none":                {sign: func(challenge.Request, int, []byte) string { return "" }},
		"the proof sent back": {sign: func(r challenge.Request, _ int, _ []byte) string { return keys.Proof(r) }},
		"replayed: to the same request, earlier": other(func(r *challenge.Request, _ *int, _ *[]byte) {
			r.Challenge = strings.Repeat("A", challenge.Length)
		}),
		"to another method":      other(func(r *challenge.Request, _ *int, _ *[]byte) { r.Method = http.MethodPut }),
		"about another attempt":  other(func(r *challenge.Request, _ *int, _ *[]byte) { r.Target += "0" }),
		"to another boot":        other(func(r *challenge.Request, _ *int, _ *[]byte) { r.Boot = "former" }),
		"with another status":    other(func(_ *challenge.Request, status *int, _ *[]byte) { *status = http.StatusServiceUnavailable }),
		"over another body":      other(func(_ *challenge.Request, _ *int, body *[]byte) { *body = append([]byte(" "), *body...) }),
		"over more than arrived": {sign: keys.Answer, cut: true},
		"of another Pod": {sign: func(r challenge.Request, status int, body []byte) string {
			r.PodUID = "pod-2"
			return others.Answer(r, status, body)
		}},
		"by another Pod's key": {sign: others.Answer},
	}
}

// R26; SPEC.md, Challenge: a response whose answer is not the target's to this very request changes nothing: a run that goes on is
// not ended, an attempt that is there is not absent, a record that is not acknowledged is kept, and a send is Unknown.
func TestAResponseWithoutAValidAnswerChangesNothing(t *testing.T) {
	for name, how := range lies(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lying atomic.Bool
			told := &tally{count: map[string]int{}}
			h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP, Wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					aboutOne := r.URL.Path != wire.ChallengePath && (r.Method != http.MethodGet || r.URL.Path != wire.RunsPath)
					if !lying.Load() || !aboutOne {
						next.ServeHTTP(w, r)
						return
					}
					told.add(r.Method + " " + r.RequestURI)
					tell(t, w, r, how)
				})
			}})
			l := verifiedLink(t, plainConfig(t, h.Address))
			require.NoError(t, l.Send(request(l, "a", 1, harness.HoldPrefix+secretGoal), 99))
			eventually(t, "running", func() bool { _, s := seen(l, "a", 1); return s == wire.StateRunning })
			before := idle(t, l, "a", 1)

			lying.Store(true)
			call := func(about, target string, command func() error) Attempt {
				eventually(t, "told a lie", func() bool {
					if told.of(target) == 0 && !idle(t, l, about, 1).InFlight {
						_ = command() // the link may be challenging again, so it may not leave at once
					}
					return told.of(target) > 0
				})
				return idle(t, l, about, 1)
			}
			one := wire.RunsPath + "/uid-a"
			for target, command := range map[string]func(wire.RunRef, int64) error{
				"GET " + one + "?attempt=1": l.Look, "DELETE " + one + "?attempt=1": func(r wire.RunRef, n int64) error { return l.Cancel(r, n, Trace{}) },
				"DELETE " + one + "?attempt=1&ifNotStarted": l.Void, "POST " + one + wire.RecordedSuffix + "?attempt=1": l.Recorded,
			} {
				after := call("a", target, func() error { return command(runRef("a"), 1) })
				assert.Equal(t, before.Seen, after.Seen)
				assert.Equal(t, before.Sent, after.Sent)
				assert.False(t, after.Absent)
			}
			assert.Len(t, l.About("a"), 1, "nothing was recorded")
			sent := call("b", "POST "+wire.RunsPath, func() error { return l.Send(request(l, "b", 1, secretGoal), 99) })
			// Unknown, or not taken where it was sent again and the link had noticed; never what the liar said.
			assert.Contains(t, []delivery.SendOutcome{delivery.SendUnknown, delivery.SendNotTaken}, sent.Sent.Outcome)
			assert.Empty(t, sent.Sent.Code)
			assert.Nil(t, sent.Seen)
			lying.Store(false)
			h.Runner.Release("uid-a")
			eventually(t, "the true end", func() bool { _, s := seen(l, "a", 1); return s == wire.StateFinished })
		})
	}
}

// tally counts requests by method and target.
type tally struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[what]++
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[what]
}

// tell answers what would change everything, were it believed.
func tell(t *testing.T, w http.ResponseWriter, r *http.Request, how lie) {
	t.Helper()
	status, body := http.StatusOK, []byte(nil)
	var err error
	switch {
	case r.Method == http.MethodPost && r.URL.Path == wire.RunsPath:
		status = http.StatusBadRequest // Rejected, terminal
		body, err = wire.Encode(wire.Malformed("/goal", "another one"))
	case r.Method == http.MethodPost:
		status = http.StatusNoContent
	default:
		body, err = wire.Encode(wire.Attempt{Run: runRef("a"), Attempt: 1, Digest: "d", State: wire.StateFinished,
			Envelope: &wire.Envelope{APIVersion: wire.ResultAPIVersion, Outcome: wire.OutcomeFailed, Reason: wire.ReasonRefused}})
	}
	assert.NoError(t, err)
	asked := signedRequest(r)
	w.Header().Set(wire.HeaderAnswer, how.sign(asked, status, body))
	if how.cut && status != http.StatusNoContent {
		w.Header().Set("Content-Length", "100000")
	} else if how.cut {
		w.Header().Set(wire.HeaderAnswer, "") // nothing to cut
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
