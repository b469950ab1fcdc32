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

// set opens or closes the door.
func (d *door) set(ctx context.Context, open bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !open || d.shut {
		return d.endpoint.Close()
	}
	return d.endpoint.Bind(ctx)
}

// close shuts the door for good.
func (d *door) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	return d.endpoint.Close()
}
