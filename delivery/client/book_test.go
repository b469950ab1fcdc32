package client

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func told(name string, attempt int64, state wire.State) wire.Attempt {
	return wire.Attempt{Run: runRef(name), Attempt: attempt, State: state, Digest: "digest"}
}

// Answers overtake one another. Within a journal an attempt only goes forward, and an envelope that was read stays read.
func TestAnAnswerThatWasOvertakenChangesNothing(t *testing.T) {
	at := time.Unix(1, 0)
	b := newBook()
	assert.True(t, b.learn(told("a", 1, wire.StateRunning), "j", at))
	assert.False(t, b.learn(told("a", 1, wire.StateAccepted), "j", at), "older")
	assert.False(t, b.learn(told("a", 1, wire.StateRunning), "j", at), "the same")
	cancelled := told("a", 1, wire.StateRunning)
	cancelled.CancelRequested = true
	assert.True(t, b.learn(cancelled, "j", at))
	finished := told("a", 1, wire.StateFinished)
	finished.Envelope = &wire.Envelope{Outcome: wire.OutcomeSucceeded}
	assert.True(t, b.learn(finished, "j", at.Add(time.Second)))
	assert.False(t, b.learn(told("a", 1, wire.StateFinished), "j", at), "the feed has no envelope")
	e := b.entries[Key{RunUID: "uid-a", Attempt: 1}]
	require.NotNil(t, e.Seen.Envelope)
	assert.Equal(t, at.Add(time.Second), e.SeenSince)
	assert.True(t, b.learn(told("a", 1, wire.StateAccepted), "j2", at), "another journal begins anew")
	assert.Equal(t, "j2", e.SeenJournal)
}

// A session's name is the agent's word. However long it is, the end of the attempt is not missed.
func TestALongSessionNameIsCut(t *testing.T) {
	b := newBook()
	a := told("a", 1, wire.StateFinished)
	a.Session = strings.Repeat("s", 10*wire.MaxNameBytes)
	assert.True(t, b.learn(a, "j", time.Time{}))
	e := b.entries[Key{RunUID: "uid-a", Attempt: 1}]
	assert.Equal(t, wire.StateFinished, e.Seen.State)
	assert.Len(t, e.Seen.Session, wire.MaxNameBytes)
}

// Bounded: a harness that lists without end fills no memory, and there is still room for what is sent to it.
func TestWhatAHarnessListsIsBounded(t *testing.T) {
	b := newBook()
	for i := range int64(maxAttempts + 100) {
		b.learn(told("a", i+1, wire.StateRunning), "j", time.Time{})
	}
	assert.Len(t, b.entries, maxAttempts)
	assert.Nil(t, b.open(runRef("b"), 1))

	b = newBook()
	for i := range int64(maxAttempts) {
		b.open(runRef("a"), i+1).Sent = delivery.Sent{Count: 1, Outcome: delivery.SendNotTaken}
	}
	assert.NotNil(t, b.open(runRef("b"), 1), "what was not taken makes room")
}

func TestImplausibleAttemptsAreLeftOut(t *testing.T) {
	for name, change := range map[string]func(*wire.Attempt){
		"no UID":          func(a *wire.Attempt) { a.Run.UID = "" },
		"a huge UID":      func(a *wire.Attempt) { a.Run.UID = strings.Repeat("x", wire.MaxUIDBytes+1) },
		"a huge name":     func(a *wire.Attempt) { a.Run.Name = strings.Repeat("x", wire.MaxNameBytes+1) },
		"attempt 0":       func(a *wire.Attempt) { a.Attempt = 0 },
		"a negative one":  func(a *wire.Attempt) { a.Attempt = -1 },
		"an odd state":    func(a *wire.Attempt) { a.State = "paused" },
		"a huge digest":   func(a *wire.Attempt) { a.Digest = strings.Repeat("x", wire.MaxUIDBytes+1) },
		"already over":    func(a *wire.Attempt) { a.State, a.Recorded = wire.StateFinished, true },
		"another's state": func(a *wire.Attempt) { a.State = "" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			a := told("a", 1, wire.StateRunning)
			change(&a)
			assert.False(t, b.learn(a, "j", time.Time{}))
			assert.Empty(t, b.entries)
		})
	}
}

