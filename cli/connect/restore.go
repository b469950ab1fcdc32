package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/coder/websocket"
)

// restore makes a new connection what the lost one was: it says the client's initialize and loads its sessions. The client does
// not see the answers, and of what is replayed only what it had not seen. Elsewhere, in another Pod, agents number their sessions
// anew: there a session is the one that was open only if it tells all that was seen of it.
func (b *Bridge) restore(ctx, deadline context.Context, conn *websocket.Conn, elsewhere bool) error {
	b.mu.Lock()
	initialize, hello, initialized := b.memory.initialize, b.memory.hello, b.memory.initialized
	sessions := b.memory.sessions
	b.mu.Unlock()
	switch {
	case hello != nil: // its answer goes to the client when it comes
		return conn.Write(deadline, websocket.MessageText, request([]byte(hello.id), methodInitialize, initialize))
	case !initialized:
		return nil
	}
	if refused, err := b.ask(ctx, conn, methodInitialize, initialize); err != nil {
		return fmt.Errorf("%s: %w", methodInitialize, err)
	} else if refused {
		return errors.New("the agent refused to initialize")
	}
	for _, s := range append([]*session(nil), sessions...) {
		if s.method == methodLoad {
			s.history.replay()
		}
		refused, err := b.ask(ctx, conn, s.method, s.params)
		same := s.method == methodLoad && s.history.whole()
		compared := s.history.over()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", s.method, err)
		case refused:
			b.Say("session %s could not be opened again", s.id)
			b.mu.Lock()
			b.memory.forget(s.id)
			b.mu.Unlock()
		case elsewhere && !same:
			b.Say("session %s is gone with the Pod that had it: begin a new one, or load one that is there", s.id)
			b.mu.Lock()
			s.gone = true
			b.mu.Unlock()
		case s.method == methodResume:
			b.Say("session %s goes on; what was said while the connection was down is not shown", s.id)
		case !compared:
			b.Say("session %s goes on; its agent tells its history in other words, so what was said while the connection was down is not shown", s.id)
		default:
			b.Say("session %s goes on without a gap", s.id)
		}
	}
	return nil
}

// ask makes a request of the bridge's own and tells whether it was refused. What else comes meanwhile goes its way.
func (b *Bridge) ask(ctx context.Context, conn *websocket.Conn, method string, params []byte) (refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	b.mu.Lock()
	id, message := b.memory.own(method, params)
	b.mu.Unlock()
	if err := conn.Write(ctx, websocket.MessageText, message); err != nil {
		return false, err
	}
	for {
		f, err := b.receiveOne(ctx, conn)
		if err != nil {
			return false, err
		}
		if f.response() && string(f.id) == id {
			return f.failed, nil
		}
	}
}
