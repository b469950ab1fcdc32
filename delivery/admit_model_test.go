package delivery

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// book is a harness reduced to its decisions: what Admit and Cancel allow is carried out, and nothing else.
type book struct {
	attempts map[int64]*Known
	ran      map[int64]int   // how often the goal of an attempt was sent to the agent
	ended    map[int64]Known // what a terminal state was when it was first seen
	highest  int64
}

func (b *book) held(attempt int64) Held {
	h := ready()
	h.Capacity = wire.Capacity{Concurrency: 1, Queue: 100}
	h.Same, h.Highest = b.attempts[attempt], b.highest
	for n, k := range b.attempts {
		if !k.State.Ended() {
			h.Active = n
		}
	}
	return h
}

func (b *book) put(attempt int64, k Known) {
	k.Attempt.Attempt = attempt
	b.attempts[attempt] = &k
	b.highest = max(b.highest, attempt)
}

func (b *book) pick(t *rapid.T, state wire.State) *Known {
	for n := int64(1); n <= b.highest; n++ { // in order, so that a failure can be replayed
		if k := b.attempts[n]; k != nil && k.State == state {
			return k
		}
	}
	t.Skip("none is " + string(state))
	return nil
}

// SPEC.md, Attempt states: in any order of deliveries, cancels, starts, ends, records and crashes at most one attempt of a run
// is alive, a tombstone never runs again (I1, row 54), and an ended attempt never changes (I2).
func TestAttemptsOfARunKeepTheirInvariantsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &book{attempts: map[int64]*Known{}, ran: map[int64]int{}, ended: map[int64]Known{}}
		number := rapid.Int64Range(1, 5)
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				r := testRequest(number.Draw(t, "attempt"))
				if rapid.Bool().Draw(t, "another goal") {
					r.Goal = "Review something else."
				}
				if a := Admit(testIdentity(), testJournal, r, b.held(r.Attempt)); a.Kind == AdmissionAccept {
					b.put(r.Attempt, Known{Attempt: wire.Attempt{State: wire.StateAccepted, Digest: wire.Digest(r.Run.UID, r.Attempt, r.Goal)}})
				}
			},
			"cancel": func(t *rapid.T) {
				n := number.Draw(t, "attempt")
				c := Cancel(b.held(n), rapid.Bool().Draw(t, "if not started"))
				if c.Kind == CancellationVoid {
					digest := ""
					if c.Known != nil {
						digest = c.Known.Digest
					}
					b.put(n, Known{Attempt: wire.Attempt{State: wire.StateVoided, Digest: digest}})
				}
			},
			"start": func(t *rapid.T) {
				k := b.pick(t, wire.StateAccepted)
				k.State = wire.StateRunning
				b.ran[k.Attempt.Attempt]++
			},
			"finish": func(t *rapid.T) { b.pick(t, wire.StateRunning).State = wire.StateFinished },
			"crash and settle": func(*rapid.T) {
				for _, k := range b.attempts {
					if k.State == wire.StateRunning {
						k.State = wire.StateFinished
					}
				}
			},
			"record": func(t *rapid.T) {
				n := number.Draw(t, "attempt")
				if Record(b.held(n)) == nil {
					b.attempts[n].Recorded, b.attempts[n].Forgotten = true, b.attempts[n].State == wire.StateFinished
				}
			},
			"": func(t *rapid.T) { b.check(t) },
		})
	})
}

func (b *book) check(t *rapid.T) {
	alive := 0
	for n, k := range b.attempts {
		assert.LessOrEqual(t, b.ran[n], 1, "attempt %d ran twice", n)
		if !k.State.Ended() {
			alive++
			continue
		}
		before, seen := b.ended[n]
		if !seen {
			b.ended[n] = *k
			continue
		}
		assert.Equal(t, before.State, k.State, "attempt %d changed after its end", n)
		assert.Equal(t, before.Digest, k.Digest, "attempt %d changed after its end", n)
		if k.State == wire.StateVoided {
			assert.Zero(t, b.ran[n], "voided attempt %d ran", n)
		}
	}
	assert.LessOrEqual(t, alive, 1, "two attempts of one run are alive")
}
