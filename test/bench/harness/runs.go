package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// warmRuns come before memory is looked at for the first time: buffers and pools have their size then.
const warmRuns = 100

// deliver carries out runs one after the other, as a controller has them carried out. It tells the resident memory after the first ones,
// and the processor time that the harness took for each of the others.
func (h *harness) deliver(ctx context.Context, runs int) (warm, cpuMillis float64, err error) {
	keys, err := challenge.Derive([]byte(root), podUID)
	if err != nil {
		return 0, 0, fmt.Errorf("keys: %w", err)
	}
	changed := make(chan struct{}, 1)
	link, err := client.New(client.Config{
		Target: wire.Identity{Namespace: "team", PodName: h.hostname, PodUID: podUID}, Address: h.delivery, Keys: keys, Now: time.Now, Random: rand.Reader,
		Log: slog.New(slog.DiscardHandler), Backoff: func(int) time.Duration { return 100 * time.Millisecond },
		Changed: func(client.Change) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return 0, 0, fmt.Errorf("link: %w", err)
	}
	link.Start()
	defer link.Close()
	until := func(what string, done func() bool) error {
		timeout := time.NewTimer(patience)
		defer timeout.Stop()
		for !done() {
			select {
			case <-changed:
			case <-timeout.C:
				return errors.New("it took too long: " + what)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	if err := until("a link", func() bool { s := link.Status(); return s.State == client.StateVerified && s.Listed }); err != nil {
		return 0, 0, err
	}
	var before time.Duration
	for i := range runs {
		if i == warmRuns {
			if warm, err = h.resident(); err != nil {
				return 0, 0, err
			}
			if before, err = h.used(); err != nil {
				return 0, 0, err
			}
		}
		if err := h.once(link, i, until); err != nil {
			return 0, 0, fmt.Errorf("run %d: %w", i, err)
		}
	}
	after, err := h.used()
	return warm, millis(after-before) / float64(max(runs-warmRuns, 1)), err
}

func (h *harness) once(link *client.Link, i int, until func(string, func() bool) error) error {
	run := wire.RunRef{Namespace: "team", Name: fmt.Sprint("run-", i), UID: fmt.Sprint("uid-", i)}
	status := link.Status()
	err := link.Send(client.Delivery{DeliveryRequest: wire.DeliveryRequest{
		APIVersion: wire.APIVersion, Run: run, Attempt: 1, Target: wire.Target{Name: h.hostname, UID: podUID}, Journal: status.Journal, Goal: "say: done ;; usage: 1 1",
	}}, 0)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	seen := func() *wire.Attempt {
		a, found := link.Snapshot(client.Key{RunUID: run.UID, Attempt: 1})
		if !found || a.InFlight {
			return nil
		}
		return a.Seen
	}
	if err := until("an end", func() bool { a := seen(); return a != nil && a.State.Ended() }); err != nil {
		return err
	}
	if err := link.Look(run, 1); err != nil {
		return fmt.Errorf("look: %w", err)
	}
	if err := until("a result", func() bool { a := seen(); return a != nil && a.Envelope != nil }); err != nil {
		return err
	}
	if outcome := seen().Envelope.Outcome; outcome != wire.OutcomeSucceeded {
		return fmt.Errorf("it ended %s", outcome)
	}
	if err := link.Recorded(run, 1); err != nil {
		return fmt.Errorf("recorded: %w", err)
	}
	return until("recorded", func() bool { return len(link.List()) == 0 })
}
