package router

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Send sends a request and returns at once; the answer comes to the Call.
func (c *Conn) Send(method string, params any) (*Call, error) { return c.send(method, params, nil) }

func (c *Conn) send(method string, params any, first func(jsontext.Value)) (*Call, error) {
	call := &Call{id: c.nextID.Add(1), first: first}
	line, err := request(call.id, method, params)
	if err != nil {
		return nil, err
	}
	return call, c.ask(call, trimNewline(line), nil)
}

// Forward sends a client's request. Every byte but the id and a session's prefix is the client's, and answered is called with every byte of the
// answer, in the agent's order, by the goroutine that reads the agent. answered is called once, with an error where no answer
// will come: those of Conn.Call. It is not called when Forward returns an error.
func (c *Conn) Forward(f *Frame, by any, answered func(*Frame, error)) (*Call, error) {
	release, err := c.out.reserve(len(f.Raw))
	if err != nil {
		return nil, err
	}
	defer release()
	call := &Call{id: c.nextID.Add(1), answered: answered}
	return call, c.ask(call, oneLine(f.WithID(idText(call.id))), by)
}

// oneLine replaces the newlines between a message's parts: within a string there is none.
func oneLine(raw []byte) []byte {
	for i, b := range raw {
		if b == '\n' || b == '\r' {
			raw[i] = ' '
		}
	}
	return raw
}

// Withdraw asks the agent to give up a call; it still answers.
func (c *Conn) Withdraw(call *Call) error {
	return c.Notify(methodCancelRequest, map[string]uint64{"requestId": call.id})
}

// ask sends the request of a call. If it cannot be sent the call is forgotten.
func (c *Conn) ask(call *Call, raw []byte, by any) error {
	f, _ := Parse(raw, Lenient)
	call.method, call.session, call.done = f.Method, f.Session, make(chan struct{})
	if err := c.register(call); err != nil {
		return err
	}
	c.say(Said{Frame: f, Session: f.Session, Request: f.Method, ToAgent: true, By: by})
	if err := c.out.push(append(f.stripped(c.cfg.Prefix), '\n')); err != nil {
		if !c.forget(call) {
			return nil // the end of the connection has settled it
		}
		c.unanswered(call, err.Error())
		return err
	}
	return nil
}

func (c *Conn) register(call *Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.calls == nil {
		return fmt.Errorf("%w: %w", ErrClosed, c.err)
	}
	c.calls[call.id] = call
	return nil
}

// forget tells whether the call was still there.
func (c *Conn) forget(call *Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.calls[call.id]
	delete(c.calls, call.id)
	return there
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	line, err := message(nil, "method", method, "params", params)
	if err != nil {
		return err
	}
	return c.notify(trimNewline(line), nil)
}

// ForwardNotification sends a client's notification. Every byte but a session's prefix is the client's.
func (c *Conn) ForwardNotification(f *Frame, by any) error {
	release, err := c.out.reserve(len(f.Raw))
	if err != nil {
		return err
	}
	defer release()
	return c.notify(oneLine(bytes.Clone(f.Raw)), by)
}

func (c *Conn) notify(raw []byte, by any) error {
	f, _ := Parse(raw, Lenient)
	c.say(Said{Frame: f, Session: f.Session, Request: f.Method, ToAgent: true, By: by})
	return c.out.push(append(f.stripped(c.cfg.Prefix), '\n'))
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
		if c.forget(call) {
			c.unanswered(call, "nobody waits for the answer any more")
		}
		return nil, context.Cause(ctx)
	}
}

// Call is one request on its way.
type Call struct {
	id              uint64
	method, session string
	first           func(jsontext.Value) // run by the reader before anything that follows the answer is read
	answered        func(*Frame, error)  // of a forwarded request, in the place of everything below
	done            chan struct{}
	result          jsontext.Value
	err             error
}

// settle ends the call with its answer, or with why there is none.
func (c *Call) settle(f *Frame, err error) {
	if c.answered != nil {
		c.answered(f, err)
		close(c.done)
		return
	}
	switch {
	case err != nil:
		c.err = err
	case f.Error() != nil:
		c.err = rpcError(f.Error())
	default:
		c.result = f.Result()
		if c.first != nil {
			c.first(c.result)
		}
	}
	close(c.done)
}

// Done is closed when the answer is there, and everything the agent sent before it was delivered.
func (c *Call) Done() <-chan struct{} { return c.done }

// Result is the answer, after Done. The errors are those of Conn.Call. Of a forwarded request it is nothing.
func (c *Call) Result() (jsontext.Value, error) { return c.result, c.err }
