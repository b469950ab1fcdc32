package router

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Send sends a request and returns at once; the answer comes to the Call.
func (c *Conn) Send(method string, params any) (*Call, error) { return c.send(method, params, nil) }

func (c *Conn) send(method string, params any, first func(jsontext.Value)) (*Call, error) {
	call := &Call{done: make(chan struct{}), first: first}
	c.mu.Lock()
	if c.err != nil || c.calls == nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrClosed, c.Err())
	}
	c.nextID++
	call.id = c.nextID
	c.calls[call.id] = call
	c.mu.Unlock()
	line, err := request(call.id, method, params)
	if err == nil {
		err = c.out.push(line)
	}
	if err != nil {
		c.forget(call)
		return nil, err
	}
	return call, nil
}

func (c *Conn) forget(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, call.id)
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	line, err := message(nil, "method", method, "params", params)
	if err != nil {
		return err
	}
	return c.out.push(line)
}

// Call sends a request and waits for its result. The error is an *RPCError when the agent answered one, Cause's when the
// connection ended, ErrLineTooLong, or ctx's; in the last case the answer is ignored when it comes.
func (c *Conn) Call(ctx context.Context, method string, params any) (jsontext.Value, error) {
	return c.wait(ctx, func() (*Call, error) { return c.Send(method, params) })
}

func (c *Conn) wait(ctx context.Context, send func() (*Call, error)) (jsontext.Value, error) {
	call, err := send()
	if err != nil {
		return nil, err
	}
	select {
	case <-call.Done():
		return call.Result()
	case <-ctx.Done():
		c.forget(call)
		return nil, context.Cause(ctx)
	}
}

// Call is one request on its way.
type Call struct {
	id     uint64
	first  func(jsontext.Value) // run by the reader before anything that follows the answer is read
	done   chan struct{}
	result jsontext.Value
	err    error
}

func (c *Call) settle(result jsontext.Value, err error) {
	c.result, c.err = result, err
	close(c.done)
}

// Done is closed when the answer is there, and everything the agent sent before it was delivered.
func (c *Call) Done() <-chan struct{} { return c.done }

// Result is the answer, after Done. The errors are those of Conn.Call.
func (c *Call) Result() (jsontext.Value, error) { return c.result, c.err }
