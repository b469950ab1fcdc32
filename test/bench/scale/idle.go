package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hearthdev/hearth/test/bench/rig"
)

// idleFor is how long nothing happens: longer than one held request of the feed.
const idleFor = 30 * time.Second

// idle is what targets without work cost.
type idle struct {
	cpu rig.CPU // in a second
	// requests are the controller's to the API server, answered in a second.
	requests float64
}

func (i idle) String() string {
	millis := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	return fmt.Sprintf("a second: controller %.1f ms, API server %.1f ms, etcd %.1f ms, harnesses %.1f ms; %.2f requests to the API server",
		millis(i.cpu.Controller), millis(i.cpu.APIServer), millis(i.cpu.Etcd), millis(i.cpu.Node), i.requests)
}

// rested waits until no Event is left to be written: there are more than are written in the time that a load takes.
func rested(ctx context.Context, r *rig.Rig) error {
	posts := -1.0
	return until(ctx, r, patience, "the last Event", func(m metrics) bool {
		before := posts
		posts = m.sum("rest_client_requests_total", `method="POST"`)
		return posts == before
	})
}

// idling measures it.
func idling(ctx context.Context, r *rig.Rig) (idle, error) {
	var i idle
	before, err := r.CPU()
	if err != nil {
		return i, err
	}
	asked, err := scrape(ctx, r)
	if err != nil {
		return i, err
	}
	began := time.Now()
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return i, ctx.Err()
	}
	after, err := r.CPU()
	if err != nil {
		return i, err
	}
	then, err := scrape(ctx, r)
	if err != nil {
		return i, err
	}
	seconds := time.Since(began).Seconds()
	spent := after.Since(before)
	for _, d := range []*time.Duration{&spent.APIServer, &spent.Etcd, &spent.Controller, &spent.Node} {
		*d = time.Duration(float64(*d) / seconds)
	}
	i.cpu = spent
	i.requests = (then.sum("rest_client_requests_total") - asked.sum("rest_client_requests_total")) / seconds
	return i, nil
}