// Retry-After is honoured within [1 s, 5 min].
func TestRetryAfterIsBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "0": time.Second, "2": 2 * time.Second, "999999": delivery.MaxBackoff, "-1": 0, "99999999999999999999": 0, "soon": 0,
		"Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		assert.Equal(t, want, retryAfter(header), "%q", header)
	}
}

// FuzzPage: whatever a harness puts on its feed, what is kept is plausible and bounded.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"revision":1,"runs":[{"run":{"namespace":"n","name":"r","uid":"u"},"attempt":1,"state":"running","digest":"d"}]}`))
	f.Add([]byte(`{"runs":[{"attempt":-1},{"run":{"uid":"u"},"attempt":1,"state":"voided"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var page wire.Changes
		if wire.DecodeAnswer(body, &page) != nil {
			return
		}
		b := newBook()
		for _, a := range page.Runs {
			b.learn(a, "j", time.Time{})
		}
		for k, e := range b.entries {
			if e.Seen == nil || !plausible(*e.Seen) || k.RunUID != e.Seen.Run.UID || k.Attempt != e.Seen.Attempt {
				t.Fatalf("kept %+v under %+v", e.Seen, k)
			}
		}
		running, accepted := b.alive("j")
		if running+accepted > len(b.entries) {
			t.Fatal("counts more than there are")
		}
	})
}

// What a target may hold that somebody waits for keeps its Pod from being taken away: an unrecorded result and a send of which nobody
// knows what came are such.
func TestWhatATargetMayHoldIsCounted(t *testing.T) {
	const journal = "j"
	finished := told("a", 1, wire.StateFinished)
	recorded := finished
	recorded.Recorded = true
	for name, c := range map[string]struct {
		entry entry
		held  int
	}{
		"accepted":                           {entry{Attempt: Attempt{Seen: ref(told("a", 1, wire.StateAccepted)), SeenJournal: journal}}, 1},
		"running":                            {entry{Attempt: Attempt{Seen: ref(told("a", 1, wire.StateRunning)), SeenJournal: journal}}, 1},
		"ended, not recorded":                {entry{Attempt: Attempt{Seen: &finished, SeenJournal: journal}}, 1},
		"ended and recorded":                 {entry{Attempt: Attempt{Seen: &recorded, SeenJournal: journal}}, 0},
		"voided":                             {entry{Attempt: Attempt{Seen: ref(told("a", 1, wire.StateVoided)), SeenJournal: journal}}, 0},
		"in a journal that was lost":         {entry{Attempt: Attempt{Seen: ref(told("a", 1, wire.StateRunning)), SeenJournal: "other"}}, 0},
		"a call under way":                   {entry{Attempt: Attempt{InFlight: true}}, 1},
		"sent, nobody knows what came":       {entry{Attempt: Attempt{Sent: delivery.Sent{Count: 1}}}, 1},
		"sent and accepted, not told yet":    {entry{Attempt: Attempt{Sent: delivery.Sent{Count: 1, Outcome: delivery.SendAccepted}}}, 1},
		"sent, and since found to be absent": {entry{Attempt: Attempt{Sent: delivery.Sent{Count: 1}, Absent: true}}, 0},
		"not taken":                          {entry{Attempt: Attempt{Sent: delivery.Sent{Count: 1, Outcome: delivery.SendNotTaken}}}, 0},
		"only looked for":                    {entry{}, 0},
	} {
		b := newBook()
		b.entries[Key{RunUID: "uid-a", Attempt: 1}] = &c.entry
		assert.Equal(t, c.held, b.held(journal), name)
	}
}

func ref[T any](v T) *T { return &v }
