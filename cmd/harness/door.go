package main

import (
	"context"
	"sync"

	"github.com/hearthdev/hearth/runtime/endpoint"
)

// door is port 4000: open while an agent answers, shut while none does, and for good once the harness drains.
type door struct {
	endpoint *endpoint.Endpoint

	mu   sync.Mutex
	shut bool
}

// set opens or closes the door. Who came through it is sent away with the agent, and may come again.
func (d *door) set(ctx context.Context, open bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !open:
		return d.endpoint.Close() //nolint:contextcheck // who leaves has time of its own
	case d.shut:
		return nil
	default:
		return d.endpoint.Bind(ctx)
	}
}

// drain shuts the door for good. Who is inside stays.
func (d *door) drain() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	return d.endpoint.Drain()
}

// close shuts the door for good and sends everybody away.
func (d *door) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	return d.endpoint.End()
}
