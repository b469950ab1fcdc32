package journal

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// settle ends what was running when the last boot ended (row 16). The goal was, or may have been, sent: it is never sent
// again by itself. What was only accepted stays so and will run (row 15). Before that, what was read is made durable, because it is told
// from here on: this boot may have made the journal, and the last one may have been killed before its last write was synced, or even
// before the journal's name was.
func (j *Journal) settle() error {
	if err := errors.Join(syncDir(j.cfg.Dir), j.syncAgain()); err != nil {
		return fmt.Errorf("sync what the last boot wrote: %w", full(err))
	}
	running := j.feed.inState(func(s wire.State) bool { return s == wire.StateRunning })
	now := j.now()
	old, err := j.old(now)
	if err != nil || len(running) == 0 && !old {
		return err
	}
	return j.settleThese(running, now)
}

// settleThese ends attempts, and drops what is too old.
func (j *Journal) settleThese(running []stored, now time.Time) error {
	err := j.update(&write{name: "settle", change: func(tx *bbolt.Tx, c *counts) error {
		j.settled = nil
		for i := range running {
			var work Work
			if _, err := get(tx.Bucket(bucketWork), running[i].key().bytes(), &work); err != nil {
				return err
			}
			envelope := interrupted(running[i].Attempt, now)
			running[i].Attempt.State, running[i].Attempt.FinishedAt = wire.StateFinished, &now
			if err := putChange(tx, c, running[i], &envelope); err != nil {
				return err
			}
			j.settled = append(j.settled, Unfinished{running[i].Attempt, work.Trace})
		}
		return dropOld(tx, c, int64(j.cfg.Keep), now.Add(-KeepFor))
	}, known: func() {
		for _, s := range running {
			j.feed.put(s)
		}
	}})
	if err != nil {
		return err
	}
	for _, s := range running {
		j.cfg.Log.Warn("an attempt was running when the last boot ended: it is finished as Interrupted",
			"runUID", s.Attempt.Run.UID, "attempt", s.Attempt.Attempt)
	}
	return nil
}

// old tells whether there is a recorded envelope to drop.
func (j *Journal) old(now time.Time) (old bool, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		_, _, old, err = oldest(tx, j.counts, int64(j.cfg.Keep), now.Add(-KeepFor))
		return err
	})
	return old, err
}

// Unfinished is an attempt that was running when the last boot ended, as it was settled, and the trace that it belongs to.
type Unfinished struct {
	wire.Attempt
	Trace Trace
}

// Unfinished are those that Open finished as Interrupted.
func (j *Journal) Unfinished() []Unfinished { return j.settled }

func interrupted(a wire.Attempt, now time.Time) wire.Envelope {
	started := now
	if a.StartedAt != nil {
		started = *a.StartedAt
	}
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion,
		Outcome:    wire.OutcomeInterrupted,
		Reason:     wire.ReasonInterrupted,
		Message:    "the harness ended while the attempt was running",
		Session:    a.Session,
		Timing:     wire.Timing{StartedAt: started, FinishedAt: now, DurationMillis: max(0, now.Sub(started).Milliseconds())},
	}
}
